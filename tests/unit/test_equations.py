"""The reference against scipy and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from streamgmm.core import reference as eq
from streamgmm.core import refinement


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


def test_a_frame_changes_densities_by_its_volume(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, scales = case
    shift, unit = np.array([5.0, -3.0, 0.0, 100.0]), np.array([2.0, -0.1, 1.0, 30.0])
    z = eq.in_frame(x, shift, unit)
    of_samples = eq.log_likelihood(z, logits, eq.in_frame(means, shift, unit), scales / np.abs(unit))
    np.testing.assert_allclose(
        eq.rows_log_likelihood(of_samples, unit), eq.log_likelihood(x, logits, means, scales), rtol=1e-12
    )


def test_frame_sums_leave_out_gaps_and_clip() -> None:
    z = np.array([[1.0, np.nan], [-30.0, np.nan], [2.0, 11.0]])
    np.testing.assert_array_equal(eq.frame_sums(z), [[3, 1], [-7, 10], [105, 100]])


def test_a_prior_counts_like_one_sample() -> None:
    v, prior = np.array([[4.0, 0.0], [4.0, 0.0]]), np.array([1.0, 0.5])
    found = eq.with_prior(v, np.array([0.0, 3.0]), prior, 0.2)
    np.testing.assert_allclose(found, [[1.0, 0.5], [3.25, 0.2]])


def test_shares_are_responsibilities(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, scales = case
    f = eq.scores(x, logits, means, scales)
    expected = np.exp(f - eq.log_likelihood(x, logits, means, scales)[:, None])
    np.testing.assert_allclose(eq.shared_out(f, 1e-300), expected, rtol=1e-12)
    np.testing.assert_allclose(eq.shared_out(f, 1e-300, np.arange(5.0)).sum(1), np.arange(5.0))
    far = np.array([[0.0, -10.0, -20.0]])
    assert (eq.shared_out(far, np.exp(-15.0))[0] > 0).tolist() == [True, True, False]


Fitted = tuple[np.ndarray, np.ndarray, refinement.Fit, np.ndarray]


def fitted(masses_of_ones: bool = False, counted: bool = False) -> Fitted:
    """Samples, how often they count, moments by responsibilities, and these."""
    rng = np.random.default_rng(11)
    z = rng.normal(0, 1, (12, 3))
    r = rng.dirichlet(np.ones(4), 12)
    if masses_of_ones:  # one component has learned a single sample
        r[:, 3] = 0
        r[0] = 0, 0, 0, 1
        r /= r.sum(1, keepdims=True)
    counts = rng.integers(1, 4, 12).astype(float) if counted else np.ones(12)
    mass = counts @ r
    means = (counts[:, None] * r).T @ z / mass[:, None]
    v = (counts[:, None] * r).T @ z**2 / mass[:, None] - means**2
    fit = refinement.Fit(mass / mass.sum(), means, np.maximum(v, 0), mass, np.array([0.05, 0.5, 3.0]))
    return z, counts, fit, r


@pytest.mark.parametrize("counted", [False, True])
def test_leaving_one_out_is_learning_the_others(counted: bool) -> None:
    """[E26] The moments without a sample are those of all samples, one of which counts one less."""
    z, counts, fit, r = fitted(counted=counted)
    total = 0.0
    for i in range(len(z)):
        others = counts - (np.arange(len(z)) == i)
        mass = others @ r
        means = (others[:, None] * r).T @ z / mass[:, None]
        v = (others[:, None] * r).T @ z**2 / mass[:, None] - means**2
        s = 1 / np.sqrt(eq.with_prior(v, mass, fit.prior))
        f = eq.scores(z[i : i + 1], np.zeros(4), means, s) + np.log(4) + np.log(mass / counts.sum())
        total += counts[i] * np.log(np.exp(f).sum())
    found = eq.leave_one_out(z, r, fit.means, fit.variances, fit.masses, fit.prior, counts)
    assert found == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("masses_of_ones", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_the_prior_follows_finite_differences(
    masses_of_ones: bool, counted: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[E26] The gradient of refinement, in one block of rows or in many."""
    monkeypatch.setattr(refinement, "BLOCK_NUMBERS", block)
    z, counts, fit, r = fitted(masses_of_ones, counted)

    def objective(log_prior: np.ndarray) -> float:
        return eq.leave_one_out(z, r, fit.means, fit.variances, fit.masses, np.exp(log_prior), counts)

    h, log_prior = 1e-5, np.log(fit.prior)
    numeric = [(objective(log_prior + h * e) - objective(log_prior - h * e)) / (2 * h) for e in np.eye(3)]
    analytic = refinement._leave_one_out_gradient(z, counts, fit, r)
    np.testing.assert_allclose(analytic, numeric, rtol=1e-6, atol=1e-8)
