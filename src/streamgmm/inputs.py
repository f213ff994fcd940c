"""What comes in: arrays from users, looked at before anything changes, and handed on in pieces."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from sklearn.utils.validation import _check_sample_weight

from streamgmm import engines
from streamgmm.kernels import Rows, first_unfit_row

CHUNK_BYTES = 1 << 24  # data are converted to float in pieces of about this size, never as a whole
FAR_OUTSIDE = 10.0  # the random start suits data around [-1, 1]; beyond this it takes long to reach them
NARROW = 0.2  # of 1/precision_max: features whose variance is all below it look constant to the model
MOST_STEPS = 1e9  # of one call, by its weights
LARGE_COUNT, MANY_STEPS = 100.0, 1e6  # weights that are so large on average, and so long to wait for, may be no counts
ROUNDING = 1e-6  # of a weight: by so little it may miss a whole number, as weights divided by their mean do
SMALL_COUNT = 0.05  # weights that are all smaller were probably divided by their sum
LIMITS = {np.dtype(np.float32): 1e37, np.dtype(np.float64): 1e150}  # differences of two such numbers stay finite


def float_type(rows: npt.NDArray[Any]) -> np.dtype[Any]:
    """float32 stays float32, everything else becomes float64."""
    return np.dtype(np.float32 if rows.dtype.newbyteorder("=") == np.float32 else np.float64)


def pieces(
    rows: npt.NDArray[Any], dtype: np.dtype[Any], order: npt.NDArray[np.int64] | None = None
) -> Iterator[tuple[int, Rows]]:
    """Rows as floats (bytes as they are), a piece at a time, each with the number of rows done after it."""
    size = _piece_size(rows, dtype)
    for start in range(0, len(rows), size):
        stop = min(len(rows), start + size)
        piece = rows[start:stop] if order is None else rows[order[start:stop]]
        yield stop, piece if piece.dtype == np.uint8 else piece.astype(dtype, copy=False)


def _piece_size(rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> int:
    return max(1, CHUNK_BYTES // max(1, rows.shape[1] * dtype.itemsize))


class Repeats:
    """Numbers of rows, each as often as its weight says; a fractional rest is one more time that counts less.

    >>> Repeats(np.array([2.0, 0.0, 1.5])).look(np.arange(4))
    (array([0, 0, 2, 2]), array([1. , 1. , 1. , 0.5]))
    """

    def __init__(self, weights: npt.NDArray[np.float64]) -> None:
        near = np.rint(weights)
        rounded = (near >= 1) & (np.abs(weights - near) <= ROUNDING * near)
        weights = np.where(rounded, near, weights)
        whole = np.floor(weights)
        self._rests = weights - whole
        self._ends = np.cumsum(whole.astype(np.int64) + (self._rests > 0))

    def __len__(self) -> int:
        return int(self._ends[-1])

    def look(self, places: npt.NDArray[np.int64]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
        """Which row stands at each place, and how much it counts there."""
        rows = np.searchsorted(self._ends, places, side="right")
        rests = self._rests[rows]
        return rows, np.where((places + 1 == self._ends[rows]) & (rests > 0), rests, 1.0)


class Portion(NamedTuple):
    """Some rows to learn from, the number of rows done after them, and how much each counts (None: all alike)."""

    done: int
    rows: Rows
    shares: npt.NDArray[np.float64] | None


def portions(
    rows: npt.NDArray[Any],
    dtype: np.dtype[Any],
    weights: npt.NDArray[np.float64] | None = None,
    rng: np.random.Generator | None = None,
) -> Iterator[Portion]:
    """Rows as often as their weights say, a piece at a time; in an order that ``rng`` draws, or as they come."""
    repeats = None if weights is None else Repeats(weights)
    total = len(rows) if repeats is None else len(repeats)
    order = None if rng is None else rng.permutation(total)
    if repeats is None:
        for done, piece in pieces(rows, dtype, order):
            yield Portion(done, piece, None)
        return
    size = _piece_size(rows, dtype)
    for start in range(0, total, size):
        stop = min(total, start + size)
        chosen, shares = repeats.look(np.arange(start, stop) if order is None else order[start:stop])
        piece = rows[chosen]
        yield Portion(stop, piece if piece.dtype == np.uint8 else piece.astype(dtype, copy=False), shares)


def sample_weights(
    values: npt.ArrayLike | None, rows: npt.NDArray[Any], *, counts: bool = True
) -> npt.NDArray[np.float64] | None:
    """Weights from a user, one a row; raises unless they are finite, not negative and not all zero.

    Warns of ``counts`` that are all so small that hardly anything would be learned.
    """
    if values is None:
        return None
    weights: npt.NDArray[np.float64] = _check_sample_weight(values, rows, dtype=np.float64, ensure_non_negative=True)
    if not weights.any():
        raise ValueError(f"all {len(weights)} sample weights are zero; expected at least one that is positive.")
    if counts and weights.sum() > MOST_STEPS:
        raise ValueError(
            f"sample weights sum to {weights.sum():.3g}; weights are counts, and each is a step. Divide them by "
            f"{weights.mean():.3g}, their mean."
        )
    if counts and weights.mean() > LARGE_COUNT and weights.sum() > MANY_STEPS:
        warnings.warn(
            f"sample weights are {weights.mean():.3g} on average; weights are counts, so {weights.sum():.3g} steps "
            "will be taken. Divide them by their mean to take one a row.",
            UserWarning,
            stacklevel=4,
        )
    if counts and weights.max() < SMALL_COUNT:
        warnings.warn(
            f"the largest sample weight is {weights.max():.3g}; weights are counts, so hardly anything is learned. "
            "Multiply them, so that they are 1 on average.",
            UserWarning,
            stacklevel=4,
        )
    return weights


def refuse_unfit(
    rows: npt.NDArray[Any], dtype: np.dtype[Any], name: str = "X", *, threads: int = 1, gaps: bool = False
) -> None:
    """Raises for the first value that is infinite, too large for a model of ``dtype``, or NaN without ``gaps``."""
    for number, complaint in unfit(rows, dtype, threads=threads, gaps=gaps):
        raise ValueError(f"row {number} of {name} {complaint}")


def unfit(
    rows: npt.NDArray[Any], dtype: np.dtype[Any], *, threads: int = 1, gaps: bool = False
) -> Iterator[tuple[int, str]]:
    """Numbers of rows that ``refuse_unfit`` would raise for, and why."""
    if rows.dtype.kind in "iub":
        return  # whole numbers of any width are finite and far from the limits
    limit = min(LIMITS[dtype], LIMITS[float_type(rows)])
    for done, piece in pieces(rows, float_type(rows)):
        parts = np.array_split(piece, threads) if threads > 1 else [piece]
        starts = list(accumulate((len(part) for part in parts[:-1]), initial=done - len(piece)))
        found = engines.together(threads, lambda part: first_unfit_row(part, limit, gaps), parts)
        for start, part, bad in zip(starts, parts, found, strict=True):
            while bad is not None:
                yield start + bad, _complaint(part[bad], limit, gaps)
                more = first_unfit_row(part[bad + 1 :], limit, gaps)
                bad = None if more is None else bad + 1 + more


def _complaint(row: npt.NDArray[Any], limit: float, gaps: bool) -> str:
    unfit = ~(np.abs(row) <= limit)
    feature = int(np.flatnonzero(unfit & ~np.isnan(row) if gaps else unfit)[0])
    value = row[feature]
    what = "NaN" if np.isnan(value) else "inf" if np.isinf(value) else f"{value:g}, too large,"
    return (
        f"contains {what} at feature {feature}; "
        f"expected finite numbers within ±{limit:g}. Drop or impute such rows"
        + ("." if gaps or not np.isnan(value) else ", or learn from the other features with allow_nan=True.")
    )


def warn_of_scale(rows: npt.NDArray[Any], precision_max: float) -> None:
    """Warns once, with the remedy, when the first data do not suit the start or the precision cap."""
    _, head = next(pieces(rows, np.dtype(np.float64)))
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of features that nobody has
        means, variances = np.nanmean(head, axis=0), np.nanvar(head, axis=0)
        # how far a feature reaches, if it were uniform: one value far out is no matter of scale
        largest, spread = float(np.nanmax(np.abs(means) + np.sqrt(3 * variances))), float(np.nanmax(variances))
    if largest > FAR_OUTSIDE:
        found = f"data reach {largest:.3g}, far outside [-1, 1] where training starts"
    elif len(head) >= 10 and 0 < spread < NARROW / precision_max:
        found = (
            f"the largest variance of a feature is {spread:.3g}, far below the smallest variance that "
            f"precision_max allows, {1 / precision_max:.3g}"
        )
    else:
        return
    warnings.warn(
        f"{found}; the mixture will fit badly. Scale the data with sklearn.preprocessing.StandardScaler, "
        f"or choose precision_max (now {precision_max:g}) as about 100 divided by the variance of a feature.",
        UserWarning,
        stacklevel=5,  # past fit or partial_fit and scikit-learn's wrapper of it
    )


def given(name: str, values: npt.ArrayLike, shape: tuple[int, ...]) -> npt.NDArray[np.float64]:
    """Initial values from a user, as float64 of the expected shape."""
    array = np.asarray(values, dtype=np.float64)
    if array.shape != shape:
        raise ValueError(f"{name} has shape {array.shape}; expected {shape}.")
    if not (finite := np.isfinite(array)).all():
        place = np.argwhere(~finite)[0].tolist()
        raise ValueError(f"{name} holds {array[tuple(place)]} at {place}; expected finite numbers.")
    return array


def warn_of_cap(precisions: npt.NDArray[np.float64], precision_max: float) -> None:
    """Warns of initial precisions that the cap will cut."""
    if precisions.max() > precision_max:
        warnings.warn(
            f"precisions_init reaches {precisions.max():.3g}; all above precision_max, {precision_max:g}, become that. "
            "Raise precision_max to keep them.",
            UserWarning,
            stacklevel=6,  # past fit or partial_fit and scikit-learn's wrapper of it
        )


def seed(random_state: int | np.random.RandomState | np.random.Generator | None) -> int | None:
    """One number from any kind of random state; drawing it advances a generator that the caller holds."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    return None if random_state is None else int(random_state)


def threads(n_jobs: int | None) -> int:
    """Number of threads, counted like joblib does: None is 1, -1 all cores, -2 all but one."""
    if n_jobs == 0:
        raise ValueError("n_jobs is 0; expected a number of threads, -1 for all cores, or None for one.")
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + n_jobs)
