"""A random order of rows that depends on what they hold, not on where they are."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
ROWS_AT_ONCE = 256  # their words, as large integers, stay in the cache
FACTORS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64
NEXT_COPY = np.uint64(0x9E3779B97F4A7C15)


def content_order(rows: npt.NDArray[Any], rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Return a random order of rows (N, D): the same sequence of rows, however they were sorted before.

    Rows are sorted by a random hash of their bytes. Copies of a row are spread out like other rows.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        The rows.
    rng : Generator
        Draws the hash.

    Examples
    --------
    >>> rows = np.arange(6.0).reshape(3, 2)
    >>> one, other = rows[[0, 1, 2]], rows[[2, 0, 1]]
    >>> np.array_equal(*(some[content_order(some, np.random.default_rng(0))] for some in (one, other)))
    True
    """
    keys = _hashes(rows, rng)
    alike = np.argsort(keys, kind="stable")
    ordered = keys[alike]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(rows)]
    copies = np.arange(len(rows)) - np.repeat(starts, np.diff(np.append(starts, len(rows))))
    keys[alike] = _mixed(ordered + copies.astype(np.uint64) * NEXT_COPY)
    return np.argsort(keys, kind="stable")


def _hashes(rows: npt.NDArray[Any], rng: np.random.Generator) -> Keys:
    """Return a hash of each row (N,): a random number plus each word times a random odd number, mixed."""
    contents = np.ascontiguousarray(rows).view(np.uint8).reshape(len(rows), rows.shape[1] * rows.itemsize)
    words = contents if contents.shape[1] % 4 else contents.view(np.uint32)
    first, *others = rng.integers(1 << 64, size=words.shape[1] + 1, dtype=np.uint64)
    factors = np.array(others, np.uint64) | np.uint64(1)
    sums = np.empty(len(rows), np.uint64)
    for start in range(0, len(rows), ROWS_AT_ONCE):
        some = slice(start, start + ROWS_AT_ONCE)
        sums[some] = words[some].astype(np.uint64) @ factors + first
    return _mixed(sums)


def _mixed(keys: Keys) -> Keys:
    """Return keys of which every bit depends on all bits of the given ones: what SplitMix64 makes of them."""
    for shift, factor in zip((30, 27), FACTORS, strict=True):
        keys = (keys ^ (keys >> np.uint64(shift))) * factor
    return np.asarray(keys ^ (keys >> np.uint64(31)))
