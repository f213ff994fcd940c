"""[E24] [E25] Steps with a prior, and samples that are shared out: the kernel agrees with the reference."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm.core import reference as eq
from streamgmm.core.grid import filters, smoothing_matrix, torus
from streamgmm.native import EMStep, NaturalStep, Samples, Steps, diagonal, padded
from tests.kernels import BOUNDS, Mixture, plain, random_mixture
from tests.kernels.test_against_reference import assert_close
from tests.kernels.test_frame import frame_of, rows_in
from tests.kernels.test_gaps_and_shares import with_gaps

SIZES = [(5, 7), (5, 129)]
GROWTH = (0.3, 40.0)


def overlapping(rng: np.random.Generator, components: int, features: int, dtype: type) -> Mixture:
    """Components around zero whose samples several of them could have drawn."""
    means = rng.normal(0, 0.7 / np.sqrt(features), (components, features)).astype(dtype)
    return Mixture(means, np.exp(rng.normal(0, 0.1, means.shape)), rng.normal(0, 0.5, components))


class Learner:
    """A mixture with variances, counts, evidence and a prior, whose scales are those of [E24] from the start."""

    def __init__(self, rng: np.random.Generator, p: Mixture) -> None:
        size, features = p.means.shape
        self.p, self.counts, self.evidence = p, rng.uniform(1, 20, size), rng.uniform(0, 9, size)
        self.evidence[0] = 5000.0
        self.variances = p.variances()
        ranges = ((0.1, 2), (0.5, 30), (0, 0.3), (0, 1))
        rows = [rng.uniform(*limits, features) for limits in ranges]
        rows[1][-1] = 1e30  # the weight of a feature that must not be learned
        self.prior = padded(np.array(rows), p.dtype, 1)
        diagonal.rescale(p.model, self.moments(), BOUNDS, range(size))

    def moments(self) -> diagonal.Moments:
        return diagonal.Moments(self.p.means_buffer, self.variances, self.counts, self.evidence, self.prior)

    def plain(self) -> dict[str, Any]:
        features = self.p.n_features
        ν, m, added, least = self.prior[:, :features].astype(np.float64)
        v = self.variances[:, :features].astype(np.float64)
        return {
            "model": plain(self.p),
            "v": v,
            "n": self.counts.copy(),
            "prior": (self.evidence.copy(), ν, m, added, least),
        }

    def steps(self, samples: Samples, sigma: float, **settings: Any) -> Steps:
        step = NaturalStep(*GROWTH, BOUNDS, **settings)
        size = len(self.p)
        g = filters(torus(size), sigma)
        return diagonal.natural_steps(self.p.model, self.moments(), samples, g, step, np.zeros(size))

    def everything(self) -> list[np.ndarray]:
        p = self.p
        return [p.means, p.scales, p.log_dets, self.variances, self.counts, self.evidence]


def test_scales_contain_the_prior(width: str) -> None:
    for dtype, (size, features) in ((t, s) for t in (np.float32, np.float64) for s in SIZES):
        rng = np.random.default_rng(features)
        own = Learner(rng, random_mixture(rng, size, features, dtype))
        before, (N, *prior) = own.plain()["v"], own.plain()["prior"]
        expected = eq.scales_of(eq.with_prior(before, N, *prior), *BOUNDS)
        assert (expected == 1 / np.sqrt(prior[-1])).any()
        assert_close(own.p.scales, expected, dtype)
        assert_close(own.p.log_dets, np.log(expected).sum(1), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize(("components", "features"), SIZES)
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("sigma", "soft"), [(0.8, False), (0.8, True), (0.01, False), (0.01, True)])
def test_natural_steps(
    width: str,
    dtype: type,
    batch_size: int,
    components: int,
    features: int,
    gaps: bool,
    weighted: bool,
    sigma: float,
    soft: bool,
) -> None:
    rng = np.random.default_rng([features, batch_size, gaps, weighted])
    own = Learner(rng, overlapping(rng, components, features, dtype))
    frame = frame_of(rng, features, dtype)
    x = rows_in(frame, rng.normal(0, 1, (4 * batch_size, features)))
    x = with_gaps(x) if gaps else x
    shares = rng.uniform(0.1, 1, len(x)) if weighted else None
    z = eq.in_frame(x.astype(np.float64), *frame[:2].astype(np.float64), frame[2] != 0)
    a = np.ones(len(x)) if shares is None else shares
    now, losses, received, several = own.plain(), [], np.zeros(components), 0
    g = smoothing_matrix(torus(components), sigma)
    for t in range(4):
        part = slice(t * batch_size, (t + 1) * batch_size)
        f = eq.known_scores(z[part], *now["model"])
        loss, k = eq.smoothed(f, g)
        if soft and sigma == 0.01:
            w = eq.shared_out(f, float(np.finfo(dtype).eps), a[part])
            several += int(((w > 0.01).sum(1) > 1).sum())
        else:
            w = a[part, None] * g[k]
        means, scales, v, n, evidence = eq.weighted_natural_step(z[part], w, **now, growth=GROWTH, bounds=BOUNDS)
        model = now["model"][0], means, scales
        now = {"model": model, "v": v, "n": n, "prior": (evidence, *now["prior"][1:])}
        losses.append(loss.mean())
        received += w.sum(0)
    report = own.steps(Samples(x, batch_size, gaps=gaps, shares=shares, frame=frame), sigma, soft=soft)
    assert several > 0 or not soft or sigma > 0.01
    assert_close(own.p.means, now["model"][1], dtype)
    assert_close(own.p.scales, now["model"][2], dtype)
    assert_close(own.variances[:, :features], now["v"], dtype)
    assert_close(own.counts, now["n"], dtype)
    assert_close(own.evidence, now["prior"][0], dtype)
    assert_close(report.losses, np.array(losses), dtype)
    assert_close(report.received, received, dtype)
    assert_close(own.p.log_dets, np.log(now["model"][2]).sum(1), dtype)
    assert report.wins.sum() == len(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_weights_are_responsibilities(width: str, dtype: type, batch_size: int) -> None:
    """One step per model: what each component receives, with exact zeros out of reach."""
    rng = np.random.default_rng(3)
    ε = float(np.finfo(dtype).eps)
    p = overlapping(rng, 6, 33, dtype)
    p.means[4:] += 5  # out of reach of most samples
    before = plain(p)
    for _ in range(10):
        own = Learner(rng, p.copy())
        own.p.scales[:] = p.scales
        diagonal.refresh_log_dets(own.p.model)
        x = rng.normal(0, 1, (batch_size, 33)).astype(dtype)
        w = eq.shared_out(eq.scores(x.astype(np.float64), *before), ε)
        scored = eq.shared_out(diagonal.component_scores(p.model, x), ε)
        evidence = own.evidence.copy()
        report = own.steps(Samples(x, batch_size), 0.01, soft=True)
        assert_close(report.received, w.sum(0), dtype)
        assert_close(report.received, scored.sum(0), dtype)
        np.testing.assert_array_equal(report.received == 0, (w == 0).all(0))
        assert (report.received[4:] == 0).all()
        np.testing.assert_allclose(own.evidence, evidence + report.received, rtol=1e-14)
        assert report.received.sum() == pytest.approx(batch_size, rel=1e-12)
        np.testing.assert_array_equal(report.losses, report.max_components)


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("room", [0.0, 1.0])
def test_extreme_samples_have_less_to_share_out(width: str, batch_size: int, room: float) -> None:
    rng = np.random.default_rng(5)
    here = Learner(rng, overlapping(rng, 4, 12, np.float64))
    x = rng.normal(0, 1, (200, 12))
    x[[0, 7, 100, 101]] = 1e6
    typical, expected = np.array([0.0, 0.0, 0.0, room, 0.0]), (0.0, 0.0, 0.0, room, 0.0)
    for start in range(0, 200, batch_size):
        there = Learner(rng, here.p.copy())
        there.prior[:], there.variances[:] = here.prior, here.variances
        there.counts[:], there.evidence[:] = here.counts, here.evidence
        there.p.scales[:] = here.p.scales
        diagonal.refresh_log_dets(there.p.model)
        batch = x[start : start + batch_size]
        shares = np.empty(len(batch))
        for i, loss in enumerate(eq.max_component(batch, *plain(here.p))):
            shares[i], _, expected = eq.influence(loss, expected, 12)
        here.steps(Samples(batch, batch_size, typical_loss=typical), 0.01, soft=True)
        there.steps(Samples(batch, batch_size, shares=shares), 0.01, soft=True)
        for found, wanted in zip(here.everything(), there.everything(), strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-12)
    assert abs(here.p.means).max() < 10
    assert typical[4] == 4
    np.testing.assert_allclose(typical, expected, rtol=1e-9)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("sigma", [0.8, 0.01])
def test_held_scales_stay_while_variances_move(width: str, dtype: type, batch_size: int, sigma: float) -> None:
    rng = np.random.default_rng(7)
    p = overlapping(rng, 6, 20, dtype)
    own, other = Learner(rng, p), p.copy()
    x = rng.normal(0, 1, (16, 20)).astype(dtype)
    now, counts, g = own.plain(), own.counts.copy(), smoothing_matrix(torus(6), sigma)
    scales, log_dets = p.scales.copy(), p.log_dets.copy()
    for batch in x.astype(np.float64).reshape(-1, batch_size, 20):
        ξ, μ, s = now["model"]
        w = g[eq.smoothed(eq.scores(batch, ξ, μ, s), g)[1]]
        μ, _, v, n, N = eq.weighted_natural_step(batch, w, **now, growth=GROWTH, bounds=BOUNDS)
        now = {"model": (ξ, μ, s), "v": v, "n": n, "prior": (N, *now["prior"][1:])}
    own.steps(Samples(x, batch_size), sigma, hold_scales=True)
    np.testing.assert_array_equal(p.scales, scales)
    np.testing.assert_array_equal(p.log_dets, log_dets)
    assert_close(p.means, now["model"][1], dtype)
    assert_close(own.variances[:, :20], now["v"], dtype)
    assert_close(own.evidence, now["prior"][0], dtype)
    variances = other.variances()
    before = variances.copy()
    step = NaturalStep(*GROWTH, BOUNDS, hold_scales=True)
    moments, samples = other.moments(variances, counts), Samples(x, batch_size)
    diagonal.natural_steps(other.model, moments, samples, filters(torus(6), sigma), step, np.zeros(6))
    np.testing.assert_array_equal(variances, before)
    assert_close(other.means, now["model"][1], dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
def test_em_steps_with_a_prior(width: str, dtype: type, batch_size: int) -> None:
    rng = np.random.default_rng(8)
    own = Learner(rng, overlapping(rng, 5, 129, dtype))
    own.counts[:] = S = eq.weights(own.p.logits)
    x = rng.normal(0, 1, (4 * batch_size, 129)).astype(dtype)
    now = own.plain()
    (ξ, μ, s), v, (N, *prior) = now["model"], now["v"], now["prior"]
    for t, batch in enumerate(x.astype(np.float64).reshape(4, batch_size, 129)):
        N = N + np.exp(eq.scores(batch, ξ, μ, s) - eq.log_likelihood(batch, ξ, μ, s)[:, None]).sum(0)
        ξ, μ, _, v, S, _ = eq.em_step(batch, (ξ, μ, s), v, S, eq.em_rate(3 + t, 0.3, 0.2, 0.01), BOUNDS)
        s = eq.scales_of(eq.with_prior(v, N, *prior), *BOUNDS)
    step = EMStep(rate=0.3, exponent=0.7, rate_min=0.01, first_step=3, scale_bounds=BOUNDS)
    diagonal.em_steps(own.p.model, own.moments(), Samples(x, batch_size), step)
    assert_close(own.evidence, N, dtype)
    assert_close(own.p.means, μ, dtype)
    assert_close(own.variances[:, :129], v, dtype)
    assert_close(own.p.scales, s, dtype)


def without_prior(p: Mixture, x: np.ndarray, batch_size: int, sigma: float, soft: bool = False) -> list[np.ndarray]:
    p, counts = p.copy(), np.full(len(p), 5.0)
    variances, received = p.variances(), np.zeros(len(p))
    step, g = NaturalStep(*GROWTH, BOUNDS, soft=soft), filters(torus(len(p)), sigma)
    report = diagonal.natural_steps(p.model, p.moments(variances, counts), Samples(x, batch_size), g, step, received)
    return [p.means, p.scales, p.log_dets, variances, counts, report.losses, report.max_components, received]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("features", [7, 129])
def test_where_there_is_nothing_to_share_nothing_changes(
    width: str, dtype: type, batch_size: int, features: int
) -> None:
    """During annealing, and between clusters far apart, ``soft`` changes no bit."""
    rng = np.random.default_rng(9)
    p = overlapping(rng, 6, features, dtype)
    x = rng.normal(0, 1, (96, features)).astype(dtype)
    apart = Mixture(p.means + 100 * np.arange(6, dtype=dtype)[:, None], p.scales, p.logits)
    for model, rows, sigma in ((p, x, 0.8), (apart, x + 100 * rng.integers(6, size=(96, 1)).astype(dtype), 0.01)):
        here, there = (without_prior(model, rows, batch_size, sigma, soft) for soft in (False, True))
        for found, expected in zip(here, there, strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("sigma", [0.8, 0.01])
def test_a_prior_fades(width: str, dtype: type, batch_size: int, sigma: float) -> None:
    """With much evidence the weight of the prior changes nothing."""
    rng = np.random.default_rng(10)
    p = overlapping(rng, 6, 129, dtype)
    x = rng.normal(0, 1, (96, 129)).astype(dtype)
    found = []
    for weight in (1.0, 50.0):
        own = Learner(np.random.default_rng(11), p.copy())
        own.evidence[:], own.prior[1] = 1e20, weight
        diagonal.rescale(own.p.model, own.moments(), BOUNDS, range(6))
        report = own.steps(Samples(x, batch_size), sigma)
        found.append([*own.everything()[:-1], report.losses, report.max_components, report.received])
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6 if dtype is np.float32 else 1e-13)


def test_priors_that_do_not_fit_are_refused() -> None:
    p = random_mixture(np.random.default_rng(0), 4, 3)
    v, evidence, prior = p.variances(), np.ones(4), padded(np.ones((4, 3)), np.dtype(np.float64), 1)

    def take(evidence: np.ndarray | None, prior: np.ndarray | None) -> None:
        moments = diagonal.Moments(p.means_buffer, v, np.ones(4), evidence, prior)
        diagonal.rescale(p.model, moments, BOUNDS, range(4))

    take(None, None)
    take(evidence, prior)
    for lone in ((evidence, None), (None, prior)):
        with pytest.raises(ValueError, match="a prior needs evidence, and evidence a prior"):
            take(*lone)
    for size in (3, 5):
        with pytest.raises(ValueError, match="evidence must have one entry per component"):
            take(np.ones(size), prior)
    for wrong in (np.ones((4, 3)), np.ones((3, prior.shape[1])), np.ones((5, prior.shape[1]))):
        with pytest.raises(ValueError, match="a prior must have four rows like those of the means"):
            take(evidence, wrong)
    with pytest.raises(TypeError):  # never a silent copy, whose growth would be lost
        take(evidence.astype(np.float32), prior)
    with pytest.raises(TypeError):
        take(evidence, prior.astype(np.float32))


@pytest.mark.parametrize("components", [1, 2, 7, 16, 37])
def test_shares_are_exponentials_to_a_few_last_places(width: str, components: int) -> None:
    logits = -np.linspace(0, 30, components)
    own = Learner(np.random.default_rng(0), Mixture(np.zeros((components, 1)), np.ones((components, 1)), logits))
    own.p.scales[:] = 1.0
    own.p.log_dets[:] = 0.0
    received = own.steps(Samples(np.zeros((1, 1))), 0.01, soft=True).received
    expected = np.exp(logits) / np.exp(logits).sum()
    allowed = (4 - logits) * np.finfo(float).eps  # scores themselves are rounded
    assert (np.abs(received / expected - 1) <= allowed).all()
