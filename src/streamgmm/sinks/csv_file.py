"""CSV: a heading, then one line per row."""

from __future__ import annotations

import csv
from typing import TextIO

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
        lines.writerows(zip(*(columns[name].tolist() for name in names), strict=True))

    return write
