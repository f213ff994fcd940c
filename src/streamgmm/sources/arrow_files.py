"""Parquet and Arrow files."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.errors import MissingExtraError, SourceError
from streamgmm.sources.arrow_columns import choose_columns, pandas_index
from streamgmm.sources.arrow_errors import damaged_files, valid_batches
from streamgmm.sources.base import Chunk, Columns, Position, ReadOptions, rows_per_chunk, start_row
from streamgmm.sources.limits import most_bytes, refuse_expansion
from streamgmm.sources.reader_thread import read_ahead
from streamgmm.sources.remote import File
from streamgmm.sources.seekable import Blocks, Range, SeekableSource
from streamgmm.sources.table_blocks import find_blocks, parts_of_groups

READERS = 2  # decoding vectors is slow: two threads keep up with one that learns
WHOLE_GROUP_BYTES = 1 << 25  # row groups up to this decoded size are read at once, ahead of their turn
CHUNKS_PER_BATCH = 4  # decoding a batch has a cost per column, so plain columns are decoded in larger batches


class Piece(NamedTuple):
    """Rows, their ids, and all their columns if they are wanted."""

    rows: npt.NDArray[Any]
    ids: tuple[Any, ...] | None
    columns: Columns | None

    def chunk(self, part: slice, first: int, end: int) -> Chunk:
        """Return a part of the rows as a chunk; ``first`` is the number of the first row of the piece."""
        numbers = np.arange(first, first + len(self.rows))[part]
        ids = None if self.ids is None else self.ids[part]
        return Chunk(self.rows[part], numbers, {"row": end}, (), ids, _part(self.columns, part))


class TableSource(SeekableSource):
    """Rows of a table; a column of lists is a column of vectors.

    Parameters
    ----------
    path : File
        The file.
    schema : pyarrow.Schema
        Schema of the table.
    options : ReadOptions
        How to read it.
    """

    finite = True

    def __init__(self, path: File, schema: Any, options: ReadOptions) -> None:
        self.name, self.skip_bad = path.name, options.skip_bad
        self._schema, self._options = schema, options
        self._choose(options)

    def _choose(self, options: ReadOptions) -> None:
        """Choose the columns to read."""
        with damaged_files(self.name):
            self._columns = choose_columns(self.name, self._schema, options)
        self.feature_names = None if self._columns.vector is not None else self._columns.features
        self.id_type, self.left_out = self._columns.id_type, self._columns.left_out
        self.column_types = self._columns.everything or {}
        width = self._columns.fixed_width
        self._width = self._first_length() if width is None else width
        self._size = rows_per_chunk(self._width)
        is_plain = self._columns.vector is None and self._columns.everything is None
        self._batch_size = self._size * (CHUNKS_PER_BATCH if is_plain else 1)

    def expect(self, names: list[str] | None, width: int) -> None:
        unknown = names is None or self._options.columns is not None or self.feature_names in (None, names)
        if unknown or not set(names or ()) <= set(self._schema.names):  # what is absent is reported with the first rows
            return
        self._choose(replace(self._options, columns=names))
        known = {*self._columns.names, *pandas_index(self._schema)}
        self.left_out = [name for name in self._schema.names if name not in known]

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        skip = start_row(start, self)
        if skip and skip == self.n_rows:
            return
        row, pieces = self._pieces(skip)
        for piece in pieces:
            first, row = row, row + len(piece.rows)
            known = max(0, skip - first)
            if known < len(piece.rows):
                yield piece.chunk(slice(known, None), first, row)

    def row_bytes(self) -> int:
        first = next(self._small_batches(), None)
        return self._width * (1 if first is None else self._columns.rows(first.slice(0, 1), self._width).itemsize)

    def blocks(self) -> Blocks:
        return find_blocks(self._group_rows(), self.row_bytes())

    def stored_blocks(self) -> Blocks:
        """Return the groups of rows that are stored together."""
        return Blocks(np.cumsum([0, *self._group_rows()], dtype=np.int64))

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Chunk]:
        if len(ranges) == 1:  # most likely everything: read it as fast as possible
            yield from self._up_to(*ranges[0])
            return
        groups = np.cumsum([0, *self._group_rows()])
        for group, parts in parts_of_groups(groups, ranges):
            row = int(groups[group])
            for piece in self._group_pieces(group):
                for first, stop in parts:
                    if first < row + len(piece.rows) and stop > row:
                        yield piece.chunk(slice(max(0, first - row), stop - row), row, stop)
                row += len(piece.rows)
                if row >= parts[-1][1]:
                    break

    def _up_to(self, start: Position, stop: int) -> Iterator[Chunk]:
        for chunk in self.chunks(start):
            kept = stop - int(chunk.numbers[0])
            ids = None if chunk.ids is None else chunk.ids[:kept]
            columns = _part(chunk.columns, slice(kept))
            yield chunk._replace(rows=chunk.rows[:kept], numbers=chunk.numbers[:kept], ids=ids, columns=columns)
            if chunk.position["row"] >= stop:
                return

    def verify(self, end: Position) -> None:
        start_row(end, self)

    @abstractmethod
    def _group_rows(self) -> list[int]:
        """Return the number of rows in each group of rows that is stored together."""

    @abstractmethod
    def _group_pieces(self, group: int) -> Iterator[Piece]:
        """Yield the rows of one group."""

    @abstractmethod
    def _pieces(self, skip: int) -> tuple[int, Iterator[Piece]]:
        """Return where reading starts, at row ``skip`` or before, and the pieces from there."""

    @abstractmethod
    def _small_batches(self) -> Iterator[Any]:
        """Yield record batches from the start, at little cost for the first one."""

    def _first_length(self) -> int:
        """Return the length of the first vector."""
        column = self._columns.features[0]
        lengths = (len(v) for batch in self._small_batches() for v in batch.column(column).to_pylist() if v)
        return next(lengths, 1)

    def _cut(self, batch: Any) -> Iterator[Piece]:
        """Cut a record batch into pieces, one per chunk."""
        ids, columns, row = self._columns.ids(batch), self._columns.all_columns(batch), 0
        for rows in self._columns.pieces(batch, self._width, self._size):
            part = slice(row, row + len(rows))
            yield Piece(rows, None if ids is None else ids[part], _part(columns, part))
            row += len(rows)


class ArrowSource(TableSource):
    """Rows of an Arrow file.

    Parameters
    ----------
    path : File
        The file, in the Arrow IPC file format (also called Feather).
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    def __init__(self, path: File, options: ReadOptions | None = None) -> None:
        pa = _import_pyarrow()
        self._file: Any = _checked(path, lambda: pa.ipc.open_file(_readable(path)))
        self._rows: list[int] | None = None  # of each record batch: counting them reads the file
        super().__init__(path, self._file.schema, options or ReadOptions())

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return sum(self._group_rows())

    def _group_rows(self) -> list[int]:
        if self._rows is None:
            with damaged_files(self.name):
                self._rows = [self._file.get_batch(i).num_rows for i in range(self._file.num_record_batches)]
        return self._rows

    def _group_pieces(self, group: int) -> Iterator[Piece]:
        for batch in self._valid_batches([group]):
            for start in range(0, batch.num_rows, self._batch_size):
                yield from self._cut(batch.slice(start, self._batch_size))

    def _small_batches(self) -> Iterator[Any]:
        return self._valid_batches(range(self._file.num_record_batches))

    def _valid_batches(self, groups: Iterable[int]) -> Iterator[Any]:
        batches = (self._file.get_batch(i).select(self._columns.names) for i in groups)
        return valid_batches(self.name, batches)

    def _pieces(self, skip: int) -> tuple[int, Iterator[Piece]]:
        return 0, (piece for group in range(self._file.num_record_batches) for piece in self._group_pieces(group))


