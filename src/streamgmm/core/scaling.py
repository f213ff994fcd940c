"""Scaling of raw streams, learned from their first rows; and a warning where it is missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import pieces
from streamgmm.errors import DataWarning, Remedy
from streamgmm.native import Floats

FAR_OUTSIDE = 10.0  # the random start suits data around [-1, 1]; beyond this it takes long to reach them
NARROW = 0.2  # of 1/precision_max: features whose variance is all below it look constant to the model
SCALINGS = ("none", "minmax", "standard")
CORE, LEAST_DISTINCT = 0.4, 10  # share of the distinct values that are the core of a feature, if it has so many
DOUBTFUL = 0.1  # share of values far from the core that may be data or a burst
BLOCK = 128  # columns that are looked at together
EXTREME = 1000.0  # times the interquartile range from the median: values farther away are ignored


@dataclass(frozen=True)
class Scaling:
    """Map features to (x − shift)·factor.

    Parameters
    ----------
    kind : {"minmax", "standard"}
        How it was learned.
    shift, factor : arrays of shape (D,)
        The map of each feature.

    Examples
    --------
    >>> Scaling.learn("minmax", np.array([[0.0, 5.0], [10.0, 5.0]])).apply(np.array([[5.0, 6.0]]), np.dtype(np.float64))
    array([[0.5, 1. ]])
    """

    kind: str
    shift: npt.NDArray[np.float64]
    factor: npt.NDArray[np.float64]

    @classmethod
    def learn(cls, kind: str, rows: npt.NDArray[Any]) -> Scaling:
        """Learn from rows (N, D): "minmax" maps them to [0, 1], "standard" to mean 0 and deviation 1, ignoring NaN."""
        known = without_extremes(rows.astype(np.float64))
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # about features without any value
            if kind == "minmax":
                shift, width = np.nanmin(known, axis=0), np.nanmax(known, axis=0) - np.nanmin(known, axis=0)
            else:
                shift, width = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
        constant = ~(width > 1e-12 * np.maximum(np.abs(shift), 1e-300))
        return cls(kind, np.nan_to_num(shift), 1 / np.where(constant, 1.0, width))

    def invert(self, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return rows (N, D) of the model in the units of the source."""
        return np.asarray(rows / self.factor + self.shift)

    def apply(self, rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> Floats:
        """Scale rows (N, D) for the model."""
        most = np.finfo(dtype).max / 100
        return np.clip((rows - self.shift) * self.factor, -most, most).astype(dtype)


def without_extremes(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace extreme values by NaN."""
    if not len(rows):
        return rows
    lowest, low, middle, high, highest = _quantiles(rows, (0.01, 0.25, 0.5, 0.75, 0.99))
    away = np.abs(rows - middle)
    spread = np.where(high > low, high - low, highest - lowest)
    same = np.flatnonzero(spread == 0)  # nearly all values are equal: look at the others
    others = away[:, same]
    (typical,) = _quantiles(np.where(others > 0, others, np.nan), (0.5,))
    spread[same] = np.where(np.isnan(typical), 0.0, typical)
    far = away > EXTREME * np.where(spread > 0, spread, np.inf)
    return np.where(far, np.nan, rows)


def blocks_without_absurd_rows(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.float64]]:
    """Replace extreme values by NaN, and all values of rows that are extreme in half of the features that vary.

    Where all other rows are equal, nothing tells that the values of such a row are extreme. Yield blocks of columns:
    the whole would take several times the memory of the rows.
    """
    suspect = np.zeros(len(rows), np.bool_)
    for columns in column_blocks(rows):
        suspect |= _extreme(columns).any(1)
    absurd = np.zeros(len(rows), np.bool_)
    if suspect.any() and not suspect.all():
        counts, features = np.zeros(len(rows), np.int64), 0
        for columns in column_blocks(rows):
            others = without_extremes(columns)[~suspect]
            varies = np.fmin.reduce(others) < np.fmax.reduce(others)  # false for features without any value
            counts += _extreme(columns)[:, varies].sum(1)
            features += int(varies.sum())
        absurd = (counts >= 0.5 * features) & (features > 0)
    for columns in column_blocks(rows):
        known = without_extremes(columns)
        known[absurd] = np.nan
        yield known


def _extreme(columns: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    return np.isnan(without_extremes(columns)) & ~np.isnan(columns)


def _quantiles(rows: npt.NDArray[np.float64], shares: tuple[float, ...]) -> list[npt.NDArray[np.float64]]:
    """Return quantiles of each column of rows (N, D), ignoring NaN: many times as fast as those of NumPy."""
    columns = np.sort(rows.T, axis=1)  # NaN comes last
    last = np.maximum((~np.isnan(columns)).sum(1) - 1, 0)
    each = np.arange(len(columns))
    found = []
    for share in shares:
        place = share * last
        below = place.astype(np.int64)
        low, high = columns[each, below], columns[each, np.minimum(below + 1, last)]
        found.append(low + (place - below) * (high - low))
    return found


def may_hold_a_burst(rows: npt.NDArray[Any]) -> bool:
    """Return whether many values of a feature are so far from others that one kind of them may be a burst."""
    return any(_may_hold_a_burst(columns) for columns in column_blocks(rows))


def column_blocks(rows: npt.NDArray[Any]) -> Iterator[npt.NDArray[np.float64]]:
    """Yield blocks of the columns of rows (N, D): what is computed for a block fits into the cache."""
    for start in range(0, max(rows.shape[1], 1), BLOCK):
        yield rows[:, start : start + BLOCK].astype(np.float64)


def _may_hold_a_burst(rows: npt.NDArray[np.float64]) -> bool:
    gaps = np.diff(np.sort(rows.T, axis=1), axis=1)
    gaps[~(gaps > 0)] = np.inf
    smallest, width = gaps.min(1, initial=np.inf), gaps.sum(1, where=gaps < np.inf)
    wide = width > EXTREME * int(CORE * LEAST_DISTINCT) * smallest  # a core has so many gaps at least
    return bool(wide.any()) and _is_divided(rows[:, wide])


def _is_divided(rows: npt.NDArray[np.float64]) -> bool:
    columns = np.sort(without_extremes(rows).T, axis=1)  # NaN comes last
    repeated = np.zeros(columns.shape, np.bool_)
    repeated[:, 1:] = columns[:, 1:] == columns[:, :-1]
    distinct = np.sort(np.where(repeated, np.nan, columns), axis=1)
    count = (~np.isnan(distinct)).sum(1)
    many = count >= LEAST_DISTINCT
    if not many.any():
        return False
    columns, distinct, count = columns[many], distinct[many], count[many]
    size = (CORE * count).astype(np.int64)[:, None]
    last = np.minimum(np.arange(distinct.shape[1]) + size, distinct.shape[1] - 1)
    widths = np.take_along_axis(distinct, last, 1) - distinct
    widths[np.arange(distinct.shape[1]) >= count[:, None] - size] = np.inf
    start = widths.argmin(1)[:, None]  # the core are the distinct values that lie closest together
    reach = EXTREME * np.take_along_axis(widths, start, 1)
    low, high = (np.take_along_axis(distinct, at, 1) for at in (start, start + size))
    far = (columns < low - reach) | (columns > high + reach)  # false for NaN
    return bool((far.sum(1) > DOUBTFUL * (~np.isnan(columns)).sum(1)).any())


def warn_of_scale(rows: npt.NDArray[Any], precision_max: float) -> None:
    """Warn, with the remedy, when the first rows do not suit the start or the precision cap."""
    _, head = next(pieces(rows, np.dtype(np.float64)))
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # about features without any value
        means, variances = np.nanmean(head, axis=0), np.nanvar(head, axis=0)
        # how far a feature would reach if it were uniform: one extreme value is not a matter of scale
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
    message = (
        f"{found}; the mixture will fit poorly. A suitable precision_max (now {precision_max:g}) is about 100 divided "
        "by the variance of a feature."
    )
    warnings.warn(DataWarning(message, Remedy.RAISE_PRECISION_MAX), stacklevel=4)
