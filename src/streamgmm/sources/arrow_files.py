"""Parquet and Arrow files."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.errors import MissingExtraError, SourceError
from streamgmm.sources.arrow_columns import choose_columns
from streamgmm.sources.arrow_errors import damaged_files, valid_batches
from streamgmm.sources.base import Chunk, Position, ReadOptions, rows_per_chunk, start_row
from streamgmm.sources.limits import most_bytes, refuse_expansion
from streamgmm.sources.reader_thread import read_ahead
from streamgmm.sources.remote import File
from streamgmm.sources.seekable import Blocks, Range, SeekableSource
from streamgmm.sources.table_blocks import find_blocks, parts_of_groups

READERS = 2  # decoding vectors is slow: two threads keep up with one that learns
WHOLE_GROUP_BYTES = 1 << 25  # row groups up to this decoded size are read at once, ahead of their turn
CHUNKS_PER_BATCH = 4  # decoding a batch has a cost per column, so plain columns are decoded in larger batches

Piece = tuple[npt.NDArray[Any], tuple[Any, ...] | None]
"""Rows and their ids."""


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
        with damaged_files(self.name):
            self._columns = choose_columns(self.name, schema, options)
        self.feature_names = None if self._columns.vector is not None else self._columns.features
        self.id_type, self.left_out = self._columns.id_type, self._columns.left_out
        width = self._columns.fixed_width
        self._width = self._first_length() if width is None else width
        self._size = rows_per_chunk(self._width)
        self._batch_size = self._size * (1 if self._columns.vector is not None else CHUNKS_PER_BATCH)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        skip = start_row(start, self)
        if skip and skip == self.n_rows:
            return
        row, pieces = self._pieces(skip)
        for rows, ids in pieces:
            first, row = row, row + len(rows)
            known = max(0, skip - first)
            if known < len(rows):
                numbers = np.arange(first + known, row)
                yield Chunk(rows[known:], numbers, {"row": row}, (), None if ids is None else ids[known:])

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
            for rows, ids in self._group_pieces(group):
                for first, stop in parts:
                    if first < row + len(rows) and stop > row:
                        part = slice(max(0, first - row), stop - row)
                        numbers = np.arange(row, row + len(rows))[part]
                        yield Chunk(rows[part], numbers, {"row": stop}, (), None if ids is None else ids[part])
                row += len(rows)
                if row >= parts[-1][1]:
                    break

    def _up_to(self, start: Position, stop: int) -> Iterator[Chunk]:
        for chunk in self.chunks(start):
            kept = stop - int(chunk.numbers[0])
            ids = None if chunk.ids is None else chunk.ids[:kept]
            yield chunk._replace(rows=chunk.rows[:kept], numbers=chunk.numbers[:kept], ids=ids)
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
        ids, row = self._columns.ids(batch), 0
        for rows in self._columns.pieces(batch, self._width, self._size):
            yield rows, None if ids is None else ids[row : row + len(rows)]
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
        self._refuse_bombs()
        key, kind = self._columns.options.id_column, str(self._columns.id_type)
        self._texts = [key] if key and "string" in kind else None  # read as a dictionary: rows share their ids
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
                if rows * self._width * 4 > WHOLE_GROUP_BYTES:
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
                _readable(self._path), metadata=self._metadata, read_dictionary=self._texts, pre_buffer=False
            )
        settings = {"batch_size": self._batch_size, "row_groups": groups, "use_threads": False}
        try:
            yield from valid_batches(self.name, file.iter_batches(columns=self._columns.names, **settings))
        finally:
            self._idle_files.append(file)


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
