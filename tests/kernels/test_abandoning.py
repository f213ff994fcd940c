"""Early abandoning changes only the time."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgmm.core.grid import filters, ring
from streamgmm.native import NaturalStep, Samples, SGDStep, Steps, diagonal, padded
from tests.kernels import BOUNDS, Mixture, random_mixture


def learned(
    rule: str, p: Mixture, x: np.ndarray, scan_all: bool, batch_size: int = 1
) -> tuple[Steps, list[np.ndarray]]:
    """The report of one call, and everything that it has changed; ``p`` itself stays."""
    p, grid = p.copy(), filters(ring(len(p)), 0.01)
    samples = Samples(x, batch_size, gaps=bool(np.isnan(x).any()))
    if rule == "sgd":
        report = diagonal.sgd_steps(p.model, samples, grid, SGDStep(0.01, BOUNDS, scan_all))
        return report, [p.means, p.scales, p.logits, p.log_dets]
    variances, counts = padded(1 / p.scales**2, p.dtype, 1), np.full(len(p), 3.0)
    step = NaturalStep(growth=0.5, count_max=100.0, scale_bounds=BOUNDS, scan_all=scan_all, soft=rule == "soft")
    moments, evidence = p.moments(variances, counts), np.full(len(p), 2.0)
    if rule == "soft":  # as raw data are learned, with a prior
        prior = padded([[v] * p.n_features for v in (0.05, 1.0, 0.0, 1e-3)], p.dtype, 1)
        moments = moments._replace(evidence=evidence, prior=prior)
    report = diagonal.natural_steps(p.model, moments, samples, grid, step, np.zeros(len(p)))
    return report, [p.means, p.scales, p.log_dets, variances, counts, evidence, report.received]


def assert_same(rule: str, p: Mixture, x: np.ndarray) -> None:
    for batch_size in (1, 10, len(x)):
        fast, changed = learned(rule, p, x, False, batch_size)
        full, expected = learned(rule, p, x, True, batch_size)
        np.testing.assert_array_equal(fast.losses, full.losses)
        np.testing.assert_array_equal(fast.max_components, full.max_components)
        np.testing.assert_array_equal(fast.wins, full.wins)
        for found, wanted in zip(changed, expected, strict=True):
            np.testing.assert_array_equal(found, wanted)


@settings(max_examples=45)
@given(
    seed=st.integers(0, 2**32 - 1),
    components=st.integers(2, 70),
    features=st.integers(128, 900),
    spread=st.sampled_from([0.0, 1e-3, 0.1, 1.0, 1e4, 1e18]),
    dtype=st.sampled_from([np.float32, np.float64]),
    rule=st.sampled_from(["sgd", "natural", "soft"]),
)
def test_winners_and_losses_are_those_of_the_full_scan(
    seed: int, components: int, features: int, spread: float, dtype: type, rule: str
) -> None:
    rng = np.random.default_rng(seed)
    p = random_mixture(rng, components, features, dtype)
    near = p.means[rng.integers(components, size=100)]
    assert_same(rule, p, (near + spread * rng.normal(size=(100, features))).astype(dtype))


@pytest.mark.parametrize(("batch_size", "deviation"), [(1, 0.25), (100, 0.1)])
@pytest.mark.parametrize(("rule", "share"), [("sgd", 0.4), ("natural", 0.4), ("soft", 0.55)])
def test_most_terms_are_never_read(rule: str, share: float, batch_size: int, deviation: float) -> None:
    """Batches need components that are farther apart: they are compared once, not twice, before it comes to all."""
    rng = np.random.default_rng(0)
    p = Mixture(rng.random((64, 400), dtype=np.float32), np.full((64, 400), 4.4), np.zeros(64))
    x = p.means[rng.integers(64, size=500)] + rng.normal(0, deviation, (500, 400)).astype(np.float32)
    fast, full = (int(learned(rule, p, x, scan_all, batch_size)[0].terms_read[0]) for scan_all in (False, True))
    assert full == 500 * p.means_buffer.size
    assert fast < share * full


@pytest.mark.parametrize("batch_size", [1, 20])
def test_abandoning_stops_where_it_does_not_pay(batch_size: int) -> None:
    """Where components differ a little everywhere, abandoning reads more terms than the full scan, and stops."""
    rng = np.random.default_rng(0)
    means = 0.5 + 0.001 * rng.normal(size=(32, 400))
    p = Mixture(means.astype(np.float32), np.full(means.shape, 4.0), np.zeros(32))
    x = rng.random((500, 400)).astype(np.float32)
    fast, full = (int(learned("sgd", p, x, scan_all, batch_size)[0].terms_read[0]) for scan_all in (False, True))
    assert fast < 1.05 * full
    assert_same("sgd", p, x)


def test_every_width(width: str) -> None:
    rng = np.random.default_rng(0)
    p = random_mixture(rng, 33, 400, np.float32)
    x = p.means[rng.integers(33, size=200)] + rng.normal(0, 0.1, (200, 400)).astype(np.float32)
    for rule in ("sgd", "natural", "soft"):
        assert_same(rule, p, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("apart", [0.0, 0.03, 0.1, 0.3, 3.0])
@pytest.mark.parametrize("gaps", [False, True])
def test_shares_are_those_of_the_full_scan(width: str, dtype: type, apart: float, gaps: bool) -> None:
    """[E25] From components that are all alike, over some that overlap, to some that do not."""
    rng = np.random.default_rng(3)
    p = Mixture((apart * rng.normal(size=(20, 300))).astype(dtype), np.ones((20, 300)), rng.normal(0, 0.5, 20))
    x = (p.means[rng.integers(20, size=150)] + rng.normal(size=(150, 300))).astype(dtype)
    if gaps:
        x[::3, 5:9] = np.nan
    assert_same("soft", p, x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_few_features_tell_which_components_share(width: str, dtype: type) -> None:
    """[E25] Pairs of components that overlap, far from the other pairs: abandoning goes on, and shares are exact."""
    rng = np.random.default_rng(4)
    means = np.repeat(rng.normal(0, 4, (10, 300)), 2, axis=0) + 0.03 * rng.normal(size=(20, 300))
    p = Mixture(means.astype(dtype), np.ones((20, 300)), np.zeros(20))
    x = (p.means[rng.integers(20, size=150)] + rng.normal(size=(150, 300))).astype(dtype)
    assert_same("soft", p, x)
    fast, full = learned("soft", p, x, False)[0], learned("soft", p, x, True)[0]
    assert fast.terms_read[0] < 0.8 * full.terms_read[0]
    assert (fast.received % 1 > 0).sum() >= 10


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_lowest_of_equals_wins(dtype: type) -> None:
    rng = np.random.default_rng(1)
    means = np.repeat(rng.random((1, 300)), 9, axis=0).astype(dtype)
    p = Mixture(means, np.ones_like(means), np.zeros(9))
    x = rng.random((80, 300)).astype(dtype)
    assert_same("natural", p, x)
    report, _ = learned("natural", p, x, scan_all=False)
    assert report.wins[0] > 0


def test_extreme_samples() -> None:
    rng = np.random.default_rng(2)
    p = random_mixture(rng, 16, 256, np.float32)
    x = rng.random((100, 256)).astype(np.float32)
    x[10], x[40, 3] = 1e30, -1e36
    for rule in ("sgd", "soft"):
        assert_same(rule, p, x)
