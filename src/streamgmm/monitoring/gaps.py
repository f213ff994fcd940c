"""Rows with gaps: filled with what the model expects, or judged by the features that they have."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture

SEED = 0  # the same gaps are filled alike whenever the reference is scored


def fill_gaps(mixture: Mixture, rows: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Fill each gap with a draw from a component that fits the rest of its row; rows without gaps stay as they are.

    Parameters
    ----------
    mixture : Mixture
        The model to draw from.
    rows : array of shape (N, D)
        Rows; NaN marks gaps.
    """
    gaps = np.isnan(rows)
    some = np.flatnonzero(gaps.any(1))
    if not len(some):
        return rows
    rng = np.random.default_rng(SEED)
    shares = mixture.responsibilities(rows[some]).cumsum(1)
    components = (rng.random((len(some), 1)) * shares[:, -1:] > shares).sum(1)
    filled = rows.copy()
    filled[some] = np.where(gaps[some], mixture.draw(components, rng), rows[some])
    return filled


def has_gaps(rows: npt.NDArray[Any]) -> bool:
    """Tell whether any value is missing."""
    return rows.dtype.kind == "f" and isnan(rows.max(initial=-inf))  # which is NaN if any value is


def by_gaps(rows: npt.NDArray[Any]) -> Iterator[tuple[npt.NDArray[np.bool_], npt.NDArray[np.int64]]]:
    """Yield each pattern of gaps (D,) that occurs, with the numbers of the rows that have it."""
    if not has_gaps(rows):
        yield np.zeros(rows.shape[1], np.bool_), np.arange(len(rows))
        return
    gaps = np.isnan(rows)
    packed = np.packbits(gaps, axis=1)
    _, first, pattern = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(pattern.ravel(), kind="stable")
    for place, numbers in zip(first, np.split(order, np.flatnonzero(np.diff(pattern.ravel()[order])) + 1), strict=True):
        yield gaps[place], numbers
