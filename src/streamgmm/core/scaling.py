"""Scaling of raw streams, learned from their first rows; and a warning where it is missing."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import LIMITS, pieces
from streamgmm.errors import DataWarning, Remedy
from streamgmm.native import Floats

FAR_OUTSIDE = 10.0  # the random start suits data around [-1, 1]; beyond this it takes long to reach them
NARROW = 0.2  # of 1/precision_max: features whose variance is all below it look constant to the model
SCALINGS = ("none", "minmax", "standard")
CORE, LEAST_DISTINCT = 0.4, 10  # share of the distinct values that are the core of a feature, if it has so many
DOUBTFUL = 0.1  # share of values far from the core that may be data or a burst
BLOCK = 128  # columns that are looked at together
EXTREME = 1000.0  # times the interquartile range from the median: values farther away are ignored
LONE, MANY_ENOUGH = 0.01, 100  # largest share of values that may be glitches, and values that it takes to tell
GLITCH = 30.0  # deviations of the others from their mean: such values are ignored, too, if they are as few


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
        most = min(np.finfo(dtype).max / 100, LIMITS[np.dtype(dtype)])
        return np.clip((rows - self.shift) * self.factor, -most, most).astype(dtype)


def without_extremes(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Replace extreme values by NaN."""
    if not len(rows):
        return rows
    middle, reach = _reaches(rows, np.sort(rows.T, axis=1))
    return np.where(np.abs(rows - middle) > reach, np.nan, rows)


