"""Lines of numbers by pyarrow, which parses CSV and JSON several times as fast, and lets other threads run.

It gives the same numbers. What it does not take, or takes in another way, is left to the parsers of single lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

LEAST_LINES = 100  # that are worth a call

Numbers = npt.NDArray[np.float64]


def arrow_lines() -> ArrowLines | None:
    """Return a parser, if pyarrow is installed.

    It is loaded here and not by the thread that reads ahead, which may be left behind when the program ends.
    """
    try:
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.json  # noqa: F401
    except ImportError:
        return None
    return ArrowLines()


class ArrowLines:
    """Parse many lines at once."""

    def csv(self, lines: list[bytes], places: Sequence[int]) -> Numbers | None:
        """Return the numbers at some places of lines without quotes, (N, D); None if they need a closer look.

        Parameters
        ----------
        lines : list of bytes
            Lines of CSV, all with as many columns as the first one.
        places : sequence of int
            The columns to return.
        """
        if len(lines) < LEAST_LINES:
            return None
        from pyarrow import ArrowException, BufferReader
        from pyarrow.csv import read_csv

        options = _csv_options(lines[0].count(b",") + 1, tuple(places))
        try:
            table = read_csv(BufferReader(b"".join(lines)), **options)
        except ArrowException:
            return None
        return _numbers(table, len(lines))

    def json(self, lines: list[bytes], names: Sequence[str], *, others: bool) -> Numbers | None:
        """Return the numbers of objects by name, (N, D), NaN where one has none; None if they need a closer look.

        Parameters
        ----------
        lines : list of bytes
            Lines of JSON.
        names : sequence of str
            The names to return.
        others : bool
            Whether objects may have other names, too.
        """
        if len(lines) < LEAST_LINES or not all(line.startswith(b"{") for line in lines):
            return None
        from pyarrow import ArrowException, BufferReader
        from pyarrow.json import ReadOptions, read_json

        data = b"".join(lines)
        read = ReadOptions(use_threads=False, block_size=len(data) + 1)
        try:
            table = read_json(BufferReader(data), read_options=read, parse_options=_json_options(tuple(names), others))
        except ArrowException:
            return None
        return _numbers(table.select(list(names)), len(lines))


@lru_cache(maxsize=8)
def _csv_options(count: int, places: tuple[int, ...]) -> dict[str, Any]:
    from pyarrow import csv, float64

    names = [str(i) for i in range(count)]
    chosen = [str(i) for i in places]
    return {
        "read_options": csv.ReadOptions(column_names=names, use_threads=False, block_size=1 << 26),
        "parse_options": csv.ParseOptions(quote_char=False, ignore_empty_lines=False),
        "convert_options": csv.ConvertOptions(
            column_types=dict.fromkeys(chosen, float64()), include_columns=chosen, null_values=[], check_utf8=False
        ),
    }


@lru_cache(maxsize=8)
def _json_options(names: tuple[str, ...], others: bool) -> Any:
    from pyarrow import float64, json, schema

    return json.ParseOptions(
        explicit_schema=schema([(name, float64()) for name in names]),
        unexpected_field_behavior="ignore" if others else "error",
    )


def _numbers(table: Any, count: int) -> Numbers | None:
    """Return a table as an array, if it has one row for each line."""
    from pyarrow.compute import fill_null

    if table.num_rows != count:
        return None
    rows = np.empty((count, table.num_columns))
    for place, column in enumerate(table.columns):
        whole = fill_null(column, np.nan) if column.null_count else column
        done = 0
        for part in whole.chunks:  # not to_numpy, which loads pandas
            rows[done : done + len(part), place] = np.frombuffer(part.buffers()[1])[part.offset :][: len(part)]
            done += len(part)
    return rows
