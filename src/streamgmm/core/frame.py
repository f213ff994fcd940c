"""The frame of a training: location and unit of each feature, so that raw data can be learned.

A sample is (row − shift)·unit, feature by feature ([E23]). The frame comes from the first rows; running statistics tell
at checks whether it still fits, and a change of frame is an exact affine map of all parameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import LIMITS
from streamgmm.core.scaling import blocks_without_absurd_rows
from streamgmm.core.state import require_range
from streamgmm.native import FRAME_ROWS, FRAME_SUMS, Floats, aligned_copy

Numbers = npt.NDArray[np.float64]
FAR = 0.25  # deviations between the running mean and the frame's location from which the frame moves
WIDE = 1.5625  # ratio of the running variance to the frame's, or its inverse, from which the frame changes
JUMPED = 0.3  # share of values ten deviations or more away from which a feature has changed altogether
REPLACED = 0.9  # and from which nothing of what components know about it is left
SMALLEST_MEAN = 1e-300  # so that its inverse is finite
LARGEST_UNIT = {"f": 1e32, "d": 1e140}  # times the largest scale, still a number
NARROW = 1e-4  # share of its variance below which a feature that is known from few rows has another unit
YOUNG = 1000  # rows that are few
MANY = 20  # unusual values that it takes to say so, or to know how far values of a feature reach
PATIENCE = 300  # values in a row, and so many that it takes to believe it
RARE = 0.02  # share of unusual values below which each of them is summed
WATCHED, HARDLY_KNOWN = 2.0, 3.0  # activity of such a feature, and of one of which fewer than ``MANY`` are known
CLIP = 10.0  # deviations, of the values that are not the usual one, up to which values are summed
UNBOUNDED = {"f": 1e8, "d": 1e15}  # clip of a feature that has not varied yet: its fourth power must stay finite
LARGEST_MEAN = LIMITS[np.dtype(np.float64)]  # of rows that can be learned
LARGEST_SUM = 1e100
FINITE_POWERS = 1e70  # deviations whose fourth powers stay finite
LARGEST_DEVIATION = 1e15  # of a feature in its frame, which follows every change
LARGEST_COUNT = 1e17  # also of kurtosis, which is at most the number of values, unless some of them are forgotten
STATISTICS = ("count", "unusual", "mean", "variance", "kurtosis", "doubts")
ROUNDING = {"f": 1e-6, "d": 1e-12}  # relative deviation of equal numbers from their mean


class Move(NamedTuple):
    """A change of frame: samples become (z − shift)·factor; features in ``fresh`` are to be learned anew."""

    shift: Numbers
    factor: Numbers
    fresh: npt.NDArray[np.bool_]


class Frame:
    """Location and unit of each feature, and the running statistics behind them.

    Attributes
    ----------
    values : array of shape (12, D)
        What the kernel reads and writes; see ``native.Samples``. A unit has the sign of the first deviation, so that a
        mirrored feature starts mirrored.
    count, unusual, mean, variance, kurtosis, doubts : arrays of shape (D,)
        Running statistics of the rows, in their own units: number of values, number of those that are not the usual
        one, mean, variance and kurtosis; and number of latest values that are doubted.
    """

    def __init__(self, values: Floats, *statistics: Numbers) -> None:
        self.values = values
        self.count, self.unusual, self.mean, self.variance, self.kurtosis, self.doubts = statistics
        self._log_volume: float | None = None  # known once someone asks

    @classmethod
    def start(cls, rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> Frame:
        """Return the frame that the first rows (N, D) suggest; NaN, extreme values and absurd rows are ignored."""
        count, unusual, mean, variance, kurtosis, sign, usual = np.hstack(
            [_first_statistics(known, usual) for known, usual in blocks_without_absurd_rows(rows)]
        )
        values = np.zeros((FRAME_ROWS, len(mean)), dtype)
        values[1], values[3] = sign, usual
        frame = cls(aligned_copy(values), count, unusual, mean, variance, kurtosis, np.zeros(len(mean)))
        frame._settle()
        return frame

    def widened(self, more: int) -> Frame:
        """Return a frame with further features, of which no value is known yet."""
        values = np.zeros((FRAME_ROWS, more), self.values.dtype)
        values[1], values[3] = 1.0, np.nan
        fresh = Frame(values, *(np.zeros(more) for _ in STATISTICS))
        fresh._settle()  # only these: a move of the others would have to move their parameters, too
        own = (np.pad(getattr(self, name), (0, more)) for name in STATISTICS)
        return Frame(aligned_copy(np.hstack([self.values, fresh.values])), *own)

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Which features have varied so far: (D,)."""
        return self.variance > 0

    @property
    def shift(self) -> Numbers:
        """Location of each feature, (D,)."""
        return self.values[0].astype(np.float64)

    @property
    def unit(self) -> Numbers:
        """Unit of each feature, (D,): one over its deviation, with a sign."""
        return self.values[1].astype(np.float64)

    @property
    def constants(self) -> Numbers:
        """The only value that a feature has had so far, NaN for features that vary, inf for those without any: (D,)."""
        known = np.where(self.varies, np.nan, self.values[3].astype(np.float64))
        return np.where(self.count == 0, np.inf, known)

    @property
    def unusual_share(self) -> Numbers:
        """Share of the values of each feature that are not its usual value, (D,); 1 if no value is usual."""
        return np.minimum(np.maximum(self.unusual, 1) / np.maximum(self.count, 1), 1.0)

    @property
    def log_volume(self) -> float:
        """What a log-likelihood of samples gains when it is expressed for rows: Σ log |unit|."""
        if self._log_volume is None:
            self._log_volume = float(np.log(np.abs(self.unit))[self.varies].sum())
        return self._log_volume

    def samples_of_rows(self, rows: npt.NDArray[Any]) -> Numbers:
        """Return rows (N, D) as samples; a feature that has not varied yet is 0."""
        return np.where(self.varies, (rows - self.shift) * self.unit, 0.0)

    def measure(self, rows: npt.NDArray[Any]) -> Move:
        """Take mean, variance and kurtosis of rows (N, D) that are all known; return how the frame moves."""
        shift, unit = self.shift, self.unit
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # about features without any value
            mean = np.nanmean(rows, axis=0)
            away = (rows - mean) * unit  # in deviations, so that powers stay finite, or even smaller
            largest = np.nanmax(np.abs(away), axis=0)
            scale = np.where(largest > FINITE_POWERS, largest, 1.0)
            away /= scale
            square, fourth = np.nanmean(away**2, axis=0), np.nanmean(np.square(away * away), axis=0)
        known = self.varies & (square > 0)
        square = np.where(known, square, 1.0)
        self.mean = np.where(known, mean, self.mean)
        with np.errstate(over="ignore"):
            variance = np.minimum(square / unit**2 * scale**2, LARGEST_MEAN**2)
        self.variance = np.where(known, variance, self.variance)
        self.kurtosis = np.where(known, fourth / square**2, self.kurtosis)
        self._settle()
        return Move((self.shift - shift) * unit, self.unit / unit, np.zeros(len(unit), np.bool_))

    def is_urgent(self, every: int) -> bool:
        """Return whether what the kernel has summed cannot wait: a feature wakes, or many values are far away.

        Parameters
        ----------
        every : int
            One step in so many was summed.
        """
        far, squares = self.values[FRAME_SUMS + 2], self.values[FRAME_SUMS + 5]
        woke = ((squares > 0) & ~self.varies).any()
        return bool(woke or far.max() * every >= PATIENCE or self.doubts.any())

    def update(self, memory: float, every: int) -> Move | None:
        """End a period: take in what the kernel has summed; return how the frame moves, if it does.

        Parameters
        ----------
        memory : float
            Samples that the running statistics cover, at most.
        every : int
            One step in so many was summed.
        """
        shift, unit = self.shift, self.unit
        known, unusual, far, far_sums, sums, squares, fourths = self._sums(every)
        apart = self.values[2] == 1
        self.values[FRAME_SUMS:] = 0
        # values far away are doubted: they count only where they turn out to be a lasting change
        n = np.maximum(known - np.where(apart, far, 0.0), 1)
        mean_z, square_z = sums / n, squares / n
        with_far = np.maximum(known, 1)
        mean_far = np.where(apart, sums + far_sums, sums) / with_far
        square_far = np.where(apart, squares + far_sums * (far_sums / np.maximum(far, 1)), squares) / with_far
        mean = shift + mean_z / unit
        spread = np.maximum(square_z - mean_z**2, 0) / unit**2
        unseen, still = self.count == 0, ~self.varies
        tiny = (ROUNDING[self.values.dtype.char] * np.maximum(np.abs(mean), np.abs(shift))) ** 2
        woke = still & np.where(unseen, spread > tiny, squares > 0)
        moved, narrow = far > JUMPED * with_far, np.maximum(spread, tiny) < NARROW / unit**2
        jumped, shrunk = self._changed(moved, narrow, np.where(moved, far, known), unusual)
        replaced = jumped & (far > REPLACED * with_far)
        mean_z, square_z = np.where(jumped, mean_far, mean_z), np.where(jumped, square_far, square_z)
        doubted = self.doubts > 0
        known, unusual = np.where(doubted, 0.0, known), np.where(doubted, 0.0, unusual)
        self._merge_kurtosis(known, fourths / n, square_z, memory)
        self._merge(known, unusual, mean, spread, memory)
        anew = woke | jumped | shrunk
        first = unseen & (known > 0)
        self.count[jumped | shrunk], self.unusual[jumped | shrunk] = known[jumped | shrunk], unusual[jumped | shrunk]
        # a feature that wakes had its usual value all the time before
        share = np.where(woke, known / np.maximum(self.count, 1), 1.0)
        about = np.where(unseen | shrunk, np.maximum(spread, tiny), share * square_z / unit**2)
        self.mean[anew | first] = (shift + share * mean_z / unit)[anew | first]
        self.variance[anew] = np.maximum(about, np.finfo(np.float64).tiny)[anew]
        self.values[1][woke & (sums < 0)] *= -1  # a mirrored feature wakes mirrored
        return self._move(shift, unit, fresh=woke | replaced, anyway=anew | first)

    def _changed(
        self, far: npt.NDArray[np.bool_], narrow: npt.NDArray[np.bool_], odd_values: Numbers, unusual: Numbers
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Tell which features have moved or widened altogether, and which young ones have narrowed.

        It takes a while to believe it: until then such values are doubted, as they may be a burst of absurd ones.
        """
        odd = self.varies & (unusual >= MANY) & (far | (narrow & (self.count <= YOUNG)))
        self.doubts = np.where(odd, self.doubts + odd_values, np.where(odd_values > 0, 0.0, self.doubts))
        believed = self.doubts >= PATIENCE
        self.doubts[believed] = 0.0
        return believed & far, believed & ~far

    def _sums(self, every: int) -> Numbers:
        """Return what the kernel has summed, for all samples: (7, D).

        Each step that was summed stands for ``every`` of them. Unusual values of watched features were summed always.
        """
        sums = self.values[FRAME_SUMS:].astype(np.float64)
        if every == 1:
            return sums
        watched = self.values[2] != 1
        value = (np.nan_to_num(self.values[3].astype(np.float64)) - self.shift) * self.unit
        missed = np.where(watched, (every - 1) * (sums[0] - sums[1]), 0.0)  # usual values of watched features
        sums *= np.where(watched, 1.0, every)
        for row, power in zip((0, 4, 5, 6), (1.0, value, value**2, np.square(value * value)), strict=True):
            sums[row] += missed * power
        return sums

    def _merge_kurtosis(self, known: Numbers, fourth: Numbers, square: Numbers, memory: float) -> None:
        """Add the fourth powers of new values, about the present location, to the running ones."""
        share = known / np.maximum(np.minimum(self.count, memory) + known, 1)
        before = np.where(self.varies, self.kurtosis, 0.0)
        variance = (1 - share) + share * square
        mixed = ((1 - share) * before + share * fourth) / np.maximum(variance, 1e-30) ** 2
        self.kurtosis = np.where(known > 0, np.minimum(mixed, LARGEST_COUNT), self.kurtosis)

    def _merge(self, known: Numbers, unusual: Numbers, mean: Numbers, variance: Numbers, memory: float) -> None:
        """Add the statistics of new values to the running ones."""
        before = np.minimum(self.count, memory)
        self.unusual = self.unusual * before / np.maximum(self.count, 1) + unusual
        total = np.maximum(before + known, 1)
        away = np.where(known > 0, mean - self.mean, 0.0)
        share = known / total
        self.variance = np.where(
            self.varies, (1 - share) * self.variance + share * (variance + (1 - share) * away**2), 0.0
        )
        self.mean = np.where(self.varies, self.mean + share * away, self.mean)
        self.count = before + known

    def _move(
        self, shift: Numbers, unit: Numbers, fresh: npt.NDArray[np.bool_], anyway: npt.NDArray[np.bool_]
    ) -> Move | None:
        """Settle features that the frame no longer fits, or that move ``anyway``; others keep location and unit."""
        ratio = self.variance * (unit * unit)
        unfit = (np.abs((self.mean - shift) * unit) > FAR) | (ratio > WIDE) | (ratio < 1 / WIDE)
        moves = anyway | (self.varies & unfit)
        if not moves.any():
            self._watch()
            return None
        self._settle(moves)
        return Move((self.shift - shift) * unit, self.unit / unit, fresh)

    def _settle(self, moves: npt.NDArray[np.bool_] | None = None) -> None:
        """Set location and unit, of all features or of those that move, and watch them."""
        # where nothing varies yet, a unit in which any change shows
        still = 1 / np.where(self.mean != 0, np.maximum(np.abs(self.mean), SMALLEST_MEAN), 1.0)
        unit = np.where(self.varies, 1 / np.sqrt(np.where(self.varies, self.variance, 1.0)), still)
        unit = np.minimum(unit, LARGEST_UNIT[self.values.dtype.char])  # smaller deviations count as none
        chosen = slice(None) if moves is None else moves
        self.values[0, chosen] = self.mean[chosen]
        self.values[1, chosen] = (np.sign(self.values[1]) * unit)[chosen]
        self._log_volume = None
        self._watch()

    def _watch(self) -> None:
        """Set activity and clip of each feature."""
        rare = self.varies & ~np.isnan(self.values[3]) & (self.unusual_share < RARE)
        self.values[2] = np.where(rare, np.where(self.unusual < MANY, HARDLY_KNOWN, WATCHED), self.varies)
        self.values[4] = self._clips()

    def _clips(self) -> Numbers:
        """Values that are not the usual one are clipped at ten of their own deviations."""
        return np.where(self.varies, CLIP / np.sqrt(self.unusual_share), UNBOUNDED[self.values.dtype.char])

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return the running statistics by name."""
        return {name: getattr(self, name) for name in STATISTICS}

    @classmethod
    def restored(cls, values: Floats, tensors: Mapping[str, npt.NDArray[Any]]) -> Frame:
        """Return the frame with these values and statistics; raise ValueError if they do not fit."""
        own = [tensors[name].astype(np.float64) for name in STATISTICS]
        if any(array.shape != values.shape[1:] for array in own):
            raise ValueError(f"statistics of the frame do not have the shape ({values.shape[1]},)")
        for name in STATISTICS:
            most = {"mean": LARGEST_MEAN, "variance": LARGEST_MEAN**2}.get(name, LARGEST_COUNT)
            require_range(f"frame.{name}", tensors[name], -most if name == "mean" else 0.0, most)
        require_range("frame.unit, in deviations", np.abs(values[1]) * np.sqrt(own[3]), 0.0, LARGEST_DEVIATION)
        return cls(values, *own)


def _first_statistics(known: Numbers, usual: Numbers) -> Numbers:
    """Return statistics of the first rows (N, D) from their values, NaN where unknown, and usual values: (7, D).

    They are numbers of values and of unusual ones, mean, variance, kurtosis, sign of the first deviation, usual value.
    """
    there = ~np.isnan(known)
    count = there.sum(0).astype(np.float64)
    some, gaps = np.maximum(count, 1), bool((count < len(known)).any())
    mean = (np.where(there, known, 0.0) if gaps else known).sum(0) / some
    away = np.where(there, known - mean, 0.0) if gaps else known - mean
    variance = np.square(away).sum(0) / some
    variance[variance <= (ROUNDING["d"] * mean) ** 2] = 0.0
    still = (variance == 0) & ~np.isnan(usual)
    mean[still] = usual[still]
    away[:, still] = np.where(there[:, still], known[:, still] - mean[still], 0.0)
    unusual = ((known != usual) & there).sum(0) if gaps else (known != usual).sum(0)
    sign = np.ones(len(mean))
    if len(known):
        first = np.where(variance > 0, (away != 0).argmax(0), 0)
        sign[away[first, np.arange(len(mean))] < 0] = -1.0
    size = np.where(variance > 0, np.frexp(np.sqrt(variance))[1], 0)  # a power of two, so that fourth powers are finite
    fourth = np.square(np.square(np.ldexp(away, -size))).sum(0) / some
    kurtosis = np.where(variance > 0, fourth / np.ldexp(np.where(variance > 0, variance, 1.0), -2 * size) ** 2, 0.0)
    return np.array([count, unusual, mean, variance, kurtosis, sign, usual])


def validate_values(values: Floats) -> None:
    """Raise ValueError for values of a frame (12, D) that training cannot have made."""
    require_range("frame.shift", values[0], -LARGEST_MEAN, LARGEST_MEAN)
    require_range("frame.sums", values[FRAME_SUMS:], -LARGEST_SUM, LARGEST_SUM)
    largest = 1.001 * max(LARGEST_UNIT[values.dtype.char], 1e36)  # rounded; earlier builds wrote larger ones
    require_range("frame.unit", np.abs(values[1]), float(np.finfo(values.dtype).tiny), largest)
    require_range("frame.activity", values[2], 0.0, HARDLY_KNOWN)
    require_range("frame.clip", values[4], 1.0)
