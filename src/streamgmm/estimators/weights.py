"""Sample weights: counts that become repeated rows and, for fractions, shares of a step."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import piece_size, pieces
from streamgmm.errors import DataWarning
from streamgmm.native import Rows

Weights = npt.NDArray[np.float64]
MOST_STEPS = 1e9  # of one call, by its weights
LARGE_COUNT, MANY_STEPS = 100.0, 1e6  # weights this large on average, and this slow, may not be meant as counts
ROUNDING = 1e-6  # relative error within which a weight counts as an integer, as weights divided by their mean have
SMALL_COUNT = 0.05  # weights that are all smaller were probably divided by their sum


class Repeats:
    """Row numbers, each as often as its weight says; a fractional rest is one more time with a smaller share.

    Parameters
    ----------
    weights : array of shape (N,)
        Weight of each row.

    Examples
    --------
    >>> Repeats(np.array([2.0, 0.0, 1.5])).look_up(np.arange(4))
    (array([0, 0, 2, 2]), array([1. , 1. , 1. , 0.5]))
    """

    def __init__(self, weights: Weights) -> None:
        near = np.rint(weights)
        rounded = (near >= 1) & (np.abs(weights - near) <= ROUNDING * near)
        weights = np.where(rounded, near, weights)
        whole = np.floor(weights)
        self._rests = weights - whole
        self._ends = np.cumsum(whole.astype(np.int64) + (self._rests > 0))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def look_up(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], Weights]:
        """Return the row at each place, and its share there."""
        rows = np.searchsorted(self._ends, places, side="right")
        rests = self._rests[rows]
        return rows, np.where((places + 1 == self._ends[rows]) & (rests > 0), rests, 1.0)


class Portion(NamedTuple):
    """Rows to learn from, the number of rows done after them, and their shares (None: all count fully)."""

    done: int
    rows: Rows
    shares: Weights | None


def portions(
    rows: npt.NDArray[Any],
    dtype: np.dtype[Any],
    weights: Weights | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[Portion]:
    """Yield rows as often as their weights say, a piece at a time; in an order that ``rng`` draws, or as they come."""
    repeats = None if weights is None else Repeats(weights)
    total = len(rows) if repeats is None else len(repeats)
    order = None if rng is None else rng.permutation(total)
    if repeats is None:
        for done, piece in pieces(rows, dtype, order):
            yield Portion(done, piece, None)
        return
    size = piece_size(rows, dtype)
    for start in range(0, total, size):
        stop = min(total, start + size)
        chosen, shares = repeats.look_up(np.arange(start, stop) if order is None else order[start:stop])
        piece = rows[chosen]
        yield Portion(stop, piece if piece.dtype == np.uint8 else piece.astype(dtype, copy=False), shares)


def repeated(rows: npt.NDArray[Any], weights: Weights | None) -> tuple[npt.NDArray[Any], Weights | None]:
    """Return rows as often as their weights say, in their order, and their shares."""
    if weights is None:
        return rows, None
    repeats = Repeats(weights)
    chosen, shares = repeats.look_up(np.arange(len(repeats)))
    return rows[chosen], shares


def check_weights(values: npt.ArrayLike | None, count: int) -> Weights | None:
    """Convert sample weights to float64 (N,); raise unless they are finite, non-negative and not all zero."""
    if values is None:
        return None
    weights = np.full(count, float(values)) if isinstance(values, Real) else np.asarray(values, dtype=np.float64)
    if weights.ndim != 1:
        raise ValueError(f"sample_weight has shape {weights.shape}; expected one weight per row, ({count},).")
    if len(weights) != count:
        raise ValueError(f"sample_weight has {len(weights)} entries; expected {count}, one per row.")
    if not np.isfinite(weights).all():
        raise ValueError("sample_weight contains NaN or infinity; expected finite numbers.")
    if (weights < 0).any():
        raise ValueError(f"Negative values in data passed to `sample_weight`: the smallest is {weights.min():g}.")
    if not weights.any():
        raise ValueError(f"all {len(weights)} sample weights are zero; expected at least one that is positive.")
    return weights


def check_counts(values: npt.ArrayLike | None, count: int, callers: int = 2) -> Weights | None:
    """Check weights that are counts, and warn, so many ``callers`` up, if they look like something else."""
    weights = check_weights(values, count)
    if weights is None:
        return None
    if weights.sum() > MOST_STEPS:
        raise ValueError(
            f"sample weights sum to {weights.sum():.3g}; weights are counts, and each is a step. Divide them by "
            f"{weights.mean():.3g}, their mean."
        )
    if weights.mean() > LARGE_COUNT and weights.sum() > MANY_STEPS:
        warnings.warn(
            f"sample weights are {weights.mean():.3g} on average; weights are counts, so {weights.sum():.3g} steps "
            "will be taken. Divide them by their mean to take one per row.",
            DataWarning,
            stacklevel=callers + 1,
        )
    if weights.max() < SMALL_COUNT:
        warnings.warn(
            f"the largest sample weight is {weights.max():.3g}; weights are counts, so hardly anything is learned. "
            "Multiply them, so that they are 1 on average.",
            DataWarning,
            stacklevel=callers + 1,
        )
    return weights