def _reaches(
    rows: npt.NDArray[Any], ordered: npt.NDArray[Any]
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the median of each column of rows (N, D), and how far from it values are extreme, both (D,).

    ``ordered`` (D, N) holds the same columns, each in ascending order, NaN last.
    """
    lowest, low, middle, high, highest = _quantiles(ordered, (0.01, 0.25, 0.5, 0.75, 0.99))
    spread = np.where(high > low, high - low, highest - lowest)
    same = np.flatnonzero((spread == 0) & _varies(ordered))  # nearly all values are equal: look at the others
    if len(same):
        others = np.abs(rows[:, same].T - middle[same, None])
        (typical,) = _quantiles(np.sort(np.where(others > 0, others, np.nan), axis=1), (0.5,))
        spread[same] = np.where(np.isnan(typical), 0.0, typical)
    return middle, EXTREME * np.where(spread > 0, spread, np.inf)


def _reach_of_core(ordered: npt.NDArray[Any], middle: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return how far from the median a few values of each column may be, judged by all others, (D,).

    ``ordered`` (D, N) is as for ``_reaches``. Values that are missing make a column infinite.
    """
    few = int(LONE * ordered.shape[1])
    if ordered.shape[1] < MANY_ENOUGH:
        return np.full(len(ordered), np.inf)
    core = ordered[:, few : ordered.shape[1] - few].astype(np.float64) - middle[:, None]
    spread = np.sqrt(np.square(core).mean(1))
    return np.where(spread > 0, GLITCH * spread, np.inf)


def _varies(ordered: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Tell which columns may have different values; ``ordered`` (D, N) is as for ``_reaches``."""
    return np.isnan(ordered[:, -1]) | (ordered[:, 0] < ordered[:, -1])


class Block(NamedTuple):
    """Some columns of rows (N, D), and which of their values are extreme: those of ``odd`` columns where ``far``."""

    columns: slice
    odd: npt.NDArray[np.int64]  # numbers within the block
    far: npt.NDArray[np.bool_]  # (N, number of odd columns)
    usual: npt.NDArray[np.float64]  # median that more than half of the values of a column may share, else NaN

    @classmethod
    def of(cls, rows: npt.NDArray[Any], columns: slice) -> Block:
        """Look at some columns: each is sorted once, and values that cannot be extreme are not looked at again."""
        some = rows[:, columns]
        ordered = np.sort(some.T, axis=1)
        middle, reach = _reaches(some, ordered)
        last = _last_known(ordered)
        usual = usual_of(ordered, last)
        reach = np.minimum(reach, np.where(np.isnan(usual), _reach_of_core(ordered, middle), np.inf))
        highest = ordered[np.arange(len(ordered)), last]
        odd = np.flatnonzero((middle - ordered[:, 0] > reach) | (highest - middle > reach))
        far = np.abs(some[:, odd] - middle[odd]) > reach[odd]
        return cls(columns, odd, far, usual)

    def known(self, rows: npt.NDArray[Any], absurd: npt.NDArray[np.bool_]) -> npt.NDArray[np.float64]:
        """Return the columns of rows with NaN in place of extreme values, and all over ``absurd`` rows (N,)."""
        values = rows[:, self.columns].astype(np.float64, order="C")  # sums depend on the order in their last bit
        if len(self.odd):
            values[:, self.odd] = np.where(self.far, np.nan, values[:, self.odd])
        values[absurd] = np.nan
        return values


def blocks_without_absurd_rows(
    rows: npt.NDArray[Any],
) -> Iterator[tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]]:
    """Replace extreme values by NaN, and all values of rows that are extreme in half of the features that vary.

    Where all other rows are equal, nothing tells that the values of such a row are extreme. Yield blocks of columns
    with the usual value of each: the whole would take several times the memory of the rows.
    """
    if not len(rows):
        yield np.empty(rows.shape), np.full(rows.shape[1], np.nan)
        return
    blocks = [Block.of(rows, columns) for columns in column_blocks(rows)]
    suspect, none = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for block in blocks:
        suspect |= block.far.any(1)
    absurd = none
    if suspect.any() and not suspect.all():
        counts, features = np.zeros(len(rows), np.int64), 0
        for block in blocks:
            others = block.known(rows, none)[~suspect]
            varies = np.fmin.reduce(others) < np.fmax.reduce(others)  # false for features without any value
            counts += block.far[:, varies[block.odd]].sum(1)
            features += int(varies.sum())
        absurd = (counts >= 0.5 * features) & (features > 0)
    for block in blocks:
        known, usual = block.known(rows, absurd), block.usual
        changed = slice(None) if absurd.any() else block.odd
        usual[changed] = usual_values(known[:, changed])
        yield known, usual


def usual_values(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the median value of each column of rows (N, D), which more than half of them may share; NaN if none is."""
    ordered = np.sort(rows.T, axis=1)  # NaN comes last
    return usual_of(ordered, _last_known(ordered))


def usual_of(ordered: npt.NDArray[Any], last: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    """Return the same of columns (D, N) in ascending order, with the number of the last value of each that is known."""
    each = np.arange(len(ordered))
    low, high = ordered[each, last // 2], ordered[each, (last + 1) // 2]
    return np.where(low == high, low, np.nan).astype(np.float64)


def _last_known(ordered: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """Return the number of the last value that is not NaN, 0 if all are: (D,), of columns (D, N) with NaN last."""
    last = np.full(len(ordered), ordered.shape[1] - 1)
    gaps = np.flatnonzero(np.isnan(ordered[:, -1]))
    last[gaps] = np.maximum((~np.isnan(ordered[gaps])).sum(1) - 1, 0)
    return last


def _quantiles(ordered: npt.NDArray[Any], shares: tuple[float, ...]) -> list[npt.NDArray[np.float64]]:
    """Return quantiles of columns (D, N) in ascending order, NaN last: many times as fast as those of NumPy."""
    last, each = _last_known(ordered), np.arange(len(ordered))
    found = []
    for share in shares:
        place = share * last
        below = place.astype(np.int64)
        low, high = (ordered[each, at].astype(np.float64) for at in (below, np.minimum(below + 1, last)))
        found.append(low + (place - below) * (high - low))
    return found


def may_hold_a_burst(rows: npt.NDArray[Any]) -> bool:
    """Return whether many values of a feature are so far from others that one kind of them may be a burst."""
    return any(_may_hold_a_burst(rows[:, columns]) for columns in column_blocks(rows))


def column_blocks(rows: npt.NDArray[Any]) -> Iterator[slice]:
    """Cut the columns of rows (N, D) into blocks: what is computed for a block fits into the cache."""
    for start in range(0, max(rows.shape[1], 1), BLOCK):
        yield slice(start, start + BLOCK)


def _may_hold_a_burst(rows: npt.NDArray[Any]) -> bool:
    ordered = np.sort(rows.T, axis=1)
    ordered = ordered[_varies(ordered)].astype(np.float64)
    gaps = np.diff(ordered, axis=1)
    gaps[~(gaps > 0)] = np.inf
    smallest, width = gaps.min(1, initial=np.inf), gaps.sum(1, where=gaps < np.inf)
    wide = width > EXTREME * int(CORE * LEAST_DISTINCT) * smallest  # a core has so many gaps at least
    return bool(wide.any()) and _is_divided(ordered[wide].T)


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
