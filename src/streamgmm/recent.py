"""What was usual lately: quantiles of scores, and the strangest rows, in constant memory."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt
from datasketches import tdigest_double

from streamgmm.kernels import Floats

WINDOW = 20_000  # scores of so many samples, and of up to as many before them, decide what is usual
FIRST_WINDOW = 250  # and of fewer at first: a model that still learns fast soon knows better
ODD_ROWS = 12
FARTHEST = 3e38  # of float32
ODD_AGE = 100_000  # samples after which a strange row is no longer news


class RecentQuantiles:
    """Quantiles of the latest values of a stream, in constant memory: two t-digests that take turns.

    In the beginning they take turns more often, so that the first values, up to half of all, are forgotten early.

    >>> quantiles = RecentQuantiles(window=1000)
    >>> quantiles.add(np.arange(5000.0))
    >>> quantiles.quantile(0.5) > 3500
    True
    """

    def __init__(self, window: int = WINDOW) -> None:
        self.window = window
        self._current, self._previous = tdigest_double(200), tdigest_double(200)

    def __len__(self) -> int:
        return int(self._current.get_total_weight() + self._previous.get_total_weight())

    def add(self, values: npt.NDArray[np.float64]) -> None:
        """Takes in values (N,), the latest last."""
        while len(values):
            window = min(self.window, max(FIRST_WINDOW, 2 * int(self._previous.get_total_weight())))
            room = max(0, window - int(self._current.get_total_weight()))
            self._current.update(np.ascontiguousarray(values[:room], dtype=np.float64))
            values = values[room:]
            if self._current.get_total_weight() >= window:
                self._current, self._previous = tdigest_double(200), self._current

    def fill(self, values: npt.NDArray[np.float64]) -> None:
        """Takes in values (N,) of which none is older than another, before any others come."""
        self._previous.update(np.ascontiguousarray(values, dtype=np.float64))

    def quantile(self, share: float) -> float:
        """The value below which such a share of the latest values lies."""
        return float(self._both().get_quantile(share))

    def rank(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Share of the latest values that lie below each of ``values`` (N,)."""
        both = self._both()
        return np.array([both.get_rank(float(v)) for v in values])

    def p_values(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Chance that a usual sample scores as low as each of ``values`` (N,); never zero, since n values are few."""
        if not len(self):
            return np.ones(len(values))
        return (self.rank(values) * len(self) + 1) / (len(self) + 1)

    def _both(self) -> Any:
        both = tdigest_double.deserialize(self._current.serialize())
        both.merge(self._previous)
        return both

    def __getstate__(self) -> dict[str, Any]:
        return {"window": self.window, "digests": (self._current.serialize(), self._previous.serialize())}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.window = state["window"]
        self._current, self._previous = (tdigest_double.deserialize(d) for d in state["digests"])


class Recent:
    """What a run remembers of its latest samples: quantiles of their scores, and the strangest of them."""

    def __init__(self) -> None:
        self.scores = RecentQuantiles()
        self.odd_rows: Floats
        self.forget_rows()

    def forget_rows(self) -> None:
        """Another source has other rows of these numbers."""
        self.odd_rows = np.empty((0, 0), np.float32)
        self.odd_scores, self.odd_numbers, self.odd_times = np.empty(0), np.empty(0, np.int64), np.empty(0, np.int64)

    @property
    def bar(self) -> float:
        """The score below which a row is among the strangest of late."""
        return float(self.odd_scores[-1]) if len(self.odd_scores) == ODD_ROWS else inf

    def note(
        self, rows: npt.NDArray[Any], scores: npt.NDArray[np.float64], numbers: npt.NDArray[np.int64], time: int
    ) -> None:
        """Takes in rows (N, D) with their scores and their numbers in the source; ``time`` is counted in samples."""
        lowest = np.argsort(scores, kind="stable")[:ODD_ROWS]
        # the same row may come again with the next pass
        young = (self.odd_times >= time - ODD_AGE) & ~np.isin(self.odd_numbers, numbers[lowest])
        kept = self.odd_rows[young] if len(self.odd_rows) else np.empty((0, rows.shape[1]), np.float32)
        every = np.concatenate([self.odd_scores[young], scores[lowest]])
        best = np.argsort(every, kind="stable")[:ODD_ROWS]
        fresh = np.clip(rows[lowest], -FARTHEST, FARTHEST).astype(np.float32)
        self.odd_rows = np.concatenate([kept, fresh])[best]
        self.odd_numbers = np.concatenate([self.odd_numbers[young], numbers[lowest]])[best]
        self.odd_times = np.concatenate([self.odd_times[young], np.full(len(lowest), time)])[best]
        self.odd_scores = every[best]

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """Everything, for a file."""
        current, previous = (np.frombuffer(d, np.uint8) for d in self.scores.__getstate__()["digests"])
        return {
            "scores": current,
            "scores_before": previous,
            "odd_rows": self.odd_rows,
            "odd_scores": self.odd_scores,
            "odd_numbers": self.odd_numbers,
            "odd_times": self.odd_times,
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, npt.NDArray[Any]]) -> Recent:
        """What ``arrays`` gave; raises ValueError or KeyError if it is damaged."""
        self = cls()
        digests = tuple(arrays[name].tobytes() for name in ("scores", "scores_before"))
        try:
            self.scores.__setstate__({"window": WINDOW, "digests": digests})
        except RuntimeError as problem:
            raise ValueError(f"the sketch of scores is damaged ({problem!s:.100})") from problem
        self.odd_rows, self.odd_scores, self.odd_numbers = (
            arrays[name] for name in ("odd_rows", "odd_scores", "odd_numbers")
        )
        self.odd_times = arrays.get("odd_times", self.odd_numbers)
        if not len(self.odd_rows) == len(self.odd_scores) == len(self.odd_numbers) == len(self.odd_times):
            raise ValueError("the strangest rows and their scores differ in number")
        return self
