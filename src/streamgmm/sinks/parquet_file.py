"""Parquet files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from streamgmm.errors import MissingExtraError, Remedy, StreamGMMError
from streamgmm.sinks.base import Columns, Write, writable


@contextmanager
def parquet_writer(path: Path, types: Mapping[str, Any]) -> Iterator[Write]:
    """Give a function that writes columns to a Parquet file. The first call decides on their types.

    Parameters
    ----------
    path : Path
        The file to create.
    types : mapping of str to pyarrow.DataType or None
        Types of columns of objects; None to infer one.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as problem:
        raise MissingExtraError("Parquet files require pyarrow", "parquet") from problem
    file: Any = None

    def write(columns: Columns) -> None:
        nonlocal file
        table = pa.table(
            {
                name: values if values.dtype != object else _column(pa, values, types.get(name))
                for name, values in columns.items()
            }
        )
        if file is None:
            file = pq.ParquetWriter(path, table.schema)
        if table.schema != file.schema:
            raise _schema_error(columns, table.schema, file.schema)
        file.write_table(table)

    try:
        yield write
        if file is None:  # no rows: a file without columns
            pq.write_table(pa.table({}), path)
    finally:
        if file is not None:
            file.close()


def _schema_error(columns: Columns, schema: Any, expected: Any) -> StreamGMMError:
    changed = next((name for name in expected.names if name not in schema.names), None)
    if changed is not None or len(schema) != len(expected):
        return StreamGMMError(f"rows have the columns {', '.join(schema.names)}; expected {', '.join(expected.names)}.")
    changed = next(name for name in expected.names if schema.field(name).type != expected.field(name).type)
    place = f" from row {columns['row'][0]}" if "row" in columns and len(columns["row"]) else ""
    return StreamGMMError(
        f"values of column {changed!r}{place} are {schema.field(changed).type}; "
        f"expected {expected.field(changed).type}, as before.",
        Remedy.WRITE_TEXT,
    )


def _column(pa: Any, values: npt.NDArray[Any], kind: Any) -> Any:
    """Return a column of objects: of their own type if they have one, otherwise text."""
    try:
        column = pa.array([writable(v) if isinstance(v, str) else v for v in values.tolist()], kind)
    except (pa.ArrowException, OverflowError):
        column = pa.array([None if v is None else writable(str(v)) for v in values], pa.string())
    return column.cast(pa.string()) if kind is None and pa.types.is_null(column.type) else column
