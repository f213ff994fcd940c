"""Update rules. Each is a frozen set of settings with an explicit state; see `Rule`."""

from __future__ import annotations

from typing import Any, TypeVar

from streamgmm.core.registry import require_free
from streamgmm.core.rules.base import Rule
from streamgmm.core.rules.context import Context
from streamgmm.core.rules.moments import MomentState
from streamgmm.core.rules.natural import Natural
from streamgmm.core.rules.sgd import SGD
from streamgmm.core.rules.stochastic_em import StochasticEM

__all__ = [
    "RULES",
    "SGD",
    "Context",
    "MomentState",
    "Natural",
    "Rule",
    "StochasticEM",
    "register_rule",
    "rule_from_settings",
]

RULES: dict[str, type[Rule[Any]]] = {}
"""Rules by name; see `streamgmm.register_rule`."""

R = TypeVar("R", bound=type[Rule[Any]])


def register_rule(rule: R) -> R:
    """Make a rule known by its name, for ``rule="name"`` and for model files; usable as a class decorator.

    Parameters
    ----------
    rule : type
        A subclass of `Rule` that is a frozen dataclass and can be constructed without arguments.

    Returns
    -------
    type
        The same class.
    """
    require_free(rule.name, rule, RULES.get(rule.name))
    RULES[rule.name] = rule
    return rule


def rule_from_settings(settings: dict[str, Any]) -> Rule[Any]:
    """Return the rule that ``Rule.settings`` described; raise ValueError if its name is unknown."""
    values = dict(settings)
    name = values.pop("name", None)
    if name not in RULES:
        raise ValueError(
            f"rule {name!r} is unknown; known rules are {', '.join(RULES)}. "
            "If it is a rule of your own, import the module that registers it first."
        )
    return RULES[name](**values)


for _rule in (SGD, Natural, StochasticEM):
    register_rule(_rule)
