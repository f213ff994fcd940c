"""Sinks: where scores go.

>>> import sys
>>> import numpy as np
>>> with open_sink(None, sys.stdout) as write:
...     write({"row": np.arange(2), "score": np.array([0.5, 0.25])})
row,score
0,0.5
1,0.25
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from streamgmm.errors import StreamGMMError
from streamgmm.sinks.base import Columns, Write, replace_when_complete
from streamgmm.sinks.csv_file import csv_writer
from streamgmm.sinks.ndjson_file import ndjson_writer
from streamgmm.sinks.parquet_file import parquet_writer

__all__ = ["Columns", "Write", "open_sink"]

_TEXTS = ("csv", "ndjson", "jsonl")


@contextmanager
def open_sink(
    path: Path | None,
    out: TextIO,
    format: str = "csv",  # noqa: A002
    id_type: Any = None,
    formulas: bool = False,
    types: Mapping[str, Any] | None = None,
) -> Iterator[Write]:
    """Give a function that writes columns to a file, or to a stream if there is no file.

    The file appears once it is complete. After an error, a file of that name is unchanged.

    Parameters
    ----------
    path : Path or None
        The file to create or overwrite. Its suffix decides on the format: .csv, .ndjson, .jsonl or .parquet.
    out : TextIO
        Where to write without a path. It is flushed after every call.
    format : {"csv", "ndjson"}, default="csv"
        Format without a path.
    id_type : pyarrow.DataType or None, default=None
        Type of the column ``id`` in a Parquet file; None to infer it.
    formulas : bool, default=False
        Whether to write text to CSV unchanged, even if a spreadsheet would treat it as a formula.
    types : mapping of str to pyarrow.DataType or None, default=None
        Types of other columns of objects in a Parquet file; those that are not named are inferred.
    """
    name = format if path is None else path.suffix.lstrip(".").lower()
    if name == "parquet" and path is not None:
        known = {"id": id_type, **(types or {})}
        with replace_when_complete(path) as temporary, parquet_writer(temporary, known) as write:
            yield write
    elif name not in _TEXTS:
        expected = "csv or ndjson" if path is None else "csv, ndjson or parquet"
        raise StreamGMMError(
            f"unknown format {name!r} of {'output' if path is None else path.name}; expected {expected}."
        )
    elif path is None:
        yield _flushed(_text_writer(name, out, formulas), out)
    else:
        with replace_when_complete(path) as temporary, temporary.open("w", newline="", encoding="utf8") as file:
            yield _text_writer(name, file, formulas)


def _text_writer(name: str, file: TextIO, formulas: bool) -> Write:
    return csv_writer(file, formulas) if name == "csv" else ndjson_writer(file)


def _flushed(write: Write, out: TextIO) -> Write:
    """Flush after every call, so that a reader of the stream never waits for rows that are written."""

    def write_and_flush(columns: Columns) -> None:
        write(columns)
        out.flush()

    return write_and_flush
