"""The reference of covariances that couple features, against scipy, brute force and finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from streamgmm.core import reference_coupled as eq
from streamgmm.core.reference import smoothing_matrix, weights


@pytest.fixture
def case() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(3)
    roots = rng.normal(size=(3, 4, 4))
    return rng.random((6, 4)), rng.normal(0, 0.3, 3), rng.random((3, 4)), roots @ roots.swapaxes(1, 2) + 0.1 * np.eye(4)


def test_densities_are_scipys(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, covariances = case
    parts = [
        np.log(w) + multivariate_normal(m, c).logpdf(x)
        for w, m, c in zip(weights(logits), means, covariances, strict=True)
    ]
    np.testing.assert_allclose(eq.scores(x, logits, means, covariances), np.array(parts).T, rtol=1e-11)
    a, noise = np.random.default_rng(0).normal(size=(4, 2)), np.array([0.3, 0.5, 1.0, 2.0])
    expected = multivariate_normal(means[0], a @ a.T + np.diag(noise)).logpdf(x)
    np.testing.assert_allclose(eq.low_rank_log_density(x, (means[0], a, noise)), expected, rtol=1e-11)


def test_moved_covariances_are_those_of_two_populations_together(case: tuple[np.ndarray, ...]) -> None:
    x = case[0]
    before = np.random.default_rng(1).normal(size=(12, 4))
    mean, covariance = before.mean(0), np.cov(before.T, bias=True)
    w, r = np.ones((6, 1)), np.array([6 / 18])
    found = eq.moved_covariances(x, w, r, mean[None], covariance[None])
    both = np.concatenate([before, x])
    np.testing.assert_allclose(found[0][0], both.mean(0), rtol=1e-12)
    np.testing.assert_allclose(found[1][0], np.cov(both.T, bias=True), rtol=1e-12)


def test_a_small_gradient_step_raises_the_objective_along_its_slope(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, covariances = case
    values, vectors = np.linalg.eigh(np.linalg.inv(covariances))
    model = (logits, means, np.sqrt(values), vectors.swapaxes(1, 2))
    g = smoothing_matrix(1, 3, 0.5)

    def objective(ξ: np.ndarray, μ: np.ndarray, λ: np.ndarray, v: np.ndarray) -> float:
        precision = np.einsum("kid,ki,kie->kde", v, λ**2, v)
        f = eq.scores(x, ξ, μ, np.linalg.inv(precision))
        return float((f @ g.T).max(1).mean())

    slope = approx_fprime(means.ravel(), lambda m: objective(logits, m.reshape(3, 4), *model[2:]), 1e-7).reshape(3, 4)
    rate = 1e-5
    new = eq.spectral_step(x, model, g, rate, (1e-6, 1e6))
    np.testing.assert_allclose((new[1] - means) / rate, slope, atol=1e-4)
    np.testing.assert_allclose(new[3] @ new[3].swapaxes(1, 2), np.tile(np.eye(4), (3, 1, 1)), atol=1e-12)
    assert objective(*new) > objective(*model)
    only_turned = (*model[:3], new[3])
    assert objective(*only_turned) > objective(*model)


def test_em_on_factors_never_lowers_the_likelihood() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2)) @ rng.normal(size=(2, 6)) + 0.3 * rng.normal(size=(200, 6))
    mean, v = x.mean(0), x.var(0)
    a, noise, r = 0.1 * rng.normal(size=(6, 2)), v.copy(), np.eye(2)
    likelihoods = []
    for _ in range(60):
        component = (mean, a, noise)
        likelihoods.append(eq.low_rank_log_density(x, component).sum())
        none = (mean, np.zeros(2), v, np.zeros((6, 2)), np.zeros((2, 2)))
        _, _, v, c, z = eq.moved_factors(x, np.ones(200), 1.0, component, r, none)
        a, noise, r = eq.factors_of(v, c, z, 1e-6)
    assert (np.diff(likelihoods) > -1e-6).all()
    best = multivariate_normal(mean, np.cov(x.T, bias=True)).logpdf(x).sum()
    assert likelihoods[-1] > best - 15  # a full covariance has 4 parameters more
    np.testing.assert_allclose((a**2).sum(1) + noise, v, rtol=1e-9)  # variances of features are exact


def test_conditioning_agrees_with_bayes(case: tuple[np.ndarray, ...]) -> None:
    _, logits, means, covariances = case
    row = np.array([0.3, np.nan, 0.8, np.nan])
    γ, m, c = eq.conditioned(row, logits, means, covariances)
    known = np.array([0, 2])
    places = np.array([[0.1, 0.2], [1.0, -0.4]])
    rows = np.array([[0.3, a, 0.8, b] for a, b in places])
    joint = logsumexp(eq.scores(rows, logits, means, covariances), axis=1)
    marginal = logsumexp(eq.scores(row[None, known], logits, means[:, known], covariances[:, known][:, :, known]))
    found = logsumexp(
        [np.log(g) + multivariate_normal(a, b).logpdf(places) for g, a, b in zip(γ, m, c, strict=True)], axis=0
    )
    np.testing.assert_allclose(found, joint - marginal, rtol=1e-10)


def test_leaving_out_a_sample_is_forgetting_it() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3))
    others = x[1:]
    expected = np.array([0.3, 0.5, 0.2])
    found = eq.density_without(x[0], 1.0, 30, x.mean(0), np.cov(x.T, bias=True), (expected, 2.0))
    covariance = (29 * np.cov(others.T, bias=True) + 2 * np.diag(expected)) / 31
    assert found == pytest.approx(multivariate_normal(others.mean(0), covariance).logpdf(x[0]), rel=1e-10)
