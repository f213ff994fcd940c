"""Blocks of lines: one quick scan of a text finds where they start."""

from __future__ import annotations

from array import array

import numpy as np

from streamgmm.sources.seekable import BLOCK_BYTES, Blocks
from streamgmm.sources.text import TextFile


def find_blocks(file: TextFile, taken: int) -> Blocks:
    """Return where blocks start: at the first line that starts in each 64 kilobytes of the file.

    The first block starts at row 0, whose byte is not needed: a heading may come before it.

    Parameters
    ----------
    file : TextFile
        A file of which a heading, or the first rows, were taken.
    taken : int
        Number of rows taken.
    """
    rows, offsets, count = array("q", [0]), array("q", [0]), taken
    begin = at = file.tell()
    last = b"\n"
    for piece in file.pieces(BLOCK_BYTES):
        if at > begin and (cut := piece.find(b"\n")) >= 0:
            rows.append(count + 1)
            offsets.append(at + cut + 1)
        count += piece.count(b"\n")
        at, last = at + len(piece), piece[-1:]
    count += last != b"\n"
    while len(rows) > 1 and rows[-1] >= count:  # nothing follows the last line break
        rows.pop()
        offsets.pop()
    rows.append(count)
    offsets.append(at)
    return Blocks(np.array(rows, np.int64), np.array(offsets, np.int64))
