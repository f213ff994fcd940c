"""The beginning of a batch whose rest has not arrived yet."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.native import Floats, Rows

Shares = npt.NDArray[np.float64]
"""How much each sample counts, within (0, 1]."""


class PartialBatch:
    """Samples that wait until their batch is complete.

    Parameters
    ----------
    n_features : int
        Width of a sample.
    dtype : dtype
        Float type of the samples.
    batch_size : int
        Samples of a whole batch; with 1, nothing ever waits.
    """

    def __init__(self, n_features: int, dtype: np.dtype[Any], batch_size: int) -> None:
        self._wanted = batch_size if batch_size > 1 else 0
        self._room = np.empty((0, n_features), dtype)
        self._shares = np.empty(0)
        self._count = 0

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Floats:
        """(n, D) view."""
        return self._room[: self._count]

    @property
    def shares(self) -> Shares:
        """How much each of them counts, (n,) view."""
        return self._shares[: self._count]

    def add(self, rows: Rows, factor: float = 1.0, shares: Shares | None = None) -> int:
        """Take as many rows as the batch still needs, times ``factor``; return how many."""
        taken = rows[: self._wanted - self._count]
        self._make_room(self._count + len(taken))
        place = slice(self._count, self._count + len(taken))
        self._room[place] = taken
        self._room[place] *= self._room.dtype.type(factor)
        self._shares[place] = 1.0 if shares is None else shares[: len(taken)]
        self._count += len(taken)
        return len(taken)

    def borrow(self, rows: Floats, shares: Shares | None = None) -> int:
        """Take rows without a copy, if there are none yet; return how many. ``own`` ends the loan."""
        self._room, self._count = rows, len(rows)
        self._shares = np.ones(len(rows)) if shares is None else shares[: len(rows)]
        return len(rows)

    def own(self) -> None:
        """Copy rows that may have been borrowed."""
        self._room, self._shares = self.rows.copy(), self.shares.copy()

    def clear(self) -> None:
        """Drop all samples."""
        self._count = 0

    def restore(self, rows: npt.NDArray[Any], shares: npt.NDArray[Any]) -> None:
        """Take samples from a file; raise ValueError if they do not fit."""
        if rows.ndim != 2 or rows.shape[1] != self._room.shape[1] or len(rows) >= max(self._wanted, 1):
            raise ValueError(f"pending rows have shape {rows.shape}; expected fewer than {max(self._wanted, 1)}")
        if rows.dtype != self._room.dtype:
            raise ValueError(f"pending rows are {rows.dtype}; expected {self._room.dtype}")
        if shares.shape != (len(rows),) or not ((shares > 0) & (shares <= 1)).all():
            raise ValueError("shares of pending rows are out of range")
        self.add(rows, 1.0, shares)

    def _make_room(self, count: int) -> None:
        """Double the room, so that rows are copied a few times at most and memory follows the rows."""
        if count > len(self._room):
            size = min(self._wanted, max(count, 2 * len(self._room)))
            rows, shares = self.rows, self.shares
            self._room, self._shares = np.empty((size, rows.shape[1]), rows.dtype), np.empty(size)
            self._room[: self._count], self._shares[: self._count] = rows, shares

    def __getstate__(self) -> dict[str, Any]:
        return {"wanted": self._wanted, "rows": self.rows.copy(), "shares": self.shares.copy()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take copies: joblib hands over large arrays as memory maps that cannot be written."""
        self._wanted, self._count = state["wanted"], len(state["rows"])
        self._room, self._shares = np.array(state["rows"]), np.array(state["shares"])
