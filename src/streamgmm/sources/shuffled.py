"""Rows in random order, through a buffer of bounded size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import BadRow, Chunk, Position, Source, check_position, rows_per_chunk
from streamgmm.sources.content_order import content_order
from streamgmm.sources.seekable import Blocks, Numbers, SeekableSource
from streamgmm.storage.schema import COUNT, anything, record

BUFFER_BYTES = 1 << 28  # of rows in memory
NUMBER_BYTES = 16  # of a row: its number, and its place in the order
ROWS_PER_CHUNK = 1000
ORDER_VERSION = 2  # raise it with any change of the order of rows, so that no position is resumed in another order


class ShuffledSource(Source):
    """The rows of a source in random order, another one in each pass.

    Blocks of about 64 kilobytes, drawn at random from all parts of the source, fill a buffer; its rows are shuffled and
    handed out, and the next blocks are drawn. A source that fits into the buffer is shuffled perfectly, and its rows
    come in the same order however they were sorted. Memory is bounded: the buffer, at most 256 MB, and 16 bytes for
    each block of a text file.

    The order is a function of the seed, the pass and the rows there are when the pass starts, so reading resumes
    anywhere with the same rows. Rows that were added since are shuffled among themselves and follow at the end.

    Parameters
    ----------
    source : SeekableSource
        The rows.
    seed : int, default=0
        Seed of the order.

    Examples
    --------
    >>> from streamgmm.sources.numpy_files import ArraySource
    >>> source = ShuffledSource(ArraySource("x", np.arange(6.0)[:, None]))
    >>> [chunk] = source.chunks()
    >>> sorted(chunk.rows.ravel().tolist()), chunk.numbers.tolist() == chunk.rows.ravel().tolist()
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], True)
    """

    def __init__(self, source: SeekableSource, seed: int = 0) -> None:
        self.source, self.seed = source, seed
        self.name, self.path, self.skip_bad = source.name, source.path, source.skip_bad
        self.factor, self.id_type, self.grows, self.finite = source.factor, source.id_type, source.grows, source.finite
        self._n_rows: int | None = None
        self._blocks: Blocks | None = None  # found to count the rows, for the first pass
        self._take_names()

    def _take_names(self) -> None:
        self.feature_names, self.left_out = self.source.feature_names, self.source.left_out
        self.heading = self.source.heading

    def expect(self, names: list[str] | None, width: int) -> None:
        self.source.expect(names, width)
        self._take_names()

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        if self._n_rows is None:
            self._blocks = self.source.blocks()
            self._n_rows = int(self._blocks.rows[-1])
        return self._n_rows

    def start_of_pass(self, number: int) -> Position:
        return {"row": 0, "pass": number}

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        start = self.start_of_pass(0) if start is None else start
        check_position(start, {"pass": COUNT}, self.name)
        if start.get("order", ORDER_VERSION) != ORDER_VERSION:
            raise SourceError(
                f"the rows of {self.name} were shuffled by another version of streamgmm before, in another order.",
                Remedy.START_NEW_RUN,
            )
        row_bytes = self.source.row_bytes()
        self._take_names()
        segment = self._segment(start)
        if segment is None:
            return
        for buffer in segment.buffers(self.seed, row_bytes):
            if start["row"] < buffer.end:
                yield from self._hand_out(segment, buffer, max(0, start["row"] - buffer.begin))

    def _segment(self, start: Position) -> Segment | None:
        """Return the rows that are shuffled together: all there are or, if some were read before, the new ones."""
        every, self._blocks = self._blocks or self.source.blocks(), None
        first, end = every.position(0), self.source.end(every)
        if "end" in start:
            self._check_segment(start, every)
            self.source.verify(start["end"])
            unfinished = start["row"] < start["end"]["row"]
            first, end = (start["first"], start["end"]) if unfinished else (start["end"], end)
        self._n_rows = int(every.rows[-1])
        return Segment(start["pass"], first, end, every.between(first, end)) if first["row"] < end["row"] else None

    def _check_segment(self, start: Position, every: Blocks) -> None:
        """Raise ``SourceError`` unless a position tells where the rows that are shuffled together begin and end."""
        place = record(dict.fromkeys(every.position(0), COUNT), unknown=anything)
        check_position(start, {"first": place, "end": place}, self.name)
        first, end, n_rows = start["first"]["row"], start["end"]["row"], int(every.rows[-1])
        if not first <= end <= n_rows:
            raise SourceError(
                f"{self.name} has {n_rows:,} rows, but rows {first:,} to {end:,} were shuffled before: it has changed.",
                Remedy.START_NEW_RUN,
            )

    def _hand_out(self, segment: Segment, buffer: Buffer, done: int) -> Iterator[Chunk]:
        """Read the blocks of a buffer, and yield their rows in random order, without the first ones."""
        read = read_buffer(self.source, segment.blocks, buffer)
        self._take_names()
        order = content_order(read.rows, np.random.default_rng([self.seed, *segment.key, buffer.number]))
        size = min(ROWS_PER_CHUNK, rows_per_chunk(read.rows.shape[1], read.rows.itemsize))
        for at in range(done, max(1, len(order)), size):
            now = order[at : at + size]
            over = at + size >= len(order)
            position = segment.position(buffer.end if over else buffer.begin + at + size)
            ids = tuple(read.ids[i] for i in now) if read.ids else None
            yield Chunk(read.rows[now], read.numbers[now], position, () if at else tuple(read.bad), ids)


class BufferRows(NamedTuple):
    """The rows of a buffer, in the order of the source."""

    rows: npt.NDArray[Any]
    numbers: Numbers
    bad: list[BadRow]
    ids: list[Any]  # empty if there are none


def read_buffer(source: SeekableSource, blocks: Blocks, buffer: Buffer) -> BufferRows:
    """Read the rows of a buffer.

    Parameters
    ----------
    source : SeekableSource
        Where they are.
    blocks : Blocks
        Where its blocks start.
    buffer : Buffer
        The blocks to read.
    """
    found, used = BufferRows(np.empty((0, 0)), np.empty(buffer.end - buffer.begin, np.int64), [], []), 0
    for chunk in source.read_ranges(blocks.ranges(buffer.blocks)):
        if not used and len(chunk.rows):
            found = found._replace(rows=np.empty((len(found.numbers), chunk.rows.shape[1]), chunk.rows.dtype))
        elif len(chunk.rows) and (common := np.result_type(found.rows, chunk.rows)) != found.rows.dtype:
            found = found._replace(rows=found.rows.astype(common))
        first, used = used, used + len(chunk.rows)
        if used > first:
            found.rows[first:used], found.numbers[first:used] = chunk.rows, chunk.numbers
        found.bad.extend(chunk.bad)
        found.ids.extend(chunk.ids or ())
    return found._replace(rows=found.rows[:used], numbers=found.numbers[:used])


class Buffer(NamedTuple):
    """Blocks that are shuffled together, and the rows handed out before and after them."""

    number: int
    blocks: Numbers
    begin: int
    end: int


class Segment(NamedTuple):
    """Rows that are shuffled in one pass."""

    number: int
    first: Position
    end: Position
    blocks: Blocks

    @property
    def key(self) -> tuple[int, int]:
        """What the order depends on, beside the seed."""
        return self.number, int(self.first["row"])

    def position(self, row: int) -> Position:
        """Return the position after so many rows."""
        return {"row": row, "pass": self.number, "first": self.first, "end": self.end, "order": ORDER_VERSION}

    def buffers(self, seed: int, row_bytes: int) -> Iterator[Buffer]:
        """Share all blocks among buffers: of as many neighbours as there are buffers, each gets one at random.

        So all buffers have similar rows even if the source is sorted.

        Parameters
        ----------
        seed : int
            Seed of the order.
        row_bytes : int
            Bytes of a row in memory.
        """
        total = int(self.blocks.rows[-1] - self.blocks.rows[0])
        yield from self.cut(seed, -(-total * (row_bytes + NUMBER_BYTES) // BUFFER_BYTES))

    def cut(self, seed: int, count: int) -> Iterator[Buffer]:
        """Share all blocks among so many buffers.

        Parameters
        ----------
        seed : int
            Seed of the order.
        count : int
            Number of buffers; there are fewer if there are not as many blocks.
        """
        sizes, row = np.diff(self.blocks.rows), int(self.first["row"])
        rng = np.random.default_rng([seed, *self.key])
        order = np.lexsort([rng.random(len(sizes)), np.arange(len(sizes)) // count])
        for number, turn in enumerate(rng.permutation(min(count, len(sizes))).tolist()):
            chosen = np.sort(order[turn::count])
            begin, row = row, row + int(sizes[chosen].sum())
            yield Buffer(number, chosen, begin, row)
