"""Rows with gaps, rows with shares and extreme rows: the kernel agrees with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm.core import reference as eq
from streamgmm.core.grid import filters, smoothing_matrix, torus
from streamgmm.native import EMStep, NaturalStep, Samples, SGDStep, Steps, diagonal
from tests.kernels import BOUNDS, Mixture, plain, random_mixture
from tests.kernels.test_against_reference import assert_close, clear_winner

SIZES = [(1, 1), (4, 7), (6, 40), (9, 1100)]


def with_gaps(x: np.ndarray, seed: int = 0, share: float = 0.3) -> np.ndarray:
    gone = np.random.default_rng(seed).random(x.shape) < share
    gone[:, 0] = False  # every row has a value
    return np.where(gone, np.nan, x).astype(x.dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("components", "features"), SIZES)
def test_scores_are_those_of_the_marginal(width: str, dtype: type, components: int, features: int) -> None:
    rng = np.random.default_rng(1)
    p = random_mixture(rng, components, features, dtype)
    x = with_gaps(rng.random((300, features)).astype(dtype))
    x[5] = np.nan
    expected = eq.known_scores(x.astype(np.float64), *plain(p))
    assert_close(diagonal.component_scores(p.model, x), expected, dtype)
    found = diagonal.score(p.model, x)
    assert_close(found.max_component, expected.max(1), dtype)
    assert found.log_likelihood[5] == pytest.approx(0, abs=1e-5)  # no value: no information


def steps(kind: str, p: Mixture, x: np.ndarray, sigma: float, **reading: Any) -> tuple[Steps, np.ndarray]:
    """Call a rule's loop once; return its report and the variances it has learned."""
    size, variances, samples = len(p), p.variances(), Samples(x, **reading)
    g = filters(torus(size), sigma)
    if kind == "sgd":
        return diagonal.sgd_steps(p.model, samples, g, SGDStep(0.01, BOUNDS)), variances
    if kind == "natural":
        natural = NaturalStep(growth=0.2, count_max=15.0, scale_bounds=BOUNDS)
        moments = p.moments(variances, np.full(size, 7.0))
        return diagonal.natural_steps(p.model, moments, samples, g, natural, np.zeros(size)), variances
    em = EMStep(rate=0.3, exponent=0.7, rate_min=0.01, first_step=3, scale_bounds=BOUNDS)
    return diagonal.em_steps(p.model, p.moments(variances, eq.weights(p.logits)), samples, em), variances


