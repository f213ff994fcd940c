"""What each rule promises by itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from streamgmm import SGD, Mixture, Natural, StochasticEM, StreamingGaussianMixture
from streamgmm.core import reference as eq
from streamgmm.core.annealing import Schedule
from streamgmm.core.covariance import Bounds, Diagonal
from streamgmm.core.parameters import Parameters
from streamgmm.core.rules import Context, Rule, rule_from_settings
from streamgmm.core.rules.natural import NaturalState
from streamgmm.core.rules.restarts import distortion, need, unusual_spread
from streamgmm.core.tensors import Tensors
from tests.conftest import scales

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def test_settings_survive_a_file() -> None:
    for rule in (SGD(0.05), Natural(half_life=500.0), StochasticEM(step_init=0.1, start_from="kmeans")):
        assert rule_from_settings(rule.settings()) == rule
    with pytest.raises(ValueError, match="rule 'adam' is unknown; known rules are sgd, natural, sem"):
        rule_from_settings({"name": "adam"})


def test_one_full_em_step_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(m, 0.1, (300, 5)) for m in (0.2, 0.5, 0.9)])
    start = {
        "weights_init": np.array([0.2, 0.3, 0.5]),
        "means_init": rng.random((3, 5)),
        "precisions_init": rng.uniform(5, 50, (3, 5)),
    }
    with pytest.warns(ConvergenceWarning):
        theirs = GaussianMixture(3, covariance_type="diag", reg_covar=0, max_iter=1, **start).fit(x)
    rule = StochasticEM(step_init=1.0, step_min=1.0, accumulate=0)
    ours = StreamingGaussianMixture(
        3, rule=rule, batch_size=len(x), precision_max=1e30, scale="none", **start
    ).partial_fit(x)
    np.testing.assert_allclose(ours.weights_, theirs.weights_, rtol=1e-6)
    np.testing.assert_allclose(ours.means_, theirs.means_, rtol=1e-6)
    np.testing.assert_allclose(ours.covariances_, theirs.covariances_, rtol=1e-6)


def test_accumulation_ends_at_a_check_or_with_fit() -> None:
    x = np.random.default_rng(0).random((500, 4))
    plain: dict[str, Any] = {"scale": "none", "n_epochs": 1, "random_state": 0}
    model = StreamingGaussianMixture(4, rule="sem", period=200, **plain).partial_fit(x[:199])
    start = model.means_.copy()
    assert np.abs(start).max() <= 0.1
    assert model.partial_fit(x[199:200]).means_.mean() > 0.3
    short = StreamingGaussianMixture(4, rule="sem", period=1000, **plain).fit(x)
    assert short.means_.mean() > 0.3
    longer = StreamingGaussianMixture(4, rule=StochasticEM(accumulate=300), period=200, **plain)
    assert np.abs(longer.partial_fit(x[:399]).means_).max() <= 0.1
    assert longer.partial_fit(x[399:]).means_.mean() > 0.3


@pytest.mark.parametrize(("rows", "ends"), [(399, False), (400, True)])
def test_accumulation_ends_at_a_check_of_standardised_samples(rows: int, ends: bool) -> None:
    """Until then all components answer alike, but for their start near the middle of the data."""
    x = 100 * np.random.default_rng(0).random((500, 4)) + 1000
    rule = StochasticEM(accumulate=300)
    model = StreamingGaussianMixture(4, rule=rule, period=200, random_state=0).partial_fit(x[:rows])
    assert bool(model.trainer_.tensors()["rule.accumulating"]) != ends
    np.testing.assert_allclose(model.weights_ @ model.means_, x.mean(0), atol=5)
    gaussian = -0.5 * (np.log(2 * np.pi * x.var(0)) + 1).sum()
    assert model.score(x) > gaussian - 0.2


@scales
@pytest.mark.parametrize("count", [100, 2000])
def test_kmeans_start(count: int, scale: str) -> None:
    rng = np.random.default_rng(1)
    centres = rng.random((5, 6))
    x = rng.normal(centres[rng.integers(5, size=count)], 0.01)
    rule = StochasticEM(start_from="kmeans")
    model = StreamingGaussianMixture(5, rule=rule, precision_max=1e5, scale=scale, random_state=0).fit(x)
    nearest = np.sqrt(((model.means_[:, None] - centres) ** 2).sum(2)).min(0)
    assert nearest.max() < 0.01
    with pytest.raises(ValueError, match="k-means start of 64 components needs at least as many samples; only 50"):
        StreamingGaussianMixture(rule=rule, scale=scale).fit(x[:50])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"step_init": 0.0}, "step_init is 0.0"),
        ({"step_decay": 0.7}, "step_decay 0.7"),
        ({"start_from": "nothing"}, "start_from is 'nothing'"),
        ({"start_from": "kmeans", "accumulate": 0}, "needs samples to cluster"),
    ],
)
def test_wrong_settings(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        StochasticEM(**settings)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Natural(growth=2.0),
        lambda: Natural(maturity=0.0),
        lambda: Natural(half_life=-5.0),
        lambda: Natural(restart_below=1.0),
        lambda: SGD(learning_rate_init=float("nan")),
        lambda: SGD(shrink=2.0),
    ],
)
def test_settings_out_of_range(make: Callable[[], Rule]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_half_life_forgets() -> None:
    """A mean that has learned zeros for long needs one half-life to come half of the way to ones."""
    zeros, ones = np.zeros((20_000, 3)), np.ones((20_000, 3))
    plain: dict[str, Any] = {"precision_max": 1, "scale": "none", "random_state": 0}
    for rule in ("natural", "sem"):
        model = StreamingGaussianMixture(1, rule=rule, half_life=1000, **plain)
        model.partial_fit(zeros).partial_fit(ones[:1000])
        assert model.means_[0] == pytest.approx(0.5, abs=0.02)
    endless = StreamingGaussianMixture(1, rule="natural", **plain)
    assert endless.partial_fit(zeros).partial_fit(ones[:1000]).means_.max() < 0.25
    with pytest.raises(ValueError, match="rule='sgd' does not support half_life"):
        StreamingGaussianMixture(1, rule="sgd", half_life=1000).fit(zeros)


@pytest.mark.parametrize("rule", ["natural", "sem"])
def test_half_life_forgets_in_any_units(rule: str) -> None:
    """The same for features that vary: the frame moves on the way, which changes nothing."""
    rng = np.random.default_rng(0)
    low, high = (rng.normal(m, 1.0, (n, 3)) for m, n in ((0.0, 20_000), (2.0, 1000)))
    model = StreamingGaussianMixture(1, rule=rule, half_life=1000, random_state=0)
    model.partial_fit(1e4 * low).partial_fit(1e4 * high)
    assert model.means_[0] == pytest.approx(1e4, rel=0.1)


@scales
def test_idle_components_are_restarted(scale: str) -> None:
    """Six far components that no sample reaches end up where the samples are, and weights stay weights."""
    rng = np.random.default_rng(0)
    x = rng.normal(rng.integers(2, size=(20_000, 1)) * 0.5, 0.05, (20_000, 8))
    means = np.vstack([np.full((2, 8), 0.25), np.full((6, 8), 50.0)]) + rng.normal(0, 0.01, (8, 8))
    model = StreamingGaussianMixture(8, rule="natural", annealing=False, means_init=means, scale=scale, random_state=0)
    model.partial_fit(x)
    assert np.abs(model.means_).max() < 1
    assert model.weights_.min() >= 0.1 / 8
    assert model.predict(x[:2000]).max() > 1
    assert model.trainer_.tensors()["rule.weights"].sum() == pytest.approx(1)
    theirs = GaussianMixture(2, covariance_type="diag", random_state=0).fit(x)
    cap = 20 if scale == "none" else np.inf
    capped = Mixture.from_parameters(theirs.weights_, theirs.means_, np.minimum(theirs.precisions_, cap))
    assert model.score(x) > capped.log_prob(x).mean() - 0.2


@pytest.mark.parametrize(("scale", "precision"), [("none", 20.0), ("auto", 0.02**-2)])
def test_spare_components_do_not_disturb(scale: str, precision: float) -> None:
    """Twice as many components as clusters: restarts must come to rest at the true density."""
    rng = np.random.default_rng(0)
    centres = rng.random((8, 8))
    x = rng.normal(centres[rng.integers(8, size=20_000)], 0.02)
    truth = Mixture.from_parameters(np.full(8, 1 / 8), centres, np.full((8, 8), precision)).log_prob(x).mean()
    for seed in range(3):
        model = StreamingGaussianMixture(16, rule="natural", n_epochs=1, scale=scale, random_state=seed).fit(x)
        assert model.score(x) > truth - 0.1


@scales
def test_natural_without_annealing_and_with_one_component(scale: str) -> None:
    x = np.random.default_rng(0).normal(0.5, 0.3, (5000, 3))
    model = StreamingGaussianMixture(1, rule="natural", n_epochs=1, scale=scale, random_state=0).fit(x)
    np.testing.assert_allclose(model.means_[0], x.mean(0), atol=0.02)
    np.testing.assert_allclose(model.covariances_[0], x.var(0), atol=0.02)
    still = StreamingGaussianMixture(1, rule="natural", annealing=False, n_epochs=1, scale=scale, random_state=0).fit(x)
    assert still.sigma_ == 0.01
    np.testing.assert_allclose(still.covariances_[0], x.var(0), atol=0.02)


def test_weights_and_loads_are_the_references() -> None:
    rng = np.random.default_rng(0)
    rule, bounds = Natural(), Bounds(1e-3, 20**0.5)
    p = Parameters(Diagonal(), {"means": rng.random((3, 2)), "scales": np.ones((3, 2))}, np.zeros(3))
    before = {"weights": np.array([0.1, 0.2, 0.7]), "since_restart": np.ones(3)}
    state = NaturalState.of(p, 3.0, **before, hold=False, narrow_at=10, next_restart=10**9)
    state.received[:] = [5, 0, 15]
    expected = eq.moved_weights(state.weights.copy(), state.received.copy(), 3 * rule.count_annealing + 40)
    rule.check(state, p, Context(50, 0.01, Schedule(1.0, period=10), bounds, rng))  # 40 samples after annealing
    np.testing.assert_allclose(state.weights, expected, rtol=1e-14)
    np.testing.assert_allclose(p.weights, expected, rtol=1e-12)
    assert (state.received == 0).all()
    np.testing.assert_array_equal(state.since_restart, [6, 1, 16])


def test_what_restarts_go_by_is_the_references() -> None:
    rng = np.random.default_rng(0)
    variances = rng.exponential(0.1, (4, 30))
    np.testing.assert_allclose(distortion(variances, 20.0), eq.distortion(variances, 20.0), rtol=1e-12)
    found = unusual_spread(variances, np.median(variances, axis=0), 20.0)
    np.testing.assert_allclose(found, eq.unusual_spread(variances, 20.0), rtol=1e-12)
    kind = Diagonal()
    scales = np.minimum(variances**-0.5, 20**0.5)
    p = Parameters(kind, {"means": rng.normal(0, 0.2, (4, 30)), "scales": scales}, np.zeros(4))
    moments = Tensors(kind.moment_layout(30), {"variances": variances}, p.dtype)
    for k in range(4):
        assert need(p, moments, k) == pytest.approx(eq.need(k, p.means, variances, p["scales"]), rel=1e-12)
    drawn = rng.normal(p.means[0], variances[0] ** 0.5, (100_000, 30))  # what a need is, by its name
    scores = eq.scores(drawn, p.logits, p.means, p["scales"]).mean(0)
    assert 2 * (scores[0] - scores[1:].max()) == pytest.approx(need(p, moments, 0), rel=0.02)
