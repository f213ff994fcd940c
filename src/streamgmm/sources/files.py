"""Several files of a folder as one source, in the order of their names."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import numpy as np

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import Chunk, Columns, Position, Source, check_position, start_row
from streamgmm.sources.remote import File
from streamgmm.sources.seekable import Blocks, Numbers, Range, SeekableSource
from streamgmm.sources.selection import select_columns
from streamgmm.storage.schema import COUNT, anything, optional, record

TABLES = (".parquet", ".csv", ".tsv", ".ndjson", ".jsonl", ".npy", ".arrow", ".feather")
OPEN_FILES = 16


class FilesSource(SeekableSource):
    """The rows of several files, one file after the other.

    The first file decides on the features. Others may have their columns in another order.

    Parameters
    ----------
    name : str
        What to call it in messages.
    files : sequence of File
        The files.
    open_file : callable
        Opens one of them.
    """

    finite = True

    def __init__(self, name: str, files: Sequence[File], open_file: Callable[[File], Source]) -> None:
        self.name, self._files = name, list(files)
        self._expected: tuple[list[str] | None, int] | None = None
        self._names: list[str] | None = None  # of all columns of the first chunk, if they are wanted
        self._starts: Numbers | None = None  # number of the first row of each file, and of rows in all
        self._child = lru_cache(maxsize=OPEN_FILES)(lambda number: self._open(number, open_file))
        first = self._child(0)
        self.id_type, self.factor = first.id_type, first.factor
        self._take_names()

    def _open(self, number: int, open_file: Callable[[File], Source]) -> SeekableSource:
        source = open_file(self._files[number])
        if not isinstance(source, SeekableSource) or not source.seekable:
            raise SourceError(f"{source.name} of {self.name} can only be read from its start.", Remedy.START_NEW_RUN)
        if self._expected is not None:
            source.expect(*self._expected)
        source.skip_bad = self.skip_bad
        return source

    def _take_names(self) -> None:
        first = self._child(0)
        self.feature_names, self.left_out = first.feature_names, first.left_out
        self.column_types = first.column_types

    def expect(self, names: list[str] | None, width: int) -> None:
        self._expected = names, width
        self._child(0).expect(names, width)
        self._take_names()

    @property
    def n_rows(self) -> int | None:
        """Number of rows; None if that of a file is not known before it is read."""
        if self._starts is not None:
            return int(self._starts[-1])
        total = 0
        for number in range(len(self._files)):
            rows = self._child(number).n_rows
            if rows is None:
                return None
            total += rows
        return total

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        check_position(start, {"file": COUNT, "inside": optional(record({"row": COUNT}, unknown=anything))}, self.name)
        if start is not None and start["file"] >= len(self._files):
            raise SourceError(
                f"{self.name} has {len(self._files)} files, but file {start['file']} was read before: it has changed.",
                Remedy.START_NEW_RUN,
            )
        row, first, inner = (0, 0, None) if start is None else (start["row"], start["file"], start["inside"])
        before = row - (0 if inner is None else inner["row"])  # rows of earlier files
        for number in range(first, len(self._files)):
            inside = 0
            for chunk in self._child(number).chunks(inner):
                inside = int(chunk.position["row"])
                position = {"row": before + inside, "file": number, "inside": chunk.position}
                yield self._renumbered(chunk, number, before)._replace(position=position)
            before, inner = before + max(inside, 0 if inner is None else int(inner["row"])), None

    def _renumbered(self, chunk: Chunk, number: int, before: int) -> Chunk:
        """Number rows through all files, with the columns of the first one."""
        self._take_names()
        rows, source = chunk.rows, self._child(number)
        if len(rows):
            rows = select_columns(rows, source.feature_names, self.feature_names, source.name)
        bad = tuple(b._replace(row=b.row + before) for b in chunk.bad)
        columns = self._same_columns(chunk)
        return chunk._replace(rows=rows, numbers=chunk.numbers + before, bad=bad, columns=columns)

    def _same_columns(self, chunk: Chunk) -> Columns | None:
        """Return the columns that the first file has; those that another one lacks are empty."""
        if chunk.columns is None:
            return None
        self._names = self._names or list(chunk.columns)
        empty, features = np.full(len(chunk.rows), None, object), set(self.feature_names or ())
        found = {name: chunk.columns.get(name) for name in self._names}
        return {n: empty if values is None and n not in features else values for n, values in found.items()}

    def row_bytes(self) -> int:
        return self._child(0).row_bytes()

    def blocks(self) -> Blocks:
        return self._joined(SeekableSource.blocks.__name__)

    def stored_blocks(self) -> Blocks:
        return self._joined(SeekableSource.stored_blocks.__name__)

    def _joined(self, method: str) -> Blocks:
        parts = [getattr(self._child(number), method)() for number in range(len(self._files))]
        self._starts = np.cumsum([0, *(part.rows[-1] for part in parts)], dtype=np.int64)
        rows = [part.rows[:-1] + first for part, first in zip(parts, self._starts, strict=False)]
        offsets = None
        if all(part.offsets is not None for part in parts):
            offsets = np.concatenate([*(part.offsets[:-1] for part in parts), parts[-1].offsets[-1:]])
        return Blocks(np.concatenate([*rows, self._starts[-1:]]), offsets, self._starts)

    def adopt(self, blocks: Blocks) -> None:
        self._starts = blocks.files

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Chunk]:
        if self._starts is None:
            self.blocks()
        assert self._starts is not None
        for start, stop in ranges:
            row = int(start["row"])
            for number in range(int(np.searchsorted(self._starts, row, side="right")) - 1, len(self._files)):
                first, end = int(self._starts[number]), int(self._starts[number + 1])
                if first >= stop:
                    break
                inside = {**start, "row": row - first} if row > first else {"row": 0, "byte": 0}
                part = Range(inside, min(stop, end) - first)
                for chunk in self._child(number).read_ranges([part]) if end > first else ():
                    yield self._renumbered(chunk, number, first)
                row = end

    def verify(self, end: Position) -> None:
        start_row(end, self)