@pytest.mark.parametrize("kind", ["sgd", "natural", "sem"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("sigma", [1.0, 0.01])
def test_a_gap_acts_like_a_smaller_model(width: str, kind: str, dtype: type, batch_size: int, sigma: float) -> None:
    """Rows that all lack the same features teach what a model without these features would learn."""
    rng = np.random.default_rng(2)
    p = random_mixture(rng, 6, 50, dtype)
    x = clear_winner(rng, p, batch_size)
    there = rng.random(50) < 0.7
    x[:, ~there] = np.nan
    part = Mixture(p.means[:, there], p.scales[:, there], p.logits)
    before = plain(p)
    whole, variances = steps(kind, p, x, sigma, batch_size=batch_size, gaps=True)
    small, small_variances = steps(kind, part, np.ascontiguousarray(x[:, there]), sigma, batch_size=batch_size)
    assert_close(p.means[:, there], part.means.astype(np.float64), dtype)
    assert_close(p.scales[:, there], part.scales.astype(np.float64), dtype)
    assert_close(variances[:, :50][:, there], small_variances[:, : there.sum()].astype(np.float64), dtype)
    assert_close(p.logits, part.logits, dtype)
    assert_close(whole.losses, small.losses, dtype)
    np.testing.assert_array_equal(p.means[:, ~there], before[1][:, ~there].astype(dtype))
    np.testing.assert_allclose(p.scales[:, ~there], before[2][:, ~there], rtol=1e-5)
    assert_close(p.log_dets, np.log(p.scales.astype(np.float64)).sum(1), dtype)


@pytest.mark.parametrize("kind", ["natural", "sem"])
@pytest.mark.parametrize("sigma", [1.0, 0.01])
def test_a_batch_fills_gaps_as_em_would(width: str, kind: str, sigma: float) -> None:
    """A sample without a feature counts as one with the component's mean and variance there."""
    rng = np.random.default_rng(3)
    p = random_mixture(rng, 6, 20)
    x = with_gaps(clear_winner(rng, p, 8))
    logits, means, scales = plain(p)
    v = 1 / scales**2
    f = eq.known_scores(x, logits, means, scales)
    if kind == "natural":
        w = smoothing_matrix(torus(6), sigma)[eq.smoothed(f, smoothing_matrix(torus(6), sigma))[1]]
        _, r = eq.earned_rate(np.full(6, 7.0), w.sum(0), 0.2, 15.0)
    else:
        w = np.exp(f - np.log(np.exp(f).sum(1))[:, None])
        rate = eq.em_rate(3, 0.3, 0.2, 0.01)
        r = rate * w.mean(0) / ((1 - rate) * eq.weights(logits) + rate * w.mean(0))
    _, variances = steps(kind, p, x, sigma, batch_size=8, gaps=True)
    for k in range(6):
        total = w[:, k].sum()
        if total < 1e-12:
            continue
        away = np.where(np.isnan(x), 0, x - means[k])
        square = np.where(np.isnan(x), v[k], away**2)
        shift = w[:, k] @ away / total
        np.testing.assert_allclose(p.means[k], means[k] + r[k] * shift, rtol=1e-9, atol=1e-12)
        expected = (1 - r[k]) * v[k] + r[k] * (w[:, k] @ square) / total - (r[k] * shift) ** 2
        np.testing.assert_allclose(variances[k, :20], expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 5])
@pytest.mark.parametrize("sigma", [1.0, 0.01])
def test_shares(width: str, dtype: type, batch_size: int, sigma: float) -> None:
    rng = np.random.default_rng(4)
    shares = rng.uniform(0.1, 1, batch_size)
    g = smoothing_matrix(torus(6), sigma)
    for kind in ("sgd", "natural", "sem"):
        p = random_mixture(rng, 6, 30, dtype)
        x = clear_winner(rng, p, batch_size)
        logits, means, scales = plain(p)
        y, v, n = x.astype(np.float64), 1 / scales**2, np.full(6, 7.0)
        if kind == "sgd":
            logits, means, scales, _ = eq.sgd_step(y, (logits, means, scales), g, 0.01, BOUNDS, shares)
        elif kind == "natural":
            means, scales, v, n, _ = eq.natural_step(y, (logits, means, scales), v, n, g, (0.2, 15.0), BOUNDS, shares)
        else:
            rate = eq.em_rate(3, 0.3, 0.2, 0.01)
            logits, means, scales, v, _, _ = eq.em_step(
                y, (logits, means, scales), v, eq.weights(logits), rate, BOUNDS, shares
            )
        steps(kind, p, x, sigma, batch_size=batch_size, shares=shares)
        assert_close(p.means, means, dtype)
        assert_close(p.scales, scales, dtype)
        assert_close(p.logits, logits, dtype)


@pytest.mark.parametrize("kind", ["sgd", "natural", "sem"])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("room", [0.0, 1.0])
def test_influence_of_extreme_samples(width: str, kind: str, batch_size: int, room: float) -> None:
    rng = np.random.default_rng(5)
    p = random_mixture(rng, 4, 12)
    x = rng.random((400, 12))
    x[[0, 7, 100, 101, 102, 300]] = 1e6
    x[200] = 60.0
    typical, expected = np.array([0.0, 0.0, 0.0, room, 0.0]), (0.0, 0.0, 0.0, room, 0.0)
    extreme = 0
    for start in range(0, 400, batch_size):
        q = Mixture(p.means, p.scales, p.logits)
        batch = x[start : start + batch_size]
        top = (eq.log_likelihood if kind == "sem" else eq.max_component)(batch, *plain(p))
        shares, losses = [], []
        for loss in top:
            share, told, expected = eq.influence(loss, expected, 12)
            shares.append(share)
            losses.append(told)
        extreme += sum(s < 1 for s in shares)
        report, _ = steps(kind, p, batch, 0.01, batch_size=batch_size, typical_loss=typical)
        steps(kind, q, batch, 0.01, batch_size=batch_size, shares=np.array(shares))
        np.testing.assert_allclose(p.means, q.means, rtol=1e-9)
        np.testing.assert_allclose(p.scales, q.scales, rtol=1e-9)
        assert report.losses[0] == pytest.approx(np.mean(losses), rel=1e-9)
        np.testing.assert_allclose(typical, expected, rtol=1e-9)
    assert extreme == typical[4] == 7
    assert abs(p.means).max() < 10
