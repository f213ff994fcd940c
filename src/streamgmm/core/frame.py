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

from streamgmm.core.scaling import without_extremes
from streamgmm.native import Floats, aligned_copy

Numbers = npt.NDArray[np.float64]
FAR = 0.25  # deviations between the running mean and the frame's location from which the frame moves
WIDE = 1.5625  # ratio of the running variance to the frame's, or its inverse, from which the frame changes
JUMPED = 30.0  # mean square of samples, clipped to ten deviations, from which a feature has changed altogether
REPLACED = 90.0  # and from which nothing of what components know about it is left
TWO_PI = 2 * np.pi


class Move(NamedTuple):
    """A change of frame: samples become (z − shift)·factor; features in ``fresh`` are to be learned anew."""

    shift: Numbers
    factor: Numbers
    fresh: npt.NDArray[np.bool_]


class Frame:
    """Location and unit of each feature, and the running statistics behind them.

    Attributes
    ----------
    values : array of shape (5, D)
        What the kernel reads and writes: shift, unit, and number, sum and sum of squares of samples since the last
        check. A unit has the sign of the first deviation, so that a mirrored feature starts mirrored.
    count, mean, variance : arrays of shape (D,)
        Running statistics of the rows, in their own units.
    """

    def __init__(self, values: Floats, count: Numbers, mean: Numbers, variance: Numbers) -> None:
        self.values, self.count, self.mean, self.variance = values, count, mean, variance

    @classmethod
    def start(cls, rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> Frame:
        """Return the frame that the first rows (N, D) suggest; NaN and extreme values are ignored."""
        known = without_extremes(rows.astype(np.float64))
        count = (~np.isnan(known)).sum(0).astype(np.float64)
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # about features without any value
            mean, variance = np.nan_to_num(np.nanmean(known, axis=0)), np.nan_to_num(np.nanvar(known, axis=0))
        variance[variance <= (1e-12 * mean) ** 2] = 0.0  # rounding of the mean of equal numbers
        away = np.where(np.isnan(known), 0.0, known - mean)
        first = np.where(variance > 0, (away != 0).argmax(0), 0)
        sign = np.where(away[first, np.arange(len(mean))] < 0, -1.0, 1.0) if len(rows) else np.ones(len(mean))
        values = np.zeros((5, len(mean)), dtype)
        values[0], values[1] = mean, sign * _units(mean, variance)
        return cls(aligned_copy(values), count, mean, variance)

    @property
    def varies(self) -> npt.NDArray[np.bool_]:
        """Which features have varied so far: (D,)."""
        return self.variance > 0

    @property
    def log_volume(self) -> float:
        """What a log-likelihood of samples gains when it is expressed for rows: Σ log |unit|."""
        return float(np.log(np.abs(self.values[1].astype(np.float64)))[self.varies].sum())

    def means_of_rows(self, means: Floats) -> Numbers:
        """Return means of samples (K, D) in the units of the rows."""
        shift, unit = self.values[:2].astype(np.float64)
        return np.where(self.varies, shift + means / unit, shift)

    def variances_of_rows(self, variances: Floats) -> Numbers:
        """Return variances of samples (K, D) in the units of the rows.

        A feature that never varied has the density 1 at its value, so that it adds nothing to a log-likelihood.
        """
        unit = self.values[1].astype(np.float64)
        return np.where(self.varies, variances / unit**2, 1 / TWO_PI)

    def samples_of_rows(self, rows: npt.NDArray[Any]) -> Numbers:
        """Return rows (N, D) as samples."""
        shift, unit = self.values[:2].astype(np.float64)
        return (rows - shift) * unit

    def update(self, memory: float) -> Move | None:
        """End a period: take in what the kernel has summed; return how the frame moves, if it does.

        Parameters
        ----------
        memory : float
            Samples that the running statistics cover, at most.
        """
        shift, unit, known, sums, squares = self.values.astype(np.float64)
        seen = known > 0
        n = np.maximum(known, 1)
        mean_z, square_z = sums / n, squares / n
        self.values[2:] = 0
        mean, spread = shift + mean_z / unit, np.maximum(square_z - mean_z**2, 0) / unit**2
        woke = ~self.varies & (squares > 0)
        jumped = seen & self.varies & (square_z > JUMPED)
        self._merge(known, mean, spread, np.minimum(memory, 1e15))
        anew = woke | jumped
        self.count[anew], self.mean[anew] = known[anew], mean[anew]
        self.variance[anew] = np.maximum(square_z / unit**2, np.finfo(np.float64).tiny)[anew]
        return self._move(shift, unit, fresh=woke | (jumped & (square_z > REPLACED)), anyway=anew)

    def _merge(self, known: Numbers, mean: Numbers, variance: Numbers, memory: float) -> None:
        """Add the statistics of new values to the running ones."""
        before = np.minimum(self.count, memory)
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
        ratio = np.where(self.varies, self.variance * unit**2, 1.0)
        far = np.where(self.varies, np.abs((self.mean - shift) * unit), 0.0)
        if not (anyway.any() or (far > FAR).any() or (ratio > WIDE).any() or (ratio < 1 / WIDE).any()):
            return None
        self.values[0], self.values[1] = self.mean, np.sign(unit) * _units(self.mean, self.variance)
        new_shift, new_unit = self.values[:2].astype(np.float64)
        return Move((new_shift - shift) * unit, new_unit / unit, fresh)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return every array by name."""
        return {"values": self.values, "count": self.count, "mean": self.mean, "variance": self.variance}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> Frame:
        """Return the frame that ``tensors`` describe."""
        count, mean, variance = (tensors[name].astype(np.float64) for name in ("count", "mean", "variance"))
        return cls(aligned_copy(tensors["values"]), count, mean, variance)


def _units(mean: Numbers, variance: Numbers) -> Numbers:
    """Inverse deviations; where nothing varies yet, a unit in which any change would show."""
    still = np.where(mean != 0, 1 / np.where(mean != 0, np.abs(mean), 1.0), 1.0)
    return np.where(variance > 0, 1 / np.sqrt(np.where(variance > 0, variance, 1.0)), still)
