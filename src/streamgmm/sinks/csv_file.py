"""CSV: a heading, then one line per row."""

from __future__ import annotations

import csv
import json
from typing import Any, TextIO

import numpy.typing as npt

from streamgmm.sinks.base import Columns, Write


def csv_writer(file: TextIO) -> Write:
    """Return a function that writes columns as CSV.

    Parameters
    ----------
    file : TextIO
        Where to write.
    """
    lines = csv.writer(file, lineterminator="\n")
    names: list[str] = []

    def write(columns: Columns) -> None:
        if not names:
            names.extend(columns)
            lines.writerow(names)
        lines.writerows(zip(*(_cells(columns[name]) for name in names), strict=True))

    return write


def _cells(values: npt.NDArray[Any]) -> list[Any]:
    """Return the cells of a column; those that hold lists as JSON."""
    if values.dtype != object:
        return list(values.tolist())
    return [json.dumps(value) if isinstance(value, list) else value for value in values.tolist()]