class _GroupRun(NamedTuple):
    """Consecutive row groups that are read together."""

    first_row: int
    groups: list[int]


class ParquetSource(TableSource):
    """Rows of a Parquet file.

    Parameters
    ----------
    path : File
        The file.
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    def __init__(self, path: File, options: ReadOptions | None = None) -> None:
        _import_pyarrow()
        import pyarrow.parquet as pq

        self._path = path
        self._file: Any = _checked(path, lambda: pq.ParquetFile(_readable(path), pre_buffer=False))
        self._metadata = self._file.metadata
        super().__init__(path, self._file.schema_arrow, options or ReadOptions())

    def _choose(self, options: ReadOptions) -> None:
        super()._choose(options)
        self._refuse_bombs()
        self._idle_files: list[Any] = []  # for reuse: opening a file with many columns is slow
        self._runs = self._group_runs()

    def _refuse_bombs(self) -> None:
        """Raise ``SourceError`` for a column to read that expands suspiciously."""
        wanted = set(self._columns.names)
        for group in range(self._metadata.num_row_groups):
            found = self._metadata.row_group(group)
            if found.total_byte_size <= most_bytes():
                continue
            for column in (found.column(i) for i in range(found.num_columns)):
                if column.path_in_schema.partition(".")[0] in wanted:
                    name = f"column {column.path_in_schema!r} of {self.name}"
                    refuse_expansion(name, column.total_compressed_size, column.total_uncompressed_size)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return int(self._metadata.num_rows)

    def _group_rows(self) -> list[int]:
        return [self._metadata.row_group(i).num_rows for i in range(self._metadata.num_row_groups)]

    def _group_pieces(self, group: int) -> Iterator[Piece]:
        for batch in self._batches([group]):
            yield from self._cut(batch)

    def _small_batches(self) -> Iterator[Any]:
        batches = self._file.iter_batches(batch_size=1, columns=self._columns.names, use_threads=False)
        return valid_batches(self.name, batches)

    def _group_runs(self) -> list[_GroupRun]:
        """Put small row groups together until they fill a batch."""
        runs: list[_GroupRun] = []
        row = room = 0
        for group in range(self._metadata.num_row_groups):
            rows = self._metadata.row_group(group).num_rows
            if rows > room or not runs:
                runs.append(_GroupRun(row, []))
                room = self._batch_size
            runs[-1].groups.append(group)
            row, room = row + rows, room - rows
        return runs

    def _pieces(self, skip: int) -> tuple[int, Iterator[Piece]]:
        begun = max(0, sum(run.first_row <= skip for run in self._runs) - 1)
        runs = self._runs[begun:]
        return runs[0].first_row if runs else 0, self._read_runs(runs)

    def _read_runs(self, runs: list[_GroupRun]) -> Iterator[Piece]:
        with ThreadPoolExecutor(READERS, thread_name_prefix="streamgmm-parquet") as pool:
            reading: deque[Future[list[Piece]]] = deque()
            for _, groups in runs:
                rows = sum(self._metadata.row_group(g).num_rows for g in groups)
                if rows * self._width * 4 > WHOLE_GROUP_BYTES or self._columns.everything:
                    yield from _drain(reading)
                    for batch in read_ahead(self._batches(groups), depth=1):  # decode while columns become rows
                        yield from self._cut(batch)
                    continue
                reading.append(pool.submit(self._read_groups, groups))
                if len(reading) > READERS:
                    yield from reading.popleft().result()
            yield from _drain(reading)

    def _read_groups(self, groups: list[int]) -> list[Piece]:
        return [piece for batch in self._batches(groups) for piece in self._cut(batch)]

    def _batches(self, groups: list[int]) -> Iterator[Any]:
        """Read row groups through a file object that no other thread uses."""
        try:
            file = self._idle_files.pop()
        except IndexError:
            file = type(self._file)(
                _readable(self._path),
                metadata=self._metadata,
                read_dictionary=self._columns.texts or None,
                pre_buffer=False,
            )
        settings = {"batch_size": self._batch_size, "row_groups": groups, "use_threads": True}
        try:
            yield from valid_batches(self.name, file.iter_batches(columns=self._columns.names, **settings))
        finally:
            self._idle_files.append(file)


def _part(columns: Columns | None, part: slice) -> Columns | None:
    if columns is None:
        return None
    return {name: None if values is None else values[part] for name, values in columns.items()}


def _drain(reading: deque[Future[list[Piece]]]) -> Iterator[Piece]:
    while reading:
        yield from reading.popleft().result()


def _readable(path: File) -> Any:
    """Return what pyarrow reads a file from."""
    import pyarrow as pa

    return pa.OSFile(str(path)) if isinstance(path, Path) else pa.PythonFile(path.open())


def _import_pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as problem:
        raise MissingExtraError("Parquet and Arrow files require pyarrow", "parquet") from problem
    return pa


def _checked(path: File, open_file: Callable[[], Any]) -> Any:
    import pyarrow as pa

    try:
        return open_file()
    except (pa.ArrowException, OSError, UnicodeDecodeError, MemoryError) as problem:
        raise SourceError(f"{path.name} is not a valid Parquet or Arrow file ({problem!s:.100}).") from problem
