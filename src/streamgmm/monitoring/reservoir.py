"""A uniform sample of the rows of a stream, in bounded memory."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

MOST_ROWS = 2000
MOST_BYTES = 1 << 22  # or the size of the parameters, where that is larger
FEWEST_ROWS = 100
MOST_WAITING, WAITING_BYTES = 256, 1 << 16  # of single rows that are taken in together
LARGEST_INTEGER = 1 << 53
MOST_WEIGHT = 1e100


def reservoir_size(n_features: int, dtype: np.dtype[Any], parameter_bytes: int) -> int:
    """Choose how many rows of a stream to keep.

    Parameters
    ----------
    n_features : int
        Width of a row.
    dtype : dtype
        Float type of a row.
    parameter_bytes : int
        Size of the parameters of the model.
    """
    most = max(MOST_BYTES, parameter_bytes) // (n_features * dtype.itemsize)
    return min(MOST_ROWS, max(FEWEST_ROWS, most))


class Reservoir:
    """Rows of a stream, each with the same chance to be here, or a better one the younger it is.

    It depends on the rows and their order alone, however they are cut into chunks.

    Parameters
    ----------
    most : int
        Number of rows to keep, or ``memory`` if that is less.
    memory : float, default=inf
        Rows after which a row counts less by a factor e; what the model forgets is forgotten here, too.

    Examples
    --------
    >>> sample = Reservoir(100)
    >>> sample.add(np.arange(10_000.0)[:, None])
    >>> sample.rows.shape, bool(abs(sample.rows.mean() - 5000) < 1000)
    ((100, 1), True)
    """

    def __init__(self, most: int, memory: float = inf) -> None:
        self.most, self.memory = int(min(most, memory)), memory
        self._rows: npt.NDArray[Any] = np.empty((0, 0))
        self._size = 0
        self._weight = 0.0
        self._seen = 0
        self._rng = np.random.Generator(np.random.PCG64(0))
        self._waiting: npt.NDArray[Any] = np.empty((0, 0))  # room for single rows, which are taken in together
        self._n_waiting = 0

    def __len__(self) -> int:
        self._take_waiting()
        return self._size

    @property
    def rows(self) -> npt.NDArray[Any]:
        """The rows kept, (n, D)."""
        self._take_waiting()
        return self._rows[: self._size]

    @property
    def weight(self) -> float:
        """Weight of all rows so far."""
        self._take_waiting()
        return self._weight

    @property
    def seen(self) -> int:
        """Number of all rows so far."""
        return self._seen + self._n_waiting

    def add_row(self, row: npt.NDArray[Any]) -> None:
        """Take in one row (1, D).

        Parameters
        ----------
        row : array of shape (1, D)
            A row of the stream.
        """
        if self._n_waiting == len(self._waiting):
            self._take_waiting()
            if not self._waiting.size:
                room = max(1, min(MOST_WAITING, WAITING_BYTES // row.nbytes))
                self._waiting = np.empty((room, row.shape[1]), row.dtype)
        self._waiting[self._n_waiting] = row
        self._n_waiting += 1

    def _take_waiting(self) -> None:
        if self._n_waiting:
            rows, self._n_waiting = self._waiting[: self._n_waiting], 0
            self.add(rows)

    def add(self, rows: npt.NDArray[Any], counts: npt.NDArray[np.float64] | None = None) -> None:
        """Take in rows (N, D), each as often as ``counts`` (N,) say.

        Parameters
        ----------
        rows : array of shape (N, D)
            Rows of the stream.
        counts : array of shape (N,) or None, default=None
            How often each counts; None counts each once.
        """
        self._take_waiting()
        if not self._rows.size:
            self._rows = np.empty((self.most, rows.shape[1]), rows.dtype)
        chances = self._rng.random(len(rows))
        self._seen += len(rows)
        weights = np.ones(len(rows)) if counts is None else counts
        times = self._weight + np.cumsum(weights)
        self._weight = float(times[-1]) if len(times) else self._weight
        some = np.flatnonzero(weights > 0)
        new = some[: self.most - self._size]
        self._rows[self._size : self._size + len(new)] = rows[new]
        self._size += len(new)
        later = some[len(new) :]
        if len(later):
            room = times[later] if self.memory == inf else self.memory * -np.expm1(-times[later] / self.memory)
            places = (chances[later] * np.maximum(room / weights[later], 1.0)).astype(np.int64)
            for i in np.flatnonzero(places < self.most):
                self._rows[places[i]] = rows[later[i]]

    def widen(self, more: int) -> None:
        """Add features of which the rows have no value."""
        self._take_waiting()
        self._waiting = np.empty((0, 0))
        if self._rows.size:
            self._rows = np.pad(self._rows, ((0, 0), (0, more)), constant_values=np.nan)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays, for a file."""
        numbers = np.array([self.most, self.memory, self.weight, self.seen], np.float64)
        numbers[1] = 0.0 if self.memory == inf else self.memory
        return {"rows": self.rows, "numbers": numbers}

    @classmethod
    def from_tensors(cls, rows: npt.NDArray[Any], numbers: npt.NDArray[np.float64]) -> Reservoir:
        """Return the reservoir that ``tensors`` gave; raise ValueError if they are damaged."""
        most, memory, weight, seen = numbers.tolist()
        fits = rows.ndim == 2 and len(rows) <= most <= MOST_ROWS and most >= 1 and memory >= 0
        if (
            not fits
            or (0 < memory < most)
            or not len(rows) <= seen <= LARGEST_INTEGER
            or not 0 <= weight <= MOST_WEIGHT
        ):
            raise ValueError(f"the sample of rows is damaged: {len(rows)} rows, {numbers.tolist()}")
        self = cls(int(most), memory or inf)
        self._weight, self._seen, self._size = weight, int(seen), len(rows)
        self._rng.bit_generator.advance(int(seen))  # type: ignore[attr-defined]
        if len(rows):
            self._rows = np.empty((self.most, rows.shape[1]), rows.dtype)
            self._rows[: len(rows)] = rows
        return self
