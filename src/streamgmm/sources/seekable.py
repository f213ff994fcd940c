"""Sources whose rows can be read in any order: where their blocks start, and how to read some of them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from streamgmm.sources.base import Chunk, Position, Source

BLOCK_BYTES = 1 << 16

Numbers = npt.NDArray[np.int64]


class Range(NamedTuple):
    """Consecutive rows: the position before the first one, and the number of the row after the last one."""

    start: Position
    stop: int


class Blocks(NamedTuple):
    """Where the blocks of a source start. A source that grows adds blocks, and keeps those it has.

    Parameters
    ----------
    rows : ndarray of shape (n + 1,)
        Number of the first row of each block, and at the end the number of rows.
    offsets : ndarray of shape (n + 1,) or None, default=None
        Byte at which each block starts, and at which the last one ends, if rows are found by their byte.
    files : ndarray of shape (m + 1,) or None, default=None
        Number of the first row of each file, and at the end the number of rows, if there are several files.
    """

    rows: Numbers
    offsets: Numbers | None = None
    files: Numbers | None = None

    def position(self, block: int) -> Position:
        """Return the position before a block; that of block n is the end.

        Parameters
        ----------
        block : int
            Number of the block.
        """
        found: Position = {"row": int(self.rows[block])}
        return found if self.offsets is None else {**found, "byte": int(self.offsets[block])}

    def between(self, first: Position, end: Position) -> Self:
        """Return the blocks of the rows between two positions, cut where they start or end between two blocks.

        Parameters
        ----------
        first, end : dict
            Positions before the first row and after the last one.
        """
        inside = (self.rows > first["row"]) & (self.rows < end["row"])
        rows = np.concatenate([[first["row"]], self.rows[inside], [end["row"]]])
        if self.offsets is None:
            return self._replace(rows=rows)
        return self._replace(rows=rows, offsets=np.concatenate([[first["byte"]], self.offsets[inside], [end["byte"]]]))

    def ranges(self, chosen: Numbers) -> list[Range]:
        """Return the rows of some blocks, adjacent blocks together.

        Parameters
        ----------
        chosen : ndarray of shape (m,)
            Numbers of the blocks, in ascending order.
        """
        runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1)
        return [Range(self.position(run[0]), int(self.rows[run[-1] + 1])) for run in runs if len(run)]


class SeekableSource(Source):
    """A source whose rows can be read in any order, unless ``seekable`` is False."""

    seekable = True

    @abstractmethod
    def row_bytes(self) -> int:
        """Return the bytes of a row in memory; features are known afterwards."""

    @abstractmethod
    def blocks(self) -> Blocks:
        """Return where blocks of about 64 kilobytes start, at present."""

    def stored_blocks(self) -> Blocks:
        """Return blocks that are quick to read one by one, in the order of the source."""
        return self.blocks()

    def adopt(self, blocks: Blocks) -> None:
        """Take over what another reader of the same source has found out about its blocks.

        Parameters
        ----------
        blocks : Blocks
            What ``blocks`` or ``stored_blocks`` of the other one has returned.
        """
        return

    @abstractmethod
    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Chunk]:
        """Yield the rows of some ranges.

        Parameters
        ----------
        ranges : sequence of Range
            What to read, in ascending order.
        """

    @abstractmethod
    def verify(self, end: Position) -> None:
        """Raise ``SourceError`` if the source no longer has the rows before a position.

        Parameters
        ----------
        end : dict
            A position at which the source has ended before.
        """

    def end(self, blocks: Blocks) -> Position:
        """Return the position after the last row, which ``verify`` understands.

        Parameters
        ----------
        blocks : Blocks
            All blocks of the source.
        """
        return blocks.position(len(blocks.rows) - 1)


def even_blocks(n_rows: int, row_bytes: int) -> Blocks:
    """Cut rows into blocks of about 64 kilobytes.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    row_bytes : int
        Bytes of a row in memory.
    """
    size = max(1, BLOCK_BYTES // max(1, row_bytes))
    return Blocks(np.append(np.arange(0, n_rows, size), n_rows))
