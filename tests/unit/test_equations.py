"""The reference against scipy and against finite differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.stats import multivariate_normal

from streamgmm.core import batch_em, relocation
from streamgmm.core import reference as eq
from streamgmm.core.batch_em import Fit, Sheet, responsibilities
from streamgmm.core.covariance import Bounds, Prior, covariance_kind
from streamgmm.core.parameters import Parameters
from streamgmm.core.refinement import refine
from streamgmm.native import padded


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
    x = np.array([[1.0, np.nan], [-30.0, np.nan], [2.0, 11.0]])
    frame = (np.zeros(2), np.ones(2), np.array([1, 2]), np.array([2.0, np.nan]), np.array([10.0, 10.0]))
    found = eq.frame_sums(x, *frame)
    np.testing.assert_array_equal(found, [[3, 1], [2, 1], [1, 1], [-30, 11], [3, 10], [5, 100], [17, 10000]])


def test_a_prior_counts_like_one_sample() -> None:
    v, prior = np.array([[4.0, 0.0], [4.0, 0.0]]), np.array([1.0, 0.5])
    found = eq.with_prior(v, np.array([0.0, 3.0]), prior, np.ones(2), np.zeros(2), np.full(2, 0.2))
    np.testing.assert_allclose(found, [[1.0, 0.5], [3.25, 0.2]])


def test_shares_are_responsibilities(case: tuple[np.ndarray, ...]) -> None:
    x, logits, means, scales = case
    f = eq.scores(x, logits, means, scales)
    expected = np.exp(f - eq.log_likelihood(x, logits, means, scales)[:, None])
    np.testing.assert_allclose(eq.shared_out(f, 1e-300), expected, rtol=1e-12)
    np.testing.assert_allclose(eq.shared_out(f, 1e-300, np.arange(5.0)).sum(1), np.arange(5.0))
    far = np.array([[0.0, -10.0, -20.0]])
    assert (eq.shared_out(far, np.exp(-15.0))[0] > 0).tolist() == [True, True, False]


Fitted = tuple[Sheet, Fit, np.ndarray]


def fitted(lonely: bool = False, counted: bool = False) -> Fitted:
    """Samples, a fit whose moments are those of its responsibilities, and these."""
    rng = np.random.default_rng(11)
    z = rng.normal(0, 1, (12, 3))
    if lonely:  # one component has learned a single sample
        z[0] = 9.0
    counts = rng.integers(1, 4, 12).astype(float) if counted else np.ones(12)
    rows = np.array([[0.05, 0.5, 3.0], [1.0, 4.0, 0.5], [0.0, 0.1, 0.0], [0.0, 0.0, 0.0]])
    kind = covariance_kind("diag")
    p = Parameters(kind, kind.initial(rng.normal(0, 0.5, (4, 3)), None, 2.0), np.zeros(4))
    if lonely:
        p.means[3] = 9.0
    p.refresh()
    r = responsibilities(kind.component_scores(p, z))
    mass = counts @ r
    moments = kind.start_moments(p)
    p.means[:] = (counts[:, None] * r).T @ z / mass[:, None]
    moments["variances"][:] = np.maximum((counts[:, None] * r).T @ z**2 / mass[:, None] - p.means**2, 0)
    fit = Fit(p, moments, Prior(padded(rows, np.dtype(float), 1), mass), Bounds(1e-5, 1e5))
    p.logits[:] = np.log(mass / mass.sum())
    return Sheet(z, counts), fit, r


def equation_prior(fit: Fit) -> eq.Prior:
    return fit.masses, *fit.prior.rows[:, :3]  # type: ignore[return-value]


@pytest.mark.parametrize("counted", [False, True])
def test_leaving_one_out_is_learning_the_others(counted: bool) -> None:
    """[E26] The moments without a sample are those of all samples, one of which counts one less."""
    sheet, fit, r = fitted(counted=counted)
    z, counts, total = sheet.samples, sheet.counts, 0.0
    for i in range(len(z)):
        others = counts - (np.arange(len(z)) == i)
        mass = others @ r
        means = (others[:, None] * r).T @ z / mass[:, None]
        v = (others[:, None] * r).T @ z**2 / mass[:, None] - means**2
        s = 1 / np.sqrt(eq.with_prior(v, mass, *fit.prior.rows[:, :3]))
        f = eq.scores(z[i : i + 1], np.zeros(4), means, s) + np.log(4) + np.log(mass / counts.sum())
        total += counts[i] * np.log(np.exp(f).sum())
    found = eq.leave_one_out(z, r, fit.parameters.means, fit.variances, equation_prior(fit), counts)
    assert found == pytest.approx(total, rel=1e-10)


@pytest.mark.parametrize("lonely", [False, True])
@pytest.mark.parametrize("counted", [False, True])
@pytest.mark.parametrize("block", [1, 1 << 22])
def test_the_prior_follows_finite_differences(
    lonely: bool, counted: bool, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[E26] Leave-one-out likelihood of refinement and its gradient, in one block of pairs or in many."""
    monkeypatch.setattr(batch_em, "PAIR_NUMBERS", block)
    monkeypatch.setattr(batch_em, "NEAR", 1e9)
    sheet, fit, r = fitted(lonely, counted)
    # refinement takes the responsibilities of the present parameters: make them those of the moments
    monkeypatch.setattr(batch_em, "responsibilities", lambda scores: r)
    N, ν, *others = equation_prior(fit)

    def objective(log_expected: np.ndarray) -> float:
        prior = (N, np.exp(log_expected), *others)
        return eq.leave_one_out(sheet.samples, r, fit.parameters.means, fit.variances, prior, sheet.counts)

    h, log_expected = 1e-5, np.log(ν)
    numeric = [(objective(log_expected + h * e) - objective(log_expected - h * e)) / (2 * h) for e in np.eye(3)]
    scores, gradient = batch_em.leave_one_out(sheet, fit)
    assert sheet.counts @ scores == pytest.approx(objective(log_expected), rel=1e-10)
    np.testing.assert_allclose(gradient, numeric, rtol=1e-5, atol=1e-5)


