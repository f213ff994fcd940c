"""CSV: a heading, then one line per row."""

from __future__ import annotations

import csv
import json
import unicodedata
from typing import Any, TextIO

import numpy.typing as npt

from streamgmm.sinks.base import Columns, Write

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how texts begin that spreadsheets compute


def csv_writer(file: TextIO, formulas: bool = False) -> Write:
    """Return a function that writes columns as CSV.

    Ids come from outside: one that a spreadsheet would compute gets an apostrophe in front of it, and a terminal gets
    no control characters.

    Parameters
    ----------
    file : TextIO
        Where to write.
    formulas : bool, default=False
        Whether to write texts as they are instead.

    Examples
    --------
    >>> import sys
    >>> import numpy as np
    >>> csv_writer(sys.stdout)({"id": np.array(["=2*3", "-5", "a"], object)})
    id
    '=2*3
    -5
    a
    """
    screen = file.isatty()
    lines = csv.writer(file, lineterminator="\n")
    names: list[str] = []

    def write(columns: Columns) -> None:
        if not names:
            names.extend(columns)
            lines.writerow(names)
        lines.writerows(zip(*(_cells(columns[name], formulas, screen) for name in names), strict=True))

    return write


def _cells(values: npt.NDArray[Any], formulas: bool, screen: bool) -> list[Any]:
    """Return the cells of a column; those that hold lists as JSON."""
    if values.dtype != object:
        return list(values.tolist())
    cells = [json.dumps(value) if isinstance(value, list) else value for value in values.tolist()]
    if not formulas:
        cells = [_inert(cell) if isinstance(cell, str) else cell for cell in cells]
    return [_printable(cell) if isinstance(cell, str) else cell for cell in cells] if screen else cells


def _inert(text: str) -> str:
    return f"'{text}" if text.startswith(FORMULA) and not _is_number(text) else text


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii() and text.isprintable()


def _printable(text: str) -> str:
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf") and c not in "\n\t" else c for c in text)
