"""Noise on discrete columns, where a likelihood would otherwise have no upper bound."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.comparison.sample_set import SampleSet, name_columns

SEED = 0
DISTINCT = 0.95  # share of rows with a value of their own, from which on a column counts as continuous
ROUNDING = 8  # roundings that may separate equal values


def smallest_step(column: npt.NDArray[np.floating[Any]]) -> float:
    """Return the smallest step between the values of a column: 0 if it is constant.

    Parameters
    ----------
    column : ndarray of shape (N,)
        The values.

    Examples
    --------
    >>> smallest_step(np.array([0.1 + 0.2, 0.3, 0.7, 1.2])).__round__(6)
    0.4
    """
    values = np.unique(column)
    steps = np.diff(values)
    rounding = ROUNDING * np.finfo(column.dtype).eps * np.abs(values).max()
    steps = steps[steps > rounding]
    return float(steps.min()) if len(steps) else 0.0


def is_discrete(column: npt.NDArray[np.floating[Any]]) -> bool:
    """Return whether a column holds integers, or values that come again.

    Parameters
    ----------
    column : ndarray of shape (N,)
        The values.
    """
    return bool((column == np.round(column)).all()) or len(np.unique(column)) < DISTINCT * len(column)


def dequantise(samples: SampleSet) -> SampleSet:
    """Return a set without constant columns and with uniform noise of one smallest step on every discrete column.

    Parameters
    ----------
    samples : SampleSet
        The set; its notes say afterwards which columns have changed.
    """
    steps = np.array([smallest_step(column) for column in samples.rows.T])
    varying = steps > 0
    constant = [name for name, varies in zip(samples.columns, varying, strict=True) if not varies]
    rows, columns = samples.rows[:, varying], [c for c, v in zip(samples.columns, varying, strict=True) if v]
    train = rows[: samples.n_train]
    discrete = np.array([is_discrete(a) or is_discrete(b) for a, b in zip(rows.T, train.T, strict=True)], dtype=bool)
    notes = list(samples.notes)
    if constant:
        notes.append(f"constant, left out: {name_columns(constant, len(samples.columns))}")
    if discrete.any():
        noise = np.random.default_rng(SEED).random((len(rows), int(discrete.sum())), dtype=np.float32)
        rows = rows.copy()
        rows[:, discrete] += noise * steps[varying][discrete].astype(rows.dtype)
        names = [c for c, d in zip(columns, discrete, strict=True) if d]
        notes.append(f"discrete, dequantised: {name_columns(names, len(columns))}")
    return replace(samples, rows=rows, columns=columns, notes=tuple(notes))
