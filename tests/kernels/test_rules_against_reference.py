"""The loops of the natural rule and of stochastic EM = equations.py."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm import equations as eq
from streamgmm import kernels
from streamgmm.grid import filters, smoothing_matrix, torus
from streamgmm.rules.natural import Natural, distortion, need, unusual_spread
from tests.conftest import plain, random_parameters
from tests.kernels.test_against_reference import BOUNDS, SIZES, assert_close, clear_winner


def case(
    components: int, features: int, dtype: type, count: int
) -> tuple[np.random.Generator, kernels.Parameters, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([components, features, count])
    p = random_parameters(rng, components, features, dtype)
    variances = kernels.padded(1 / p.scales.astype(np.float64) ** 2, p.dtype, 1)
    return rng, p, variances, clear_winner(rng, p, count)


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
    means, scales, v, n, loss = eq.natural_step(x.astype(np.float64), *plain(p), v, n, g, 0.2, 15.0, *BOUNDS)
    received = np.zeros(components)
    report = kernels.natural_steps(
        p, variances, counts, received, x, filters(grid, sigma), growth=0.2, count_max=15.0, scale_bounds=BOUNDS,
        batch_size=batch_size,
    )  # fmt: skip
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
    kernels.natural_steps(
        p, variances, np.full(6, 5.0), np.zeros(6), x, filters(torus(6), 0.8), growth=1.0, count_max=np.inf,
        scale_bounds=BOUNDS, hold_scales=True, batch_size=batch_size,
    )  # fmt: skip
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
            batch, logits, means, scales, v, masses_expected, rate, *BOUNDS
        )
        losses.append(loss)
    report = kernels.em_steps(
        p, p.means_buffer, variances, masses, x, rate=0.3, exponent=0.7, rate_min=0.01, first_step=7,
        scale_bounds=BOUNDS, batch_size=batch_size,
    )  # fmt: skip
    assert_close(masses, masses_expected, dtype)
    assert_close(p.means, means, dtype)
    assert_close(variances[:, :features], v, dtype)
    assert_close(p.scales, scales, dtype)
    assert_close(report.losses, np.array(losses), dtype)


def test_accumulation_leaves_the_model_alone(width: str) -> None:
    _, p, variances, x = case(4, 9, np.float64, 12)
    before, masses, means = plain(p), np.zeros(4), p.means_buffer.copy()
    kernels.em_steps(
        p, means, variances, masses, x, rate=0.1, exponent=0.5, rate_min=0.1, first_step=0, scale_bounds=BOUNDS,
        accumulate=True,
    )  # fmt: skip
    for a, b in zip(plain(p), before, strict=True):
        np.testing.assert_array_equal(a, b)
    shares = np.exp(eq.scores(x, *before) - eq.log_likelihood(x, *before)[:, None])
    np.testing.assert_allclose(masses, shares.mean(0), atol=1e-12)
    heard = shares.sum(0) > 1e-6
    np.testing.assert_allclose(means[heard, :9], (shares.T @ x)[heard] / shares.sum(0)[heard, None], rtol=1e-9)


def test_weights_and_loads_are_the_references() -> None:
    rng = np.random.default_rng(0)
    rule = Natural()
    state = {"weights": np.array([0.1, 0.2, 0.7]), "received": np.array([5.0, 0.0, 15.0]), "lately": np.ones(3)}
    expected = eq.moved_weights(state["weights"], state["received"], 3 * rule.count_annealing + 40)
    rule._move_weights(state, 40)
    np.testing.assert_allclose(state["weights"], expected, rtol=1e-14)
    assert (state["received"] == 0).all()
    np.testing.assert_array_equal(state["lately"], [6, 1, 16])
    variances = rng.exponential(0.1, (4, 30))
    np.testing.assert_allclose(distortion(variances, 20.0), eq.distortion(variances, 20.0), rtol=1e-12)
    found = unusual_spread(variances, np.median(variances, axis=0), 20.0)
    np.testing.assert_allclose(found, eq.unusual_spread(variances, 20.0), rtol=1e-12)
    p = kernels.Parameters(rng.normal(0, 0.2, (4, 30)), np.minimum(variances**-0.5, 20**0.5), np.zeros(4))
    for k in range(4):
        expected = eq.need(k, p.means, variances, p.scales)
        assert need(k, p, variances[k]) == pytest.approx(expected, rel=1e-12)
    drawn = rng.normal(p.means[0], variances[0] ** 0.5, (100_000, 30))  # what a need is, by its name
    scores = eq.scores(drawn, p.logits, p.means, p.scales).mean(0)
    assert 2 * (scores[0] - scores[1:].max()) == pytest.approx(need(0, p, variances[0]), rel=0.02)
