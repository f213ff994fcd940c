"""Columns of Parquet and Arrow files: which ones are features, and their values as rows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.native import rows_of_columns
from streamgmm.sources.base import Columns, ReadOptions

LONGEST_ID = 100_000  # characters


@dataclass(frozen=True)
class TableColumns:
    """The columns of a table that are read.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    features : list of str
        Names of the columns of numbers, or of the one column of vectors.
    vector : pyarrow.DataType or None
        Type of the column of vectors, if the features are one.
    id_type : pyarrow.DataType or None
        Type of the column of ids, if there is one.
    options : ReadOptions
        How to read the table.
    left_out : sequence of str, default=()
        Names of columns that hold no numbers.
    everything : mapping of str to pyarrow.DataType or None, default=None
        All columns and their types, if those that are not features are wanted, too.
    """

    source: str
    features: list[str]
    vector: Any
    id_type: Any
    options: ReadOptions
    left_out: Sequence[str] = ()
    everything: Mapping[str, Any] | None = None

    @property
    def names(self) -> list[str]:
        """All columns to read."""
        key = self.options.id_column
        return list(dict.fromkeys([*self.features, *([key] if key else []), *(self.everything or ())]))

    @property
    def texts(self) -> list[str]:
        """Columns of text to read as a dictionary, so that rows share their values: copies might fill the memory."""
        key = self.options.id_column
        types = {**({key: self.id_type} if key else {}), **(self.everything or {})}
        return [name for name, kind in types.items() if "string" in str(kind)]

    @property
    def fixed_width(self) -> int | None:
        """Number of features, if the schema says it."""
        if self.vector is None:
            return len(self.features)
        return int(self.vector.list_size) if hasattr(self.vector, "list_size") else None

    @property
    def _allows_gaps(self) -> bool:
        """Whether NaN may stand for null. If bad rows are skipped, those with NaN are found later."""
        return self.options.missing or self.options.skip_bad

    def ids(self, batch: Any) -> tuple[Any, ...] | None:
        """Return the ids of a record batch.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows of the table.
        """
        key = self.options.id_column
        if key is None:
            return None
        ids = _values(batch.column(key))
        longest = max((len(value) for value in ids if isinstance(value, str | bytes)), default=0)
        if longest > LONGEST_ID:
            raise SourceError(
                f"column {self.options.id_column!r} of {self.source} has an id of {longest:,} characters; expected at "
                f"most {LONGEST_ID:,}.",
                Remedy.NAME_ID,
            )
        return tuple(ids)

    def all_columns(self, batch: Any) -> Columns | None:
        """Return all columns of a record batch, if they are wanted; see ``Chunk.columns``.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows of the table.
        """
        if self.everything is None:
            return None
        floats = {name for name in self.features if not _is_whole(batch.column(name).type)}
        return {
            n: None if n in floats else np.fromiter(_values(batch.column(n)), object, len(batch))
            for n in self.everything
        }

    def rows(self, batch: Any, width: int) -> npt.NDArray[Any]:
        """Return the features of a record batch, of shape (n, width).

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows of the table.
        width : int
            Number of features.
        """
        return next(self.pieces(batch, width, max(1, len(batch))), np.empty((0, width)))

    def pieces(self, batch: Any, width: int, size: int) -> Iterator[npt.NDArray[Any]]:
        """Yield the features of a record batch, up to ``size`` rows at a time: (n, width), with adjacent features.

        Parameters
        ----------
        batch : pyarrow.RecordBatch
            Rows of the table.
        width, size : int
            Number of features, and of rows of a piece.
        """
        parts = [slice(i, i + size) for i in range(0, len(batch), size)]
        if self.vector is not None:
            rows = self._vectors(batch.column(self.features[0]), width)
            yield from (np.ascontiguousarray(rows[part]) for part in parts)
            return
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in self.features if not self._allows_gaps else ():
            if found[name].null_count:
                raise self._missing_error(name)
        columns = [_numbers(found[name]) for name in self.features]
        for part in parts:  # rather than all at once: the system clears the memory of large arrays each time
            yield rows_of_columns([column[part] for column in columns])

    def _vectors(self, column: Any, width: int) -> npt.NDArray[Any]:
        """Return vectors as rows: NaN where one is null or, if bad rows are skipped, has another length."""
        usable = None
        if column.null_count:
            usable = column.is_valid().to_numpy(zero_copy_only=False)
        if not hasattr(column.type, "list_size"):
            lengths = column.value_lengths().fill_null(width).to_numpy(zero_copy_only=False)
            if (lengths != width).any():
                if not self.options.skip_bad:
                    raise SourceError(
                        f"column {self.features[0]!r} of {self.source} has vectors of {lengths.min()} to "
                        f"{lengths.max()} numbers; expected {width}, as in the first one.",
                        Remedy.SKIP_BAD_ROWS,
                    )
                usable = (lengths == width) & (True if usable is None else usable)
        values = (column if usable is None else column.filter(usable)).flatten()
        if (column.null_count or values.null_count) and not self._allows_gaps:
            raise self._missing_error(self.features[0])
        rows = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(-1, width)
        if usable is None:
            return rows
        every = np.full((len(column), width), np.nan, np.result_type(rows, np.float32))
        every[usable] = rows
        return every

    def _missing_error(self, column: str) -> SourceError:
        return SourceError(
            f"column {column!r} of {self.source} has missing values; expected numbers.",
            Remedy.ALLOW_MISSING,
            Remedy.SKIP_BAD_ROWS,
        )


def choose_columns(source: str, schema: Any, options: ReadOptions) -> TableColumns:
    """Choose the columns to read; raise ``SourceError`` if they are not suitable.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    schema : pyarrow.Schema
        Schema of the table.
    options : ReadOptions
        How to read it. Without columns, all numbers and booleans are features.
    """
    names, key = schema.names, options.id_column
    types = dict(zip(names, schema.types, strict=True))
    others = {key, *pandas_index(schema)}
    features = list(options.columns or (n for n in names if n not in others and _is_numeric(types[n], plain=True)))
    for name in [*features, *([key] if key else [])]:
        if name not in types:
            raise SourceError(f"{source} has no column {name!r}; it has {', '.join(names[:20])}.")
        if len(types) < len(names) and names.count(name) > 1:
            raise SourceError(f"{source} has {names.count(name)} columns named {name!r}.", Remedy.RENAME_COLUMNS)
        if name in features and not _is_numeric(types[name]):
            raise SourceError(
                f"column {name!r} of {source} contains {types[name]}; expected numbers.", Remedy.CHOOSE_COLUMNS
            )
    if not features:
        raise SourceError(f"{source} has no column of numbers; it has {', '.join(names[:20])}.")
    vectors = [n for n in features if _element_type(types[n]) is not None]
    if vectors and len(features) > 1:
        raise SourceError(
            f"{source} has a column of vectors, {vectors[0]!r}, and other columns; expected one kind.",
            Remedy.CHOOSE_COLUMNS,
        )
    vector = types[vectors[0]] if vectors else None
    left_out = [] if options.columns else [n for n in names if n not in features and n not in others]
    once = Counter(names)
    everything = {n: t for n, t in types.items() if once[n] == 1} if options.others and vector is None else None
    return TableColumns(source, features, vector, types.get(key), options, left_out, everything)


def _is_whole(kind: Any) -> bool:
    """Return whether a type holds integers or booleans."""
    return str(kind).startswith(("int", "uint", "bool"))


def _is_numeric(kind: Any, *, plain: bool = False) -> bool:
    """Return whether a column can be a feature. Lists of booleans or decimals can, but are not ``plain`` numbers."""
    import pyarrow as pa

    types, element = pa.types, _element_type(kind)
    inner = kind if element is None else element
    inner = inner.value_type if types.is_dictionary(inner) else inner
    other = types.is_boolean(inner) or types.is_decimal(inner)
    return bool(types.is_floating(inner) or types.is_integer(inner) or (other and (element is None or not plain)))


def _element_type(kind: Any) -> Any:
    """Return the type of the elements of a column of vectors; None for any other column."""
    import pyarrow as pa

    is_list = pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return kind.value_type if is_list else None


def pandas_index(schema: Any) -> set[str]:
    """Return the columns that pandas added for its index.

    Parameters
    ----------
    schema : pyarrow.Schema
        Schema of the table.
    """
    metadata = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return {name for name in metadata.get("index_columns", []) if isinstance(name, str)}


def _values(column: Any) -> list[Any]:
    """Return the values of a column as Python objects; those of a dictionary only once."""
    if hasattr(column, "indices"):
        known = [*_values(column.dictionary), None]
        return [known[-1 if place is None else place] for place in column.indices.to_pylist()]
    try:
        return list(column.to_pylist())
    except ValueError:  # times with nanoseconds, which need pandas
        return list(column.cast("string").to_pylist())


def _numbers(column: Any) -> npt.NDArray[Any]:
    """Return a column as numbers, NaN for null."""
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values if values.dtype.kind in "iuf" else np.asarray(column.cast("float64").to_numpy(zero_copy_only=False))
