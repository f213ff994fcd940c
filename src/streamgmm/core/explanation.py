"""Explanations: which features make a row strange, each compared with the value expected from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
USUAL_RANGE = 2.5758293035489004  # deviations on each side of what is expected: 99 % of a Gaussian
MOST_EVIDENCE = 5.0  # deviations: a feature that is farther from a component says no more about the others
FEATURES_AT_ONCE = 1 << 20  # numbers in one block of rows × components × features


class Expectation(NamedTuple):
    """What to expect of each feature given the other features of its row: mean and variance, (N, D)."""

    mean: Numbers
    variance: Numbers


def expect_from_others(x: Numbers, log_weights: Numbers, means: Numbers, variances: Numbers) -> Expectation:
    """[E29] Condition a mixture with diagonal covariances on all features of a row but one, for each of them.

    NaN marks features that a row does not have; they are not known to the others either. What a feature says about the
    others is bounded: otherwise a sensor at fault would choose the component that the other sensors are judged by.
    """
    mean, variance = np.empty_like(x), np.empty_like(x)
    size = max(1, FEATURES_AT_ONCE // means.size)
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        squares = np.minimum((x[part, None] - means) ** 2 / variances, MOST_EVIDENCE**2)
        terms = -0.5 * (np.log(2 * np.pi * variances) + squares)
        terms[np.isnan(terms)] = 0.0
        without = (log_weights + terms.sum(2))[..., None] - terms  # scores without each feature: (n, K, D)
        shares = np.exp(np.maximum(without - without.max(1, keepdims=True), -700.0))
        shares /= shares.sum(1, keepdims=True)
        mean[part] = (shares * means).sum(1)
        variance[part] = (shares * (variances + (means - mean[part, None]) ** 2)).sum(1)
    return Expectation(mean, variance)


def expect_by_precisions(
    x: Numbers, scores: Numbers, means: Numbers, precisions: Numbers, pull: Callable[[int, Numbers], Numbers]
) -> Expectation:
    """[E29] Condition a mixture of any covariances on all features of a row but one, for each of them.

    ``scores`` (N, K) are those of whole rows, ``precisions`` (K, D) those of each feature given all others, and
    ``pull(k, away)`` is the precision of component k times deviations from its mean.
    """
    mean, variance = np.empty_like(x), np.empty_like(x)
    size = max(1, FEATURES_AT_ONCE // means.size)
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        pulls = np.stack([pull(k, x[part] - own) for k, own in enumerate(means)], axis=1)
        expected = x[part, None] - pulls / precisions
        terms = 0.5 * (np.log(precisions / (2 * np.pi)) - pulls**2 / precisions)
        without = scores[part, :, None] - terms
        shares = np.exp(np.maximum(without - without.max(1, keepdims=True), -700.0))
        shares /= shares.sum(1, keepdims=True)
        mean[part] = (shares * expected).sum(1)
        variance[part] = (shares * (1 / precisions + (expected - mean[part, None]) ** 2)).sum(1)
    return Expectation(mean, variance)


class Reason(NamedTuple):
    """How much one feature contributes to the strangeness of a row.

    Parameters
    ----------
    feature : str or int
        Name of the feature, or its number.
    share : float
        Part of the strangeness of the row, within [0, 1].
    value : float
        Its value.
    expected : float
        The value expected from the other features of the row.
    low, high : float
        Range that 99 % of the values are expected in.
    """

    feature: str | int
    share: float
    value: float
    expected: float
    low: float
    high: float


def rank_reasons(
    rows: Numbers,
    expected: Expectation,
    differs: npt.NDArray[np.bool_],
    names: Sequence[str] | None,
    most: int | None,
) -> list[list[Reason]]:
    """Return, for each row, at most so many features that make it strange; see `reasons_of`."""
    known = None if names is None else [str(name) for name in names]
    found = zip(rows, expected.mean, expected.variance, differs, strict=True)
    return [reasons_of(row, mean, v, known, odd, most) for row, mean, v, odd in found]


def reasons_of(
    row: Numbers,
    expected: Numbers,
    variance: Numbers,
    names: list[str] | None,
    differs: npt.NDArray[np.bool_],
    most: int | None = None,
) -> list[Reason]:
    """Rank the features of one row, at most so many; those that never varied and ``differs`` come first."""
    gaps = np.isnan(row)
    squares = (row - expected) ** 2 / variance
    squares[gaps] = 0.0
    if differs.any():
        squares = differs.astype(np.float64)
    total = squares.sum()
    shares = squares / total if total > 0 else np.zeros_like(squares)
    order = (-shares).argsort(kind="stable")
    best = order[~gaps[order]][:most]
    reach = USUAL_RANGE * np.sqrt(variance[best])
    columns = (shares[best], row[best], expected[best], expected[best] - reach, expected[best] + reach)
    named = [names[d] if names is not None else d for d in best.tolist()]
    return [Reason(*reason) for reason in zip(named, *(column.tolist() for column in columns), strict=True)]
