"""Scaling of raw streams: learned on their first rows, then frozen."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.kernels import Floats

KINDS = ("none", "minmax", "standard")
ABSURD = 1000.0  # times the usual spread away from the median: values farther away do not count


@dataclass(frozen=True)
class Scaling:
    """Features become (x − shift)·factor.

    >>> Scaling.learn("minmax", np.array([[0.0, 5.0], [10.0, 5.0]])).apply(np.array([[5.0, 6.0]]), np.dtype(np.float64))
    array([[0.5, 1. ]])
    """

    kind: str
    shift: npt.NDArray[np.float64]
    factor: npt.NDArray[np.float64]

    @classmethod
    def learn(cls, kind: str, rows: npt.NDArray[Any]) -> Scaling:
        """From rows (N, D): "minmax" brings them to [0, 1], "standard" to mean 0 and deviation 1; NaN is left out."""
        known = _sane(rows.astype(np.float64))
        with warnings.catch_warnings(action="ignore", category=RuntimeWarning):  # of features that nobody has
            if kind == "minmax":
                shift, width = np.nanmin(known, axis=0), np.nanmax(known, axis=0) - np.nanmin(known, axis=0)
            else:
                shift, width = np.nanmean(known, axis=0), np.nanstd(known, axis=0)
        constant = ~(width > 1e-12 * np.maximum(np.abs(shift), 1e-300))
        return cls(kind, np.nan_to_num(shift), 1 / np.where(constant, 1.0, width))

    def apply(self, rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> Floats:
        """Rows (N, D) as the model takes them."""
        most = np.finfo(dtype).max / 100
        return np.clip((rows - self.shift) * self.factor, -most, most).astype(dtype)


def _sane(rows: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Rows with NaN instead of values that one absurd sample has brought in."""
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        lowest, low, middle, high, highest = np.nanpercentile(rows, [1, 25, 50, 75, 99], axis=0)
        away = np.abs(rows - middle)
        others = np.nanmedian(np.where(away > 0, away, np.nan), axis=0)  # where nearly all have the same value
        spread = np.where(high > low, high - low, np.where(highest > lowest, highest - lowest, others))
        far = away > ABSURD * np.where(spread > 0, spread, np.inf)
    return np.where(far, np.nan, rows)
