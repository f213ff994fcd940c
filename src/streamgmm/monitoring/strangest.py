"""The strangest recent rows of a stream."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import LIMITS
from streamgmm.monitoring.bursts import PlainId, plain_id
from streamgmm.native import Floats

MOST_ROWS = 12
LARGEST = LIMITS[np.dtype(np.float32)]
MAX_AGE = 100_000  # samples after which a strange row is no longer news
LONGEST_ID = 200  # characters


class StrangestRows:
    """The rows with the lowest scores among the latest 100 000 samples.

    Attributes
    ----------
    rows : array of shape (n, D)
        The rows, strangest first.
    scores, numbers, times : arrays of shape (n,)
        Log-likelihood of each, its row number in the source, and when it arrived, in samples.
    ids : list of str, int, float or None
        Id or time of each row, where the source has one.
    """

    def __init__(self) -> None:
        self.rows: Floats
        self.ids: list[PlainId]
        self.clear()

    def clear(self) -> None:
        """Forget all rows: another source has other rows of these numbers."""
        self.ids, self.rows = [], np.empty((0, 0), np.float32)
        self.scores, self.numbers, self.times = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def limit(self) -> float:
        """The score below which a row is among the strangest."""
        return float(self.scores[-1]) if len(self.scores) == MOST_ROWS else inf

    def add(
        self,
        rows: npt.NDArray[Any],
        scores: npt.NDArray[np.float64],
        numbers: npt.NDArray[np.int64],
        time: int,
        ids: Sequence[Any] | None = None,
    ) -> None:
        """Take in rows (N, D) with their scores, numbers and ids; ``time`` is counted in samples."""
        lowest = np.argsort(scores, kind="stable")[:MOST_ROWS]
        # the same row may come again with the next pass
        young = (self.times >= time - MAX_AGE) & ~np.isin(self.numbers, numbers[lowest])
        kept = self.rows[young] if len(self.rows) else np.empty((0, rows.shape[1]), np.float32)
        every = np.concatenate([self.scores[young], scores[lowest]])
        best = np.argsort(every, kind="stable")[:MOST_ROWS]
        fresh = np.clip(rows[lowest], -LARGEST, LARGEST).astype(np.float32)
        self.rows = np.concatenate([kept, fresh])[best]
        self.numbers = np.concatenate([self.numbers[young], numbers[lowest]])[best]
        self.times = np.concatenate([self.times[young], np.full(len(lowest), time)])[best]
        self.scores = every[best]
        new = [None] * len(lowest) if ids is None else [short_id(ids[i]) for i in lowest.tolist()]
        known = [*compress(self.ids, young.tolist()), *new]
        self.ids = [known[i] for i in best.tolist()]


def short_id(value: Any) -> PlainId:
    """Return the id of a row as JSON has it, with at most 200 characters."""
    plain = plain_id(value)
    return plain[: LONGEST_ID - 1] + "…" if isinstance(plain, str) and len(plain) > LONGEST_ID else plain
