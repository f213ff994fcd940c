"""CSV: a heading, then one line per row."""

from __future__ import annotations

import csv
import json
import unicodedata
from typing import Any, TextIO

import numpy.typing as npt

from streamgmm.sinks.base import Columns, Write, writable

FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how texts begin that spreadsheets compute


def csv_writer(file: TextIO, formulas: bool = False) -> Write:
    """Return a function that writes columns as CSV.

    Names and texts come from outside: a text that a spreadsheet would compute gets an apostrophe in front of it, and a
    terminal gets no control characters.

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
            lines.writerow([_text(name, formulas, screen) for name in names])
        lines.writerows(zip(*(_cells(columns[name], formulas, screen) for name in names), strict=True))

    return write


def _cells(values: npt.NDArray[Any], formulas: bool, screen: bool) -> list[Any]:
    """Return the cells of a column; those that hold lists or objects as JSON."""
    if values.dtype != object:
        return list(values.tolist())
    cells = [json.dumps(v, default=str) if isinstance(v, list | dict) else v for v in values.tolist()]
    return [_text(cell, formulas, screen) if isinstance(cell, str) else cell for cell in cells]


def _text(cell: str, formulas: bool, screen: bool) -> str:
    cell = writable(cell if formulas else _inert(cell))
    return _printable(cell) if screen else cell


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
