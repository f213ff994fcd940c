"""Slices of a source: parts that different readers can read at the same time, each row in exactly one of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import Chunk, Position, Source
from streamgmm.sources.content_order import content_order
from streamgmm.sources.kafka import KafkaSource
from streamgmm.sources.seekable import Blocks, Numbers, SeekableSource
from streamgmm.sources.shuffled import NUMBER_BYTES, Buffer, Segment, ShuffledSource, read_buffer

FEWEST, MOST = 64, 100_000  # slices of a source that has enough rows
BUFFER_BYTES = 1 << 26  # of rows in the memory of each worker; a machine may have many


class Piece(NamedTuple):
    """Rows of one slice: from place ``first`` up to ``stop``, or to the end of the slice if that is None."""

    slice: int
    first: int
    stop: int | None


class Layout(NamedTuple):
    """How a pass is cut into slices; what one reader has found out spares the others the work.

    Parameters
    ----------
    number : int
        Number of the pass.
    seed : int or None
        Seed of the order; None keeps the order of the source.
    blocks : Blocks or None
        Where blocks start; None for topics.
    row_bytes : int
        Bytes of a row in memory.
    """

    number: int
    seed: int | None
    blocks: Blocks | None
    row_bytes: int = 0


class Slices(ABC):
    """The slices of a pass.

    Attributes
    ----------
    starts, ends : ndarray of shape (n,)
        Place of the first row of each slice and of the row after its last one, as far as they are known now.
    together : int
        Number of consecutive slices that one reader should read, because they are loaded together.
    """

    starts: Numbers
    ends: Numbers
    together: int = 1

    @abstractmethod
    def read(self, piece: Piece) -> Chunk:
        """Read some rows of a slice.

        Parameters
        ----------
        piece : Piece
            Which rows. The end of a slice may come sooner than expected, if it has rows that cannot be used.
        """

    def refresh(self) -> bool:
        """Look for new rows; return whether a slice may grow."""
        return False


class FileSlices(Slices):
    """Slices of a source whose rows can be read in any order.

    Shuffled rows are those of `ShuffledSource` in the same order: a slice is one of its buffers, or a part of one if
    there are few. Rows in their own order are cut into short slices, so that readers who take turns stay together.

    Parameters
    ----------
    source : SeekableSource
        The rows.
    layout : Layout
        How to cut it.
    """

    def __init__(self, source: SeekableSource, layout: Layout) -> None:
        assert layout.blocks is not None
        self._source, self._layout = source, layout
        self._loaded: tuple[int, Chunk] | None = None  # the last buffer, in the order in which it is handed out
        blocks, self._parts = layout.blocks, 1
        source.adopt(blocks)
        self._segment = Segment(layout.number, blocks.position(0), blocks.position(len(blocks.rows) - 1), blocks)
        if layout.seed is None:
            edges = blocks.rows[:: -(-len(blocks.rows) // MOST)]
            self._edges = np.append(edges, blocks.rows[-1]) if edges[-1] < blocks.rows[-1] else edges
            sizes = np.diff(self._edges)
        else:
            bytes_in_all = int(blocks.rows[-1] - blocks.rows[0]) * (layout.row_bytes + NUMBER_BYTES)
            count = max(1, -(-bytes_in_all // BUFFER_BYTES))
            self._buffers = list(self._segment.cut(layout.seed, count))
            self._parts = -(-FEWEST // len(self._buffers)) if len(self._buffers) < FEWEST else 1
            sizes = np.concatenate([np.diff(self._cuts(b.end - b.begin)) for b in self._buffers])
        self.starts, self.ends, self.together = np.zeros(len(sizes), np.int64), sizes.astype(np.int64), self._parts

    def read(self, piece: Piece) -> Chunk:
        number, part = divmod(piece.slice, self._parts)
        if self._loaded is None or self._loaded[0] != number:
            self._loaded = None  # before the next one is read: there is memory for one
            self._loaded = number, self._load(number)
        every = self._loaded[1]
        first, end = self._cuts(len(every.rows))[part : part + 2].tolist()
        rows = slice(first + piece.first, end if piece.stop is None else min(end, first + piece.stop))
        bad = every.bad if not part and not piece.first else ()
        ids = None if every.ids is None else every.ids[rows]
        return every._replace(rows=every.rows[rows], numbers=every.numbers[rows], bad=bad, ids=ids)

    def _cuts(self, n_rows: int) -> Numbers:
        """Return where the parts of a buffer start and end."""
        return np.arange(self._parts + 1, dtype=np.int64) * n_rows // self._parts

    def _load(self, number: int) -> Chunk:
        """Read a buffer, or a slice of the order of the source."""
        blocks, seed = self._segment.blocks, self._layout.seed
        if seed is None:
            begin, end = self._edges[number : number + 2].tolist()
            read = read_buffer(self._source, blocks, Buffer(number, self._blocks_of(begin, end), begin, end))
            return Chunk(read.rows, read.numbers, {"row": 0}, tuple(read.bad), tuple(read.ids) if read.ids else None)
        read = read_buffer(self._source, blocks, self._buffers[number])
        order = content_order(read.rows, np.random.default_rng([seed, *self._segment.key, number]))
        ids = tuple(np.array([*read.ids, None], object)[:-1][order]) if read.ids else None
        return Chunk(read.rows[order], read.numbers[order], {"row": 0}, tuple(read.bad), ids)

    def read_in_order(self, numbers: range) -> Iterator[Chunk]:
        """Read whole slices in the order of the source, in its own chunks.

        Parameters
        ----------
        numbers : range
            Numbers of the slices.
        """
        begin, end = int(self._edges[numbers.start]), int(self._edges[numbers.stop])
        return self._source.read_ranges(self._segment.blocks.ranges(self._blocks_of(begin, end)))

    def _blocks_of(self, begin: int, end: int) -> Numbers:
        """Return the numbers of the blocks that these rows consist of."""
        rows = self._segment.blocks.rows[:-1]
        return np.flatnonzero((rows >= begin) & (rows < end))


class TopicSlices(Slices):
    """The partitions of a Kafka topic; places are offsets.

    Parameters
    ----------
    source : KafkaSource
        The topic.
    """

    def __init__(self, source: KafkaSource) -> None:
        self._source = source
        ranges = source.offset_ranges()
        self.starts = np.array([low for low, _ in ranges.values()], np.int64)
        self.ends = np.array([high for _, high in ranges.values()], np.int64)

    def read(self, piece: Piece) -> Chunk:
        stop = int(self.ends[piece.slice]) if piece.stop is None else piece.stop
        return self._source.read_partition(piece.slice, piece.first, stop)

    def refresh(self) -> bool:
        self.ends = np.array([high for _, high in self._source.offset_ranges().values()], np.int64)
        return True


def find_layout(source: Source, number: int, seed: int | None) -> Layout:
    """Find out how a pass is cut into slices; raise ``SourceError`` if readers cannot share the source.

    Parameters
    ----------
    source : Source
        The rows, shuffled or not.
    number : int
        Number of the pass.
    seed : int or None
        Seed of the order; None keeps the order of the source.
    """
    if isinstance(source, ShuffledSource):
        source = source.source
    if isinstance(source, KafkaSource):
        return Layout(number, None, None)
    if not isinstance(source, SeekableSource) or not source.seekable:
        raise SourceError(
            f"{source.name} cannot be shared out among workers: expected files that can be read in any order (not "
            "compressed text), or a Kafka topic.",
            Remedy.USE_ONE_MACHINE,
        )
    blocks = _finer(source.stored_blocks()) if seed is None else source.blocks()
    return Layout(number, seed, blocks, source.row_bytes())


def open_slices(source: Source, layout: Layout) -> Slices:
    """Open the slices of a pass.

    Parameters
    ----------
    source : Source
        The rows, shuffled or not.
    layout : Layout
        How they are cut, as `find_layout` has found out.
    """
    if isinstance(source, ShuffledSource):
        source = source.source
    if isinstance(source, KafkaSource):
        return TopicSlices(source)
    assert isinstance(source, SeekableSource)
    return FileSlices(source, layout)


def _finer(blocks: Blocks) -> Blocks:
    """Cut short sources more finely, so that there is something for every reader."""
    rows = blocks.rows
    if blocks.offsets is not None or len(rows) > FEWEST:
        return blocks
    even: npt.NDArray[np.int64] = np.linspace(rows[0], rows[-1], FEWEST + 1).astype(np.int64)
    return blocks._replace(rows=np.union1d(rows, even))


def end_of(layout: Layout) -> Position | None:
    """Return the position at which a pass ends, which ``SeekableSource.verify`` understands.

    Parameters
    ----------
    layout : Layout
        How the pass is cut.
    """
    return None if layout.blocks is None else layout.blocks.position(len(layout.blocks.rows) - 1)