def test_batch_em_is_the_em_of_the_textbook() -> None:
    """One iteration: responsibilities, then moments with the prior; gaps are filled by the component itself."""
    sheet, fit, _ = fitted(counted=True)
    fit.refresh()
    p, z, a = fit.parameters, sheet.samples, sheet.counts
    model = (p.logits.copy(), np.array(p.means), np.array(p["scales"]))
    γ = eq.shared_out(eq.scores(z, *model), float(np.finfo(float).eps), a)
    _, *prior = equation_prior(fit)
    μ, v = eq.moved_moments(z, γ, np.ones(4), model[1], fit.variances)
    before = batch_em.iterate(sheet, fit)
    assert before == pytest.approx(np.average(eq.log_likelihood(z, *model), weights=a))
    np.testing.assert_allclose(p.means, μ, rtol=1e-10)
    np.testing.assert_allclose(fit.masses, γ.sum(0), rtol=1e-10)
    np.testing.assert_allclose(p["scales"], 1 / np.sqrt(eq.with_prior(v, γ.sum(0), *prior)), rtol=1e-9)
    np.testing.assert_allclose(p.weights, γ.sum(0) / a.sum(), rtol=1e-10)


def test_a_component_with_two_clusters_is_split_and_two_in_one_are_merged() -> None:
    """[E27] EM alone stays where it is; with moves, every cluster gets a component of its own."""
    rng = np.random.default_rng(3)
    z = rng.normal(np.array([[-4.0, 0], [4, 3], [4, -3]]).repeat(200, 0), 0.3)
    kind = covariance_kind("diag")
    p = Parameters(kind, kind.initial(np.array([[-4.1, 0], [-3.9, 0], [4, 0]]), None, 1.0), np.zeros(3))
    prior = Prior(kind.start_prior(2, np.dtype(float), 0.3), np.full(3, 200.0))
    fit, sheet = Fit(p, kind.start_moments(p), prior, Bounds(1e-5, 1e5)), Sheet(z, np.ones(len(z)))
    stuck = fit.copy()
    batch_em.converge(sheet, stuck)
    assert (np.abs(stuck.parameters.means[:, 0] + 4) < 0.5).sum() == 2
    costs = relocation.merge_costs(stuck)
    found = stuck.parameters
    v = stuck.blend(stuck.variances, stuck.masses[:, None])
    pair = eq.merge_cost(stuck.masses[[0, 2]], np.asarray(found.means)[[0, 2]], v[[0, 2]])
    assert costs[0, 2] == pytest.approx(pair, rel=0.02)  # the prior is blended in before or after
    assert costs.argmin() in (1, 3)  # the two that share a cluster
    best = refine(sheet, fit)
    found = best.parameters.means[np.lexsort(best.parameters.means.round(1).T[::-1])]
    np.testing.assert_allclose(found, [[-4, 0], [4, -3], [4, 3]], atol=0.1)


def test_variances_are_pooled_while_counts_are_small() -> None:
    """[E28] A component with many samples keeps its own variance, one with few takes that of all."""
    rng = np.random.default_rng(4)
    kind = covariance_kind("diag")
    v, counts = rng.uniform(0.1, 3, (4, 3)), np.array([0.1, 5, 20, 1e6])
    p = Parameters(kind, kind.initial(np.zeros((4, 3)), 1 / v, 1.0), np.log([0.1, 0.2, 0.3, 0.4]))
    expected = eq.pooled_variances(v, p.weights, counts, 0.2)
    weight = 20**2 * 0.8
    kind.pool_variances(p, weight / (counts**2 + weight))
    np.testing.assert_allclose(kind.covariances(p), expected, rtol=1e-12)
    np.testing.assert_allclose(expected[3], v[3], rtol=1e-6)
    np.testing.assert_allclose(expected[0], p.weights @ v, rtol=1e-3)
