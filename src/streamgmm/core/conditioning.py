"""Conditional mixtures: what the known features of a row say about the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from streamgmm.core.explanation import (
    Expectation,
    Independent,
    Reason,
    Surprises,
    expect_by_precisions,
    expect_from_others,
    rank_reasons,
)
from streamgmm.core.parameters import Parameters

Numbers = npt.NDArray[np.float64]
ROWS_AT_ONCE = 1000
EVIDENT = 10.0  # nats by which a row gains more without the feature at fault than without any other
MOST_AT_FAULT = 3  # features of a row, which are found one after the other


def impute(parameters: Parameters, x: Numbers, n_draws: int | None, rng: np.random.Generator) -> Numbers:
    """[E42] Return rows (N, D) with means in place of each NaN, or so many draws (n_draws, N, D)."""
    return impute_means(parameters, x) if n_draws is None else impute_draws(parameters, x, n_draws, rng)


def impute_means(parameters: Parameters, x: Numbers) -> Numbers:
    """[E42] Return rows (N, D) with the expected value in place of each NaN."""
    filled = np.array(x)
    lacking = np.flatnonzero(np.isnan(x).any(1))
    for start in range(0, len(lacking), ROWS_AT_ONCE):
        some = lacking[start : start + ROWS_AT_ONCE]
        filled[some] = parameters.kind.imputed(parameters, x[some])
    return filled


def impute_draws(parameters: Parameters, x: Numbers, n_draws: int, rng: np.random.Generator) -> Numbers:
    """[E42] Return rows with random values in place of each NaN, so many times: (n_draws, N, D)."""
    filled = np.repeat(x[None], n_draws, axis=0)
    for n in np.flatnonzero(np.isnan(x).any(1)).tolist():
        left = parameters.kind.condition(parameters, x[n])
        components = rng.choice(len(left), size=n_draws, p=left.weights)
        filled[:, n, np.isnan(x[n])] = left.kind.draw(left, components, rng)
    return filled


class Explainer:
    """Explains rows under parameters that do not change meanwhile.

    Parameters
    ----------
    parameters : Parameters
        Parameters of the mixture.
    constant : array of int
        Numbers of the features that never varied.
    differing : callable
        Tells where rows (N, D) of bytes times a factor, or of floats, differ in these features.
    unknown : array of int
        Numbers of the features of which no value was learned: they explain nothing.
    """

    def __init__(
        self,
        parameters: Parameters,
        constant: npt.NDArray[np.int64],
        differing: Callable[[Numbers, float], npt.NDArray[np.bool_]],
        unknown: npt.NDArray[np.int64],
    ) -> None:
        self._parameters, self._constant, self._differing, self._unknown = parameters, constant, differing, unknown
        self._independent: Independent | None = None
        p, kind = parameters, parameters.kind
        if not kind.couples_features:
            log_weights = np.log(np.maximum(p.weights, np.finfo(np.float64).tiny))
            means, variances = (np.asarray(a, np.float64) for a in (p.means, kind.feature_variances(p)))
            self._independent = Independent.of(log_weights, means, variances)

    def explain(
        self, x: npt.ArrayLike, names: Sequence[str] | None = None, most: int | None = None
    ) -> list[list[Reason]]:
        """Return, for each row, the features that make it strange; see `Mixture.explain`."""
        rows, width = np.array(x, dtype=np.float64), self._parameters.n_features
        if rows.ndim != 2 or rows.shape[1] != width:
            raise ValueError(f"samples have shape {rows.shape}; expected (samples, {width}).")
        if names is not None and len(names) != width:
            raise ValueError(f"there are {len(names)} names of features; expected {width}.")
        if most is not None and most < 0:
            raise ValueError(f"most is {most}; expected a number of features, or None for all.")
        rows[:, self._unknown] = np.nan
        if self._independent is not None:
            expected = expect_from_others(rows, self._independent)
        else:
            expected = expect_each_feature(self._parameters, rows)
        differs: npt.NDArray[np.bool_] | None = None
        if len(self._constant):
            differs = np.zeros(rows.shape, np.bool_)
            differs[:, self._constant] = self._differing(rows, 1.0)
        return rank_reasons(rows, expected, differs, names, most)


def expect_each_feature(parameters: Parameters, x: Numbers) -> Expectation:
    """[E29] Return what to expect of each feature given the other features of its row; a gap is no evidence.

    A feature without which the row becomes far more likely than without any other is at fault. It is no evidence about
    the others: otherwise it would choose the component that they are judged by, and draw expectations along.
    """
    (mean, variance), excess = _expected(parameters, x)
    at_fault, left = np.zeros(x.shape, np.bool_), np.arange(len(x))
    for _ in range(min(MOST_AT_FAULT, x.shape[1] - 1)):
        ordered = np.sort(np.where(np.isnan(excess), -np.inf, excess), axis=1)
        evident = ordered[:, -1] - ordered[:, -2] > EVIDENT if x.shape[1] > 1 else np.zeros(len(left), np.bool_)
        left, excess = left[evident], excess[evident]
        if not len(left):
            break
        at_fault[left, np.nanargmax(excess, axis=1)] = True
        found, excess = _expected(parameters, np.where(at_fault[left], np.nan, x[left]))
        others = ~at_fault[left] & ~np.isnan(x[left])
        mean[left] = np.where(others, found.mean, mean[left])
        variance[left] = np.where(others, found.variance, variance[left])
    return Expectation(mean, variance)


def _expected(parameters: Parameters, x: Numbers) -> Surprises:
    """Return what to expect of each feature given all others, and surprises; NaN for gaps, whose variance is 1."""
    kind, p = parameters.kind, parameters
    mean, variance, excess = np.full(x.shape, np.nan), np.ones(x.shape), np.full(x.shape, np.nan)
    for rows, known in _patterns(np.isnan(x)):
        some = p if known.all() else kind.marginal(p, np.flatnonzero(known).tolist())
        own = x[rows][:, known]
        found = expect_by_precisions(
            own,
            kind.component_scores(some, own),
            np.asarray(some.means, np.float64),
            kind.conditional_precisions(some),
            lambda k, away, some=some: kind.pull(some, k, away),  # type: ignore[misc]
        )
        at = np.ix_(rows, known)
        (mean[at], variance[at]), excess[at] = found
    return Surprises(Expectation(mean, variance), excess)


def _patterns(gaps: npt.NDArray[np.bool_]) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]]:
    """Yield the numbers of rows that lack the same features, and which features they have."""
    if not gaps.any():
        yield np.arange(len(gaps)), ~gaps[0] if len(gaps) else np.ones(gaps.shape[1], np.bool_)
        return
    patterns, which = np.unique(gaps, axis=0, return_inverse=True)
    for number, pattern in enumerate(patterns):
        if not pattern.all():
            yield np.flatnonzero(which.ravel() == number), ~pattern
