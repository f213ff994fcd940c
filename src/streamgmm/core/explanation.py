"""Explanations: which features make a row strange, each compared with the value expected from the others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isnan, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
USUAL_RANGE = 2.5758293035489004  # deviations on each side of what is expected: 99 % of a Gaussian
MOST_EVIDENCE = 5.0  # deviations: a feature that is farther from a component adds no evidence about the others
FARTHEST, LARGEST = 1e150, 1e290  # of what is expected, and of its square in deviations: sums stay finite
FEATURES_AT_ONCE = 1 << 20  # numbers in one block of rows × components × features


class Expectation(NamedTuple):
    """What to expect of each feature given the other features of its row: mean and variance, (N, D)."""

    mean: Numbers
    variance: Numbers


class Surprises(NamedTuple):
    """An expectation, and how much more likely each row is without one of its features than is usual, (N, D)."""

    expected: Expectation
    excess: Numbers


class Independent(NamedTuple):
    """A mixture with diagonal covariances, in the form that explanations need: (K,), and thrice (K, D)."""

    log_weights: Numbers
    means: Numbers
    variances: Numbers
    log_terms: Numbers

    @classmethod
    def of(cls, log_weights: Numbers, means: Numbers, variances: Numbers) -> Independent:
        """Compute what is the same for all rows."""
        return cls(log_weights, means, variances, np.log(2 * np.pi * variances))


def expect_from_others(x: Numbers, mixture: Independent) -> Expectation:
    """[E29] Condition a mixture with diagonal covariances on all features of a row but one, for each of them.

    NaN marks features that a row does not have; they are not known to the others either. What a feature says about the
    others is bounded: otherwise a sensor at fault would choose the component that the other sensors are judged by.
    """
    log_weights, means, variances, log_terms = mixture
    mean, variance = np.empty_like(x), np.empty_like(x)
    size = max(1, FEATURES_AT_ONCE // means.size)
    gaps = isnan(x.max(initial=-inf))  # which is NaN if any number is
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        squares = np.minimum((x[part, None] - means) ** 2 / variances, MOST_EVIDENCE**2)
        terms = -0.5 * (log_terms + squares)
        if gaps:
            terms[np.isnan(terms)] = 0.0
        without = (log_weights + terms.sum(2))[..., None] - terms  # scores without each feature: (n, K, D)
        shares = np.exp(np.maximum(without - without.max(1, keepdims=True), -700.0))
        shares /= shares.sum(1, keepdims=True)
        mean[part] = (shares * means).sum(1)
        variance[part] = (shares * (variances + (means - mean[part, None]) ** 2)).sum(1)
    return Expectation(mean, variance)


def expect_by_precisions(
    x: Numbers, scores: Numbers, means: Numbers, precisions: Numbers, pull: Callable[[int, Numbers], Numbers]
) -> Surprises:
    """[E29] Condition a mixture of any covariances on all features of a row but one, for each of them.

    ``scores`` (N, K) are those of whole rows, ``precisions`` (K, D) those of each feature given all others, and
    ``pull(k, away)`` is the precision of component k times deviations from its mean.
    """
    mean, variance, excess = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    size = max(1, FEATURES_AT_ONCE // means.size)
    usual = 0.5 * np.log(precisions / (2 * np.pi * np.e))  # log density that a feature has on average
    for start in range(0, len(x), size):
        part = slice(start, start + size)
        pulls = np.stack([pull(k, x[part] - own) for k, own in enumerate(means)], axis=1)
        expected = np.clip(x[part, None] - pulls / precisions, -FARTHEST, FARTHEST)
        terms = 0.5 * (np.log(precisions / (2 * np.pi)) - (pulls / np.sqrt(precisions)) ** 2)
        without = scores[part, :, None] - terms
        best = without.max(1, keepdims=True)
        shares = np.exp(np.maximum(without - best, -700.0))
        shares /= shares.sum(1, keepdims=True)
        mean[part] = (shares * expected).sum(1)
        variance[part] = (shares * (1 / precisions + (expected - mean[part, None]) ** 2)).sum(1)
        excess[part] = best[:, 0] - scores[part].max(1)[:, None] + (shares * usual).sum(1)
    return Surprises(Expectation(mean, variance), excess)


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
    differs: npt.NDArray[np.bool_] | None,
    names: Sequence[str] | None,
    most: int | None,
) -> list[list[Reason]]:
    """Return, for each row, at most so many features that make it strange, the strangest first.

    Features that never varied and ``differs`` (N, D) come before all others.
    """
    with np.errstate(over="ignore"):
        squares = np.minimum((rows - expected.mean) ** 2 / expected.variance, LARGEST)
    if differs is not None:
        some = differs.any(1)
        squares[some] = np.where(np.isnan(rows[some]), np.nan, differs[some])
    known = None if names is None else [str(name) for name in names]
    return [_reasons_of(*row, known, most) for row in zip(rows, *expected, squares, strict=True)]


def _reasons_of(
    row: Numbers, expected: Numbers, variance: Numbers, squares: Numbers, names: list[str] | None, most: int | None
) -> list[Reason]:
    """Rank the features of one row by the squares of their deviations; NaN marks gaps, which are no reasons."""
    total = float(squares.sum())
    if isnan(total):
        total = float(np.nansum(squares))
    found = []
    for d in (-squares).argsort(kind="stable")[:most].tolist():  # gaps come last
        share, value, mean = (float(numbers[d]) for numbers in (squares, row, expected))
        if isnan(share):
            break
        reach = USUAL_RANGE * sqrt(variance[d])
        name = d if names is None else names[d]
        found.append(Reason(name, share / total if total > 0 else 0.0, value, mean, mean - reach, mean + reach))
    return found
