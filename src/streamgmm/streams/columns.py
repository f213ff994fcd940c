"""Parquet and Arrow files: numeric columns, or one column of vectors."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.streams.base import Chunk, Position, Source, SourceError, ahead, first_row, rows_per_chunk

READERS = 2  # vectors are slow to decode: two threads keep up with one that learns
ALLOW_GAPS = "train --missing learn takes such rows, --bad-rows skip leaves them out"
GROUP_BYTES = 1 << 25  # row groups up to this size, decoded, are read as a whole, ahead of their turn
TOGETHER = 4  # chunks decoded at once where a row is spread over columns, each of which costs a little by itself

Piece = tuple[npt.NDArray[Any], tuple[Any, ...] | None]
"""Rows, and their identifiers."""


class Columns(Source):
    """Rows of a Parquet or Arrow file, a few thousand at a time; a column of fixed-size lists is a vector."""

    def __init__(
        self, path: Path, *, columns: Sequence[str] | None = None, id_column: str | None = None, missing: bool = False
    ) -> None:
        try:
            import pyarrow as pa
            import pyarrow.parquet as pq
        except ImportError as problem:
            raise ImportError("Parquet and Arrow files need pyarrow: pip install 'streamgmm[parquet]'") from problem
        self.name, self._path, self._id, self._missing = path.name, path, id_column, missing
        try:
            if path.suffix.lower() == ".parquet":
                self._file: Any = pq.ParquetFile(path, pre_buffer=False)
                schema = self._file.schema_arrow
            else:
                self._file = pa.ipc.open_file(pa.OSFile(str(path)))
                schema = self._file.schema
        except (pa.ArrowInvalid, OSError) as problem:
            raise SourceError(f"{self.name} is not a whole Parquet or Arrow file ({problem!s:.100}).") from problem
        names = schema.names
        kinds = dict(zip(names, schema.types, strict=True))
        others = {id_column, *_index(schema)}
        self._columns = list(columns or (n for n in names if n not in others and _numeric(pa, kinds[n], plain=True)))
        for name in [*self._columns, *([id_column] if id_column else [])]:
            if name not in kinds:
                raise SourceError(f"{self.name} has no column {name!r}; it has {', '.join(names[:20])}.")
            if len(kinds) < len(names) and names.count(name) > 1:
                raise SourceError(f"{self.name} has {names.count(name)} columns {name!r}; rename them.")
            if name in self._columns and not _numeric(pa, kinds[name]):
                raise SourceError(f"column {name!r} of {self.name} holds {kinds[name]}, not numbers.")
        if not self._columns:
            raise SourceError(f"{self.name} has no numeric column; it has {', '.join(names[:20])}.")
        lists = [n for n in self._columns if _element(pa, kinds[n]) is not None]
        if lists and len(self._columns) > 1:
            raise SourceError(f"{self.name} has a column of vectors, {lists[0]!r}, and others. Choose with --columns.")
        self.feature_names = None if lists else self._columns
        self.id_type = kinds.get(id_column)
        self._width = self._length(kinds[lists[0]]) if lists else len(self._columns)
        self._size = rows_per_chunk(self._width)
        self._together = self._size if lists else TOGETHER * self._size
        self._idle: list[Any] = []  # open files that nobody is reading: with many columns it takes long to open one
        self._groups = self._group_rows()

    def _length(self, kind: Any) -> int:
        """Numbers in a vector: what the type says, or what the first row holds."""
        if hasattr(kind, "list_size"):
            return int(kind.list_size)
        if hasattr(self._file, "iter_batches"):
            batches = self._file.iter_batches(batch_size=1, columns=self._columns, use_threads=False)
        else:
            batches = (self._file.get_batch(i).select(self._columns) for i in range(self._file.num_record_batches))
        lengths = (len(v) for batch in batches for v in batch.column(0).to_pylist() if v)
        return next(lengths, 1)

    def _group_rows(self) -> list[tuple[int, list[int]]]:
        """Row groups that are read together, small ones as many as make a chunk, with the first row of each lot."""
        if not hasattr(self._file, "iter_batches"):
            return [(0, [])]
        lots: list[tuple[int, list[int]]] = []
        row = room = 0
        for group in range(self._file.metadata.num_row_groups):
            rows = self._file.metadata.row_group(group).num_rows
            if rows > room or not lots:
                lots.append((row, []))
                room = self._together
            lots[-1][1].append(group)
            row, room = row + rows, room - rows
        return lots

    @property
    def n_rows(self) -> int:
        if hasattr(self._file, "iter_batches"):
            return int(self._file.metadata.num_rows)
        return sum(self._file.get_batch(i).num_rows for i in range(self._file.num_record_batches))

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        skip = first_row(start, self)
        if skip and skip == self.n_rows:
            return
        lots = [lot for lot in self._groups if lot[0] > skip]
        begun = len(self._groups) - len(lots) - 1  # the lot with the row to go on with
        row = self._groups[begun][0] if self._groups else 0
        for rows, ids in self._pieces(self._groups[begun:]):
            first, row = row, row + len(rows)
            known = max(0, skip - first)
            if known < len(rows):
                numbers = np.arange(first + known, row)
                yield Chunk(rows[known:], numbers, {"row": row}, (), None if ids is None else ids[known:])

    def _pieces(self, lots: list[tuple[int, list[int]]]) -> Iterator[Piece]:
        if not hasattr(self._file, "iter_batches"):
            wanted = [*self._columns, *([self._id] if self._id else [])]
            for i in range(self._file.num_record_batches):
                batch = self._file.get_batch(i).select(wanted)
                for start in range(0, batch.num_rows, self._together):
                    yield from self._cut(batch.slice(start, self._together))
            return
        about = self._file.metadata
        with ThreadPoolExecutor(READERS, thread_name_prefix="streamgmm-parquet") as pool:
            reading: deque[Any] = deque()
            for _, groups in lots:
                if sum(about.row_group(g).num_rows for g in groups) * self._width * 4 > GROUP_BYTES:
                    yield from _all(reading)
                    for batch in ahead(self._batches(groups), depth=1):  # decodes while columns become rows
                        yield from self._cut(batch)
                    continue
                reading.append(pool.submit(self._whole_lot, groups))
                if len(reading) > READERS:
                    yield from reading.popleft().result()
            yield from _all(reading)

    def _whole_lot(self, groups: list[int]) -> list[Piece]:
        return [piece for batch in self._batches(groups) for piece in self._cut(batch)]

    def _batches(self, groups: list[int]) -> Iterator[Any]:
        """Some row groups, from a file object of their own, because others may be reading."""
        try:
            file = self._idle.pop()
        except IndexError:
            file = type(self._file)(self._path, metadata=self._file.metadata, pre_buffer=False)
        wanted = [*self._columns, *([self._id] if self._id else [])]
        yield from file.iter_batches(batch_size=self._together, row_groups=groups, columns=wanted, use_threads=False)
        self._idle.append(file)

    def _cut(self, batch: Any) -> Iterator[Piece]:
        rows = self._rows(batch)
        ids = None if self._id is None else tuple(batch.column(self._id).to_pylist())
        for i in range(0, len(rows), self._size):
            part = slice(i, i + self._size)
            yield np.ascontiguousarray(rows[part]), None if ids is None else ids[part]

    def _rows(self, batch: Any) -> npt.NDArray[Any]:
        if self.feature_names is None:
            return self._vectors(batch.column(self._columns[0]))
        found = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in self._columns if not self._takes_gaps else ():
            if found[name].null_count:
                raise SourceError(f"{self.name} has missing values in column {name!r} ({ALLOW_GAPS}).")
        return np.stack([_numbers(found[name]) for name in self._columns]).T

    @property
    def _takes_gaps(self) -> bool:
        """Whether NaN may stand for what is missing; where such rows are bad, others will find them."""
        return self._missing or self.skip_bad

    def _vectors(self, column: Any) -> npt.NDArray[Any]:
        """Rows of a column of vectors; NaN for those that are null or, if bad rows are skipped, of another length."""
        whole = None
        if column.null_count:
            whole = column.is_valid().to_numpy(zero_copy_only=False)
        if not hasattr(column.type, "list_size"):
            lengths = column.value_lengths().fill_null(self._width).to_numpy(zero_copy_only=False)
            if (lengths != self._width).any():
                if not self.skip_bad:
                    raise SourceError(
                        f"column {self._columns[0]!r} of {self.name} has vectors of {lengths.min()} to {lengths.max()} "
                        f"numbers; the first one has {self._width}, and all must have as many. Or: --bad-rows skip."
                    )
                whole = (lengths == self._width) & (True if whole is None else whole)
        values = (column if whole is None else column.filter(whole)).flatten()
        if (column.null_count or values.null_count) and not self._takes_gaps:
            raise SourceError(f"{self.name} has missing values in column {self._columns[0]!r} ({ALLOW_GAPS}).")
        rows = np.asarray(values.to_numpy(zero_copy_only=False)).reshape(-1, self._width)
        if whole is None:
            return rows
        every = np.full((len(column), self._width), np.nan, np.result_type(rows, np.float32))
        every[whole] = rows
        return every


def _all(reading: deque[Any]) -> Iterator[Any]:
    while reading:
        yield from reading.popleft().result()


def _numeric(pa: Any, kind: Any, *, plain: bool = False) -> bool:
    """Whether a column can be a feature; only ``plain`` numbers are, unless somebody asks for others."""
    types, element = pa.types, _element(pa, kind)
    inner = kind if element is None else element
    inner = inner.value_type if types.is_dictionary(inner) else inner
    other = types.is_boolean(inner) or types.is_decimal(inner)
    return bool(types.is_floating(inner) or types.is_integer(inner) or (other and not plain))


def _element(pa: Any, kind: Any) -> Any:
    """Of what a column of vectors has its numbers; None if it holds none."""
    types = pa.types
    if types.is_fixed_size_list(kind) or types.is_list(kind) or types.is_large_list(kind):
        return kind.value_type
    return None


def _index(schema: Any) -> set[str]:
    """Columns that pandas has added for its index: they number the rows."""
    about = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    return {name for name in about.get("index_columns", []) if isinstance(name, str)}


def _numbers(column: Any) -> npt.NDArray[Any]:
    """A column as an array of numbers, NaN for null."""
    values: npt.NDArray[Any] = column.to_numpy(zero_copy_only=False)
    return values if values.dtype.kind in "iuf" else np.asarray(column.cast("float64").to_numpy(zero_copy_only=False))
