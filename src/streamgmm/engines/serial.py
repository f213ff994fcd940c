"""One replica on the calling thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from streamgmm.core.covariance import Work
from streamgmm.core.engine import Engine, Replica
from streamgmm.core.rules import Rule
from streamgmm.native import Steps


@dataclass(frozen=True)
class Serial(Engine):
    """Takes every step on the calling thread; a round is a single call."""

    name: ClassVar[str] = "serial"
    at_once: ClassVar[bool] = True

    def advance(self, rule: Rule[Any], main: Replica, state: None, work: Work, coming: Sequence[Work] = ()) -> Steps:
        return rule.advance(main.state, main.parameters, work)
