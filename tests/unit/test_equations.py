"""The reference against scipy and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from streamgmm.core import reference as eq


@pytest.fixture
def case() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    return rng.random((5, 4)), rng.normal(0, 0.3, 6), rng.random((6, 4)), rng.uniform(0.5, 4, (6, 4))


def test_scores_are_scipys_densities(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, scales = case
    weights = eq.weights(logits)
    parts = [np.log(weights[k]) + multivariate_normal(means[k], np.diag(scales[k] ** -2.0)).logpdf(x) for k in range(6)]
    np.testing.assert_allclose(eq.scores(x, logits, means, scales), np.array(parts).T, rtol=1e-12)
    np.testing.assert_allclose(eq.log_likelihood(x, logits, means, scales), np.log(np.exp(parts).sum(0)), rtol=1e-12)
    np.testing.assert_array_equal(
        eq.max_component(x, logits, means, scales), eq.scores(x, logits, means, scales).max(1)
    )


@pytest.mark.parametrize("sigma", [2.0, 0.5, 0.01])
def test_gradients_are_finite_differences(case: tuple[np.ndarray, ...], sigma: float) -> None:
    x, logits, means, scales = case
    g = eq.smoothing_matrix(2, 3, max(sigma, 0.03))
    sizes = [a.size for a in (logits, means, scales)]

    def objective(packed: np.ndarray) -> float:
        a, b, c = np.split(packed, np.cumsum(sizes)[:-1])
        return eq.smoothed(eq.scores(x, a, b.reshape(6, 4), c.reshape(6, 4)), g)[0].mean()

    packed = np.concatenate([logits, means.ravel(), scales.ravel()])
    numeric = approx_fprime(packed, objective, 1e-7)
    analytic = np.concatenate([d.ravel() for d in eq.gradients(x, logits, means, scales, g)])
    np.testing.assert_allclose(analytic, numeric, atol=2e-5)


def test_a_step_without_bounds_follows_the_gradient(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, scales = case
    g = eq.smoothing_matrix(2, 3, 1.0)
    rate = 1e-4
    new = eq.sgd_step(x, (logits, means, scales), g, rate, (1e-9, 1e9))
    for before, after, slope in zip(
        (logits, means, scales), new, eq.gradients(x, logits, means, scales, g), strict=False
    ):
        np.testing.assert_allclose(after, before + rate * slope, rtol=1e-12)


def test_batch_sums_are_weighted_sums(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, scales = case
    g = eq.smoothing_matrix(2, 3, 0.8)
    _, winners = eq.smoothed(eq.scores(x, logits, means, scales), g)
    centre = np.full(4, 0.5)
    w = g[winners]
    zeroth, first, second = eq.batch_sums(x, winners, g, centre)
    np.testing.assert_allclose(zeroth, w.sum(0))
    np.testing.assert_allclose(first, np.einsum("nk,nd->kd", w, x - centre))
    np.testing.assert_allclose(second, np.einsum("nk,nd->kd", w, (x - centre) ** 2))
