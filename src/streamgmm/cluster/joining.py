"""Joining short chunks: slices that follow each other hold few rows, which cost more one by one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from streamgmm.sources import Chunk

JOINED_BYTES = 1 << 23  # of rows; chunks that are as large stay as they are
K = TypeVar("K")


def joined(chunks: Iterable[tuple[K, Chunk]]) -> Iterator[tuple[K, Chunk]]:
    """Join consecutive chunks that have the same key, type and width.

    Parameters
    ----------
    chunks : iterable of (key, Chunk)
        The chunks, in their order.
    """
    waiting, size = list[tuple[K, Chunk]](), 0
    for key, chunk in chunks:
        if waiting and not _alike(waiting[0], (key, chunk)):
            yield waiting[0][0], _join([before for _, before in waiting])
            waiting, size = [], 0
        waiting.append((key, chunk))
        size += chunk.rows.nbytes
        if size >= JOINED_BYTES:
            yield key, _join([some for _, some in waiting])
            waiting, size = [], 0
    if waiting:
        yield waiting[0][0], _join([some for _, some in waiting])


def _alike(first: tuple[K, Chunk], second: tuple[K, Chunk]) -> bool:
    here, there = first[1].rows, second[1].rows
    return first[0] == second[0] and here.dtype == there.dtype and here.shape[1:] == there.shape[1:]


def _join(chunks: list[Chunk]) -> Chunk:
    if len(chunks) == 1:
        return chunks[0]
    rows, numbers = (np.concatenate([chunk[i] for chunk in chunks]) for i in (0, 1))
    every = [chunk.ids for chunk in chunks]
    ids: tuple[Any, ...] | None = None
    if not any(own is None for own in every):
        ids = tuple(chain.from_iterable(own for own in every if own is not None))
    return Chunk(rows, numbers, chunks[-1].position, tuple(b for chunk in chunks for b in chunk.bad), ids)
