"""Update rules. Each is a frozen set of settings with an explicit state; see ``rules.base``."""

from __future__ import annotations

from typing import Any

from streamgmm.rules.base import Moment, Rule, RuleState, Work
from streamgmm.rules.natural import Natural
from streamgmm.rules.sgd import SGD
from streamgmm.rules.stochastic_em import StochasticEM

__all__ = ["RULES", "SGD", "Moment", "Natural", "Rule", "RuleState", "StochasticEM", "Work", "from_settings"]

RULES: dict[str, type[Rule]] = {rule.name: rule for rule in (SGD, Natural, StochasticEM)}


def from_settings(settings: dict[str, Any]) -> Rule:
    """The rule that ``Rule.settings`` described."""
    values = dict(settings)
    name = values.pop("name", None)
    if name not in RULES:
        raise ValueError(f"rule {name!r} is unknown; this version has {', '.join(RULES)}.")
    return RULES[name](**values)
