"""The kernels of full and low-rank covariances against the reference, for every vector width."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest

from streamgmm.core import reference as eq
from streamgmm.core import reference_coupled as eqc
from streamgmm.core.grid import Grid, filters, ring, smoothing_matrix
from streamgmm.native import EMStep, NaturalStep, Samples, SGDStep, coupled, padded

BOUNDS = (1e-4, 1e4)
TOLERANCE = {np.float32: 2e-4, np.float64: 1e-9}
dtypes = pytest.mark.parametrize("dtype", [np.float32, np.float64])
sizes = pytest.mark.parametrize("size", [(1, 1), (3, 5), (4, 16), (7, 33), (2, 70)])
pytestmark = pytest.mark.usefixtures("width")


class Case(NamedTuple):
    """A model in the layout of the kernel, its buffers, and the same as plain float64."""

    model: Any
    buffers: dict[str, np.ndarray]
    logits: np.ndarray
    means: np.ndarray
    covariances: np.ndarray


def full_case(rng: np.random.Generator, size: tuple[int, int], dtype: type) -> Case:
    k, d = size
    roots = np.tril(rng.normal(0, 0.3, (k, d, d))) + np.eye(d)
    means, logits = rng.random((k, d)).astype(dtype), rng.normal(0, 0.5, k)
    factors = np.tril(np.linalg.inv(roots)).astype(dtype)
    buffers = {"means": padded(means, np.dtype(dtype), 0), "factors": padded(factors, np.dtype(dtype), 0)}
    model = coupled.full_model(buffers["means"], buffers["factors"], logits, np.empty(k))
    coupled.refresh(model)
    inverse = np.linalg.inv(factors.astype(np.float64))
    return Case(model, buffers, logits, means.astype(np.float64), inverse @ inverse.swapaxes(1, 2))


def low_rank_case(rng: np.random.Generator, size: tuple[int, int], dtype: type, rank: int = 3) -> Case:
    k, d = size
    kind = np.dtype(dtype)
    means, scales = rng.random((k, d)).astype(dtype), rng.uniform(0.7, 3, (k, d)).astype(dtype)
    factors = rng.normal(0, 0.7, (k, rank, d)).astype(dtype)
    spreads = np.tril(rng.normal(0, 0.2, (k, rank, rank))) + np.eye(rank)
    buffers = {
        "means": padded(means, kind, 0),
        "scales": padded(scales, kind, 1),
        "factors": padded(factors, kind, 0),
        "projections": padded(np.zeros_like(factors), kind, 0),
        "spreads": spreads.astype(dtype),
        "gains": np.zeros((k, rank, rank), dtype),
    }
    logits = rng.normal(0, 0.5, k)
    model = coupled.low_rank_model(buffers, logits, np.empty(k), d)
    coupled.refresh(model)
    a = factors.astype(np.float64)
    covariances = a.swapaxes(1, 2) @ a + np.eye(d) * (scales.astype(np.float64) ** -2.0)[:, None]
    return Case(model, buffers, logits, means.astype(np.float64), covariances)


CASES = {"full": full_case, "low_rank": low_rank_case}
kinds = pytest.mark.parametrize("kind", CASES)


@kinds
@dtypes
@sizes
def test_scores_are_those_of_the_reference(kind: str, dtype: type, size: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    case = CASES[kind](rng, size, dtype)
    x = rng.normal(0.5, 1, (2 * 11, 2 * size[1])).astype(dtype)[::2, : size[1]]  # rows that are apart
    expected = eqc.scores(x.astype(np.float64), case.logits, case.means, case.covariances)
    found = coupled.component_scores(case.model, x)
    np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype])
    one_by_one = np.concatenate([coupled.component_scores(case.model, x[n : n + 1]) for n in range(len(x))])
    np.testing.assert_array_equal(found, one_by_one)
    np.testing.assert_allclose(coupled.score(case.model, x).log_likelihood, _lse(expected), rtol=1e-3)


def _lse(scores: np.ndarray) -> np.ndarray:
    top = scores.max(1)
    return top + np.log(np.exp(scores - top[:, None]).sum(1))


@dtypes
def test_low_rank_scores_need_no_matrix(dtype: type) -> None:
    rng = np.random.default_rng(1)
    case = low_rank_case(rng, (4, 40), dtype)
    x = rng.normal(0, 1, (9, 40)).astype(dtype)
    for k in range(4):
        a, scales = (case.buffers[n][k].astype(np.float64)[..., :40] for n in ("factors", "scales"))
        expected = eqc.low_rank_log_density(x.astype(np.float64), (case.means[k], a.T, scales**-2.0))
        found = coupled.component_scores(case.model, x)[:, k] - np.log(eq.weights(case.logits)[k])
        np.testing.assert_allclose(found, expected, rtol=TOLERANCE[dtype])


@kinds
@dtypes
def test_gaps_are_marginals(kind: str, dtype: type) -> None:
    rng = np.random.default_rng(2)
    case = CASES[kind](rng, (5, 9), dtype)
    x = rng.normal(0.5, 1, (30, 9)).astype(dtype)
    x[rng.random(x.shape) < 0.4] = np.nan
    x = x[~np.isnan(x).all(1)]
    expected = eqc.known_scores(x.astype(np.float64), case.logits, case.means, case.covariances)
    np.testing.assert_allclose(
        coupled.component_scores(case.model, x), expected, rtol=TOLERANCE[dtype], atol=TOLERANCE[dtype]
    )


def full_moments(case: Case, dtype: type, counts: np.ndarray, prior: np.ndarray | None = None) -> tuple[Any, Any]:
    d = case.means.shape[1]
    covariances = padded(case.covariances, np.dtype(dtype), 0)
    evidence = None if prior is None else np.full(len(counts), 4.0)
    rows = None if prior is None else padded(prior, np.dtype(dtype), 1)
    learned = coupled.Learned(counts, np.zeros(len(counts), dtype), evidence, rows)
    return coupled.full_moments(case.buffers["means"], covariances, learned), covariances[..., :d]


@dtypes
@sizes
@pytest.mark.parametrize("batch", [1, 6])
@pytest.mark.parametrize("sigma", [1.0, 0.01])
def test_natural_steps_of_full_covariances(dtype: type, size: tuple[int, int], batch: int, sigma: float) -> None:
    rng = np.random.default_rng(3)
    case, (k, d) = full_case(rng, size, dtype), size
    x = rng.normal(0.5, 1, (batch, d)).astype(dtype)
    counts = rng.uniform(2, 5, k)
    prior = np.repeat([[0.3], [1.0], [0.01], [0.0]], d, axis=1)
    grid = ring(k)
    _, winner = eq.smoothed(
        eqc.scores(x.astype(float), case.logits, case.means, case.covariances), smoothing_matrix(grid, sigma)
    )
    w = smoothing_matrix(grid, sigma)[winner]
    n, r = eq.earned_rate(counts, w.sum(0), 0.5, 100.0)
    means, moved = eqc.moved_covariances(x.astype(float), w, r, case.means, case.covariances)
    native, found = full_moments(case, dtype, counts, prior)
    step = NaturalStep(0.5, 100.0, BOUNDS)
    coupled.natural_steps(case.model, native, Samples(x, batch), filters(grid, sigma), step, np.zeros(k))
    tolerance = {"rtol": TOLERANCE[dtype], "atol": TOLERANCE[dtype]}
    np.testing.assert_allclose(counts, n, rtol=1e-9)
    np.testing.assert_allclose(case.buffers["means"][:, :d], means, **tolerance)
    np.testing.assert_allclose(found, moved, **tolerance)
    factors = case.buffers["factors"][..., :d].astype(np.float64)
    for j in np.flatnonzero(r >= 0.05):  # set anew at once
        expected = eqc.blended_covariance(moved[j], 4.0 + w[:, j].sum(), *prior)
        inverse = np.linalg.inv(factors[j])
        np.testing.assert_allclose(inverse @ inverse.T, expected, rtol=5e-3 if dtype == np.float32 else 1e-8, atol=1e-3)


@dtypes
@pytest.mark.parametrize("features", [5, 12, 33])
def test_covariances_of_dependent_features_are_raised_by_rounding(dtype: type, features: int) -> None:
    rng = np.random.default_rng(12)
    case, bounds = full_case(rng, (2, features), dtype), (1e-9, 1e9)
    roots = rng.normal(0, 1, (2, features, 3))
    native, found = full_moments(case, dtype, np.full(2, 5.0))
    found[:] = roots @ roots.swapaxes(1, 2)
    least = bounds[1] ** -2.0
    coupled.settle(case.model, native, bounds, range(2))
    for k in range(2):
        raised = found[k].astype(np.float64) + least * np.eye(features)
        expected = eqc.sound_covariance(raised, least, float(np.finfo(dtype).eps))
        inverse = np.linalg.inv(case.buffers["factors"][k, :, :features].astype(np.float64))
        np.testing.assert_allclose(inverse @ inverse.T, expected, atol=2e-3 if dtype == np.float32 else 1e-5)
        found_log, expected_log = np.log(np.diag(inverse)).sum(), 0.5 * np.linalg.slogdet(expected)[1]
        assert abs(found_log - expected_log) < 0.1 * features  # ten times as much would be 1.15 for each
        assert (expected != raised).any()
        assert np.abs(case.buffers["factors"][k]).max() < 10 * np.finfo(dtype).eps ** -0.5


@dtypes
@pytest.mark.parametrize("size", [(3, 5), (6, 33), (9, 70)])
@pytest.mark.parametrize("soft", [False, True])
def test_full_steps_with_and_without_abandoning_agree_to_the_bit(
    dtype: type, size: tuple[int, int], soft: bool
) -> None:
    k, d = size
    found = []
    for scan_all in (False, True):
        rng = np.random.default_rng(11)
        case = full_case(rng, size, dtype)
        x = (case.means[rng.integers(k, size=60)] + rng.normal(0, 1, (60, d))).astype(dtype)
        native, covariances = full_moments(
            case, dtype, np.full(k, 5.0), np.repeat([[0.3], [1], [0.01], [0]], d, axis=1)
        )
        step = NaturalStep(0.5, 30.0, BOUNDS, False, scan_all, soft)
        report = coupled.natural_steps(case.model, native, Samples(x), filters(ring(k), 0.01), step, np.zeros(k))
        np.testing.assert_array_equal(covariances, covariances.swapaxes(1, 2))
        found.append((report, covariances, case))
    (near, near_moments, near_case), (full, full_moments_, full_case_) = found
    np.testing.assert_array_equal(near.losses, full.losses)
    np.testing.assert_array_equal(near.wins, full.wins)
    np.testing.assert_array_equal(near_moments, full_moments_)
    for name, buffer in near_case.buffers.items():
        np.testing.assert_array_equal(buffer, full_case_.buffers[name])
    assert near.terms_read[0] <= full.terms_read[0]
    if d > 16 and not soft:
        assert near.terms_read[0] < full.terms_read[0]


@pytest.mark.parametrize("batch", [1, 5])
def test_gradient_steps_of_full_covariances(batch: int) -> None:
    rng = np.random.default_rng(4)
    k, d = 4, 6
    case = full_case(rng, (k, d), np.float64)
    λ, v = rng.uniform(0.5, 3, (k, d)), np.stack([np.linalg.qr(rng.normal(size=(d, d)))[0] for _ in range(k)])
    case.buffers["factors"][..., :d] = λ[..., None] * v
    coupled.refresh(case.model)
    x, g = rng.normal(0.5, 1, (batch, d)), smoothing_matrix(ring(k), 0.7)
    model = (case.logits.copy(), case.means, λ, v)
    ξ, μ, λ, v = eqc.spectral_step(x, model, g, 0.05, (1e-3, 20**0.5))
    coupled.sgd_steps(case.model, Samples(x, batch), filters(ring(k), 0.7), SGDStep(0.05, (1e-3, 20**0.5)))
    np.testing.assert_allclose(case.logits, ξ, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(case.buffers["means"][:, :d], μ, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(case.buffers["factors"][..., :d], λ[..., None] * v, rtol=1e-7, atol=1e-9)


@dtypes
@pytest.mark.parametrize("batch", [1, 7])
def test_natural_steps_of_factors(dtype: type, batch: int) -> None:
    rng = np.random.default_rng(5)
    d, rank = 11, 3
    case = low_rank_case(rng, (1, d), dtype)
    a, scales = (case.buffers[n][0].astype(np.float64)[..., :d] for n in ("factors", "scales"))
    spread = case.buffers["spreads"][0].astype(np.float64)
    before = (case.means[0], np.zeros(rank), np.diag(case.covariances[0]), a.T @ spread.T, spread @ spread.T)
    x = rng.normal(0.5, 1.5, (batch, d)).astype(dtype)
    kind = np.dtype(dtype)
    moments = {
        "variances": padded(before[2][None], kind, 1),
        "cross": padded(before[3].T[None], kind, 0),
        "inner": before[4][None].astype(dtype),
        "shifts": np.zeros((1, rank), dtype),
    }
    counts = np.array([2.0])
    native = coupled.low_rank_moments(case.buffers["means"], moments, coupled.Learned(counts, np.zeros(1, dtype)))
    step = NaturalStep(1.0, 1e9, BOUNDS)
    coupled.natural_steps(case.model, native, Samples(x, batch), filters(Grid(1, 1), 0.01), step, np.zeros(1))
    rate = batch / (2.0 + batch)
    component = (case.means[0], a.T, scales**-2.0)
    mean, shift, v, c, z = eqc.moved_factors(x.astype(float), np.ones(batch), rate, component, spread, before)
    tolerance = {"rtol": 5 * TOLERANCE[dtype], "atol": 5 * TOLERANCE[dtype]}
    np.testing.assert_allclose(case.buffers["means"][0, :d], mean, **tolerance)
    np.testing.assert_allclose(moments["shifts"][0], shift, **tolerance)
    np.testing.assert_allclose(moments["variances"][0, :d], v, **tolerance)
    np.testing.assert_allclose(moments["cross"][0, :, :d].T, c, **tolerance)
    np.testing.assert_allclose(moments["inner"][0], z, **tolerance)
    factors, noise, root = eqc.factors_of(v, c, z, 1e-8)
    np.testing.assert_allclose(case.buffers["factors"][0, :, :d].T, factors, **tolerance)
    np.testing.assert_allclose(case.buffers["scales"][0, :d], noise**-0.5, rtol=0.02 if dtype == np.float32 else 1e-8)
    np.testing.assert_allclose(case.buffers["spreads"][0], root, **tolerance)


@kinds
def test_steps_of_stochastic_em_follow_the_reference(kind: str) -> None:
    """Masses, weights and means are the same for every kind."""
    rng = np.random.default_rng(6)
    k, d = 4, 5
    case = CASES[kind](rng, (k, d), np.float64)
    x, masses = rng.normal(0.5, 1, (8, d)), np.full(k, 1 / k)
    f = eqc.scores(x, np.log(masses), case.means, case.covariances)
    case.logits[:] = np.log(masses)
    γ = np.exp(f - _lse(f)[:, None])
    if kind == "full":
        native, _ = full_moments(case, np.float64, masses)
    else:
        moments = {
            "variances": padded(np.diagonal(case.covariances, axis1=1, axis2=2), np.dtype(np.float64), 1),
            "cross": padded(np.zeros((k, 3, d)), np.dtype(np.float64), 0),
            "inner": np.zeros((k, 3, 3)),
            "shifts": np.zeros((k, 3)),
        }
        native = coupled.low_rank_moments(case.buffers["means"], moments, coupled.Learned(masses, np.zeros(k)))
    report = coupled.em_steps(case.model, native, Samples(x, 8), EMStep(0.3, 0.6, 0.01, 0, BOUNDS))
    np.testing.assert_allclose(report.losses, _lse(f).mean(), rtol=1e-12)
    expected = 0.7 / k + 0.3 * γ.mean(0)
    np.testing.assert_allclose(masses, expected, rtol=1e-12)
    np.testing.assert_allclose(case.logits, np.log(expected), rtol=1e-12)
    r = 0.3 * γ.mean(0) / expected
    centre = (γ.T @ x) / γ.sum(0)[:, None]
    np.testing.assert_allclose(
        case.buffers["means"][:, :d], case.means + r[:, None] * (centre - case.means), rtol=1e-10
    )


@kinds
def test_buffers_that_do_not_fit_are_refused(kind: str) -> None:
    case = CASES[kind](np.random.default_rng(0), (3, 4), np.float64)
    with pytest.raises(ValueError, match="samples have shape"):
        coupled.score(case.model, np.zeros((2, 5)))
    with pytest.raises(ValueError, match="out of range"):
        coupled.refresh(case.model, range(0, 4))
