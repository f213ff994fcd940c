"""Where steps run: on this thread, or on replicas in several."""

from __future__ import annotations

from typing import Any

from streamgmm import rules
from streamgmm.engines.threads import Replicated, together

__all__ = ["Replicated", "from_settings", "together"]


def from_settings(settings: dict[str, Any]) -> rules.Rule:
    """The rule that ``Rule.settings`` described, on replicas if it was."""
    if settings.get("name") != Replicated.name:
        return rules.from_settings(settings)
    return Replicated(rules.from_settings(settings["rule"]), int(settings["replicas"]))
