"""NDJSON: one JSON object per line and row."""

from __future__ import annotations

import json
from math import isfinite
from typing import Any, TextIO

from streamgmm.sinks.base import Columns, Write


def ndjson_writer(file: TextIO) -> Write:
    """Return a function that writes columns as NDJSON.

    Parameters
    ----------
    file : TextIO
        Where to write.
    """

    def write(columns: Columns) -> None:
        for values in zip(*(v.tolist() for v in columns.values()), strict=True):
            record = {name: _finite(value) for name, value in zip(columns, values, strict=True)}
            file.write(json.dumps(record, default=_to_text, allow_nan=False) + "\n")

    return write


def _finite(value: Any) -> Any:
    """Return None for NaN and infinity, which JSON does not have, also within lists and objects."""
    if isinstance(value, list):
        return [_finite(item) for item in value]
    if isinstance(value, dict):
        return {name: _finite(item) for name, item in value.items()}
    return None if isinstance(value, float) and not isfinite(value) else value


def _to_text(value: Any) -> str:
    """Return a value that JSON does not have, such as a time, as text."""
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
