"""Natural-gradient and stochastic-EM steps agree with the reference."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core import reference as eq
from streamgmm.core.grid import filters, smoothing_matrix, torus
from streamgmm.native import EMStep, NaturalStep, Samples, diagonal
from tests.kernels import BOUNDS, Mixture, plain, random_mixture
from tests.kernels.test_against_reference import SIZES, assert_close, clear_winner


def case(
    components: int, features: int, dtype: type, count: int
) -> tuple[np.random.Generator, Mixture, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([components, features, count])
    p = random_mixture(rng, components, features, dtype)
    return rng, p, p.variances(), clear_winner(rng, p, count)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [2.0, 0.6, 0.01])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
@pytest.mark.parametrize(("components", "features"), SIZES)
def test_one_natural_step(
    width: str, dtype: type, sigma: float, batch_size: int, components: int, features: int
) -> None:
    rng, p, variances, x = case(components, features, dtype, batch_size)
    counts = rng.uniform(1, 20, components)
    grid = torus(components)
    v, n = variances[:, :features].astype(np.float64), counts.copy()
    g = np.where((m := smoothing_matrix(grid, sigma)) < (1e-8 if dtype is np.float32 else 1e-17), 0, m)
    means, scales, v, n, loss = eq.natural_step(x.astype(np.float64), plain(p), v, n, g, (0.2, 15.0), BOUNDS)
    received = np.zeros(components)
    step = NaturalStep(growth=0.2, count_max=15.0, scale_bounds=BOUNDS)
    samples, moments = Samples(x, batch_size), p.moments(variances, counts)
    report = diagonal.natural_steps(p.model, moments, samples, filters(grid, sigma), step, received)
    assert report.received is received
    assert_close(p.means, means, dtype)
    assert_close(p.scales, scales, dtype)
    assert_close(variances[:, :features], v, dtype)
    assert_close(counts, n, dtype)
    assert_close(p.log_dets, np.log(scales).sum(1), dtype)
    assert_close(report.losses, np.array([loss]), dtype)
    assert received.sum() == pytest.approx(batch_size)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_held_scales_stay(width: str, dtype: type, batch_size: int) -> None:
    _, p, variances, x = case(6, 20, dtype, 8)
    scales, before, means = p.scales.copy(), variances.copy(), p.means.copy()
    step = NaturalStep(growth=1.0, count_max=np.inf, scale_bounds=BOUNDS, hold_scales=True)
    moments = p.moments(variances, np.full(6, 5.0))
    diagonal.natural_steps(p.model, moments, Samples(x, batch_size), filters(torus(6), 0.8), step, np.zeros(6))
    np.testing.assert_array_equal(p.scales, scales)
    np.testing.assert_array_equal(variances, before)
    assert (p.means != means).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 3, 16])
@pytest.mark.parametrize(("components", "features"), SIZES)
def test_em_steps(width: str, dtype: type, batch_size: int, components: int, features: int) -> None:
    _, p, variances, x = case(components, features, dtype, 5 * batch_size)
    masses = eq.weights(p.logits)
    logits, means, scales = plain(p)
    v, masses_expected, losses = variances[:, :features].astype(np.float64), masses.copy(), []
    for t, batch in enumerate(x.astype(np.float64).reshape(5, batch_size, features)):
        rate = eq.em_rate(7 + t, 0.3, 0.2, 0.01)
        logits, means, scales, v, masses_expected, loss = eq.em_step(
            batch, (logits, means, scales), v, masses_expected, rate, BOUNDS
        )
        losses.append(loss)
    step = EMStep(rate=0.3, exponent=0.7, rate_min=0.01, first_step=7, scale_bounds=BOUNDS)
    report = diagonal.em_steps(p.model, p.moments(variances, masses), Samples(x, batch_size), step)
    assert_close(masses, masses_expected, dtype)
    assert_close(p.means, means, dtype)
    assert_close(variances[:, :features], v, dtype)
    assert_close(p.scales, scales, dtype)
    assert_close(report.losses, np.array(losses), dtype)


def test_accumulation_leaves_the_model_alone(width: str) -> None:
    _, p, variances, x = case(4, 9, np.float64, 12)
    before, masses, means = plain(p), np.zeros(4), p.means_buffer.copy()
    step = EMStep(0.0, exponent=0.5, rate_min=0.1, first_step=0, scale_bounds=BOUNDS, accumulate=True)
    diagonal.em_steps(p.model, diagonal.Moments(means, variances, masses), Samples(x), step)
    for a, b in zip(plain(p), before, strict=True):
        np.testing.assert_array_equal(a, b)
    shares = np.exp(eq.scores(x, *before) - eq.log_likelihood(x, *before)[:, None])
    np.testing.assert_allclose(masses, shares.mean(0), atol=1e-12)
    heard = shares.sum(0) > 1e-6
    np.testing.assert_allclose(means[heard, :9], (shares.T @ x)[heard] / shares.sum(0)[heard, None], rtol=1e-9)


def test_accumulation_may_have_rates_that_fall(width: str) -> None:
    _, p, variances, x = case(4, 9, np.float64, 12)
    before, masses, means = plain(p), np.zeros(4), p.means_buffer.copy()
    step = EMStep(0.3, exponent=0.7, rate_min=0.01, first_step=0, scale_bounds=BOUNDS, accumulate=True)
    diagonal.em_steps(p.model, diagonal.Moments(means, variances, masses), Samples(x), step)
    shares = np.exp(eq.scores(x, *before) - eq.log_likelihood(x, *before)[:, None])
    expected, sums = np.zeros(4), np.zeros((4, 9))
    for t in range(12):
        rate = eq.em_rate(t, 0.3, 0.2, 0.01)
        expected = (1 - rate) * expected + rate * shares[t]
        sums = (1 - rate) * sums + rate * shares[t][:, None] * x[t]
    np.testing.assert_array_equal(p.means, before[1])
    np.testing.assert_allclose(masses, expected, atol=1e-12)
    heard = expected > 1e-6
    np.testing.assert_allclose(means[heard, :9], sums[heard] / expected[heard, None], rtol=1e-9)


def test_natural_steps_need_the_models_own_means() -> None:
    _, p, variances, x = case(4, 9, np.float64, 1)
    moments = diagonal.Moments(p.means_buffer.copy(), variances, np.ones(4))
    step = NaturalStep(growth=1.0, count_max=10.0, scale_bounds=BOUNDS)
    with pytest.raises(ValueError, match="the model's own means"):
        diagonal.natural_steps(p.model, moments, Samples(x), filters(torus(4), 1.0), step, np.zeros(4))
