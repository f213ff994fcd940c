"""What an update rule is: settings that never change, and functions on an explicit state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.grid import Filters
from streamgmm.kernels import Floats, Parameters, Steps

RuleState = dict[str, npt.NDArray[Any]]
"""Everything that a rule remembers between steps, by name; it goes into a checkpoint as it is."""


class Moment(NamedTuple):
    """The end of a period, as a rule sees it."""

    sigma: float
    shrunk: bool


class Rule(ABC):
    """Turns samples into better parameters.

    A rule is a frozen dataclass of settings. The training loop owns the parameters and the rule's state, calls
    ``advance`` with samples up to the next check, then ``check``.
    """

    name: ClassVar[str]

    @abstractmethod
    def start(self, parameters: Parameters, annealed: bool) -> RuleState:
        """The state before the first sample; ``annealed`` says whether σ will fall."""

    @abstractmethod
    def advance(
        self,
        state: RuleState,
        parameters: Parameters,
        x: Floats,
        filters: Filters,
        batch_size: int,
        scale_bounds: tuple[float, float],
    ) -> Steps:
        """Takes steps over whole batches of rows; changes ``parameters`` and ``state`` in place."""

    @abstractmethod
    def check(self, state: RuleState, parameters: Parameters, moment: Moment, rng: np.random.Generator) -> None:
        """Ends a period: adapts ``state`` (and, where a rule repairs components, ``parameters``) in place."""

    @abstractmethod
    def learning_rate(self, state: RuleState) -> float:
        """The rate in force, for reports."""

    def settings(self) -> dict[str, Any]:
        """The rule as plain data, for files."""
        return {"name": self.name, **asdict(self)}  # type: ignore[call-overload]
