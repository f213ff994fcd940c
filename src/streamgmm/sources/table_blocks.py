"""Blocks of rows in tables, whose rows are stored in groups that can only be read from their start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from streamgmm.sources.seekable import BLOCK_BYTES, Blocks, Numbers, Range

MOST_READS = 8  # of one group in a pass, unless it is larger than the memory for it
LARGEST_BLOCK = 1 << 23  # bytes
SMALL_TABLE = MOST_READS << 28  # bytes: each buffer of 256 MB reads all groups, and there are no more buffers than that


def find_blocks(groups: Sequence[int], row_bytes: int) -> Blocks:
    """Return where blocks start, none of which spans two groups.

    Every buffer of shuffled rows reads each group again of which it needs a block. Small tables are cut finely all the
    same; the groups of large ones into at most 8 blocks, or into as many as it takes for blocks of at most 8 MB.

    Parameters
    ----------
    groups : sequence of int
        Rows of each group.
    row_bytes : int
        Bytes of a row in memory.
    """
    fine = sum(groups) * row_bytes <= SMALL_TABLE
    starts, row = list[int](), 0
    for rows in groups:
        size = rows * row_bytes
        parts = -(-size // BLOCK_BYTES)
        if not fine:
            parts = min(parts, max(MOST_READS, -(-size // LARGEST_BLOCK)))
        step = max(1, -(-rows // max(1, parts)))
        starts += range(row, row + rows, step)
        row += rows
    return Blocks(np.array([*starts, row], np.int64))


def parts_of_groups(groups: Numbers, ranges: Sequence[Range]) -> Iterator[tuple[int, list[tuple[int, int]]]]:
    """Yield each group that has some of the wanted rows, with the first row and the end of each part of it.

    Parameters
    ----------
    groups : ndarray of shape (n + 1,)
        First row of each group, and the number of rows.
    ranges : sequence of Range
        The wanted rows, in ascending order.
    """
    found: dict[int, list[tuple[int, int]]] = {}
    for start, stop in ranges:
        first = int(start["row"])
        for group in range(int(np.searchsorted(groups, first, side="right")) - 1, len(groups) - 1):
            if groups[group] >= stop:
                break
            part = max(first, int(groups[group])), min(stop, int(groups[group + 1]))
            if part[0] < part[1]:
                found.setdefault(group, []).append(part)
    yield from found.items()
