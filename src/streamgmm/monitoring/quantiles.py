"""Quantiles of recent values of a stream, in constant memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from datasketches import tdigest_double

WINDOW = 20_000  # values in each of two windows that decide what is typical
FIRST_WINDOW = 250  # fewer at first: early scores of a model that still learns fast are soon outdated


class RecentQuantiles:
    """Quantiles of the latest values of a stream: two t-digests that take turns.

    At the beginning they take turns more often, so that the first values, up to half of all, are forgotten early.
    Reading a t-digest compresses it, so quantiles depend slightly on when they are read.

    Parameters
    ----------
    window : int, default=20_000
        Values in a window; the quantiles cover one to two windows.

    Examples
    --------
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
        """Take in values (N,), the latest last."""
        while len(values):
            window = min(self.window, max(FIRST_WINDOW, 2 * int(self._previous.get_total_weight())))
            room = max(0, window - int(self._current.get_total_weight()))
            self._current.update(np.ascontiguousarray(values[:room], dtype=np.float64))
            values = values[room:]
            if self._current.get_total_weight() >= window:
                self._current, self._previous = tdigest_double(200), self._current

    def fill(self, values: npt.NDArray[np.float64]) -> None:
        """Take in values (N,) that are all equally old, before any others arrive."""
        self._previous.update(np.ascontiguousarray(values, dtype=np.float64))

    def quantile(self, share: float) -> float:
        """Return the value below which this share of the latest values lies."""
        return float(self._both().get_quantile(share))

    def rank(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the share of the latest values that lies below each of ``values`` (N,)."""
        both = self._both()
        return np.array([both.get_rank(float(v)) for v in values])

    def p_values(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Return the probability that a typical sample scores as low as each of ``values`` (N,); never zero."""
        if not len(self):
            return np.ones(len(values))
        return (self.rank(values) * len(self) + 1) / (len(self) + 1)

    def digests(self) -> tuple[bytes, bytes]:
        """Return the current and the previous digest, serialised."""
        return self._current.serialize(), self._previous.serialize()

    @classmethod
    def from_digests(cls, current: bytes, previous: bytes, window: int = WINDOW) -> RecentQuantiles:
        """Return the quantiles that ``digests`` gave; raise ValueError if they are damaged."""
        self = cls(window)
        try:
            self._current, self._previous = (tdigest_double.deserialize(d) for d in (current, previous))
        except RuntimeError as problem:
            raise ValueError(f"the sketch of scores is damaged ({problem!s:.100})") from problem
        return self

    def _both(self) -> Any:
        both = tdigest_double.deserialize(self._current.serialize())
        both.merge(self._previous)
        return both

    def __getstate__(self) -> dict[str, Any]:
        return {"window": self.window, "digests": self.digests()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        current, previous = state["digests"]
        vars(self).update(vars(RecentQuantiles.from_digests(current, previous, state["window"])))
