"""Settings of rules as plain numbers."""

from __future__ import annotations

from dataclasses import fields
from typing import Any


def plain_numbers(rule: Any) -> None:
    """Convert settings to Python floats and ints, whatever a user gave: the state takes its types from them."""
    for setting in fields(rule):
        value = getattr(rule, setting.name)
        for kind in (float, int):
            if str(setting.type).startswith(kind.__name__) and value is not None:
                object.__setattr__(rule, setting.name, kind(value))
