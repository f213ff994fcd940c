"""Few samples, very many, one component, data far from zero or very wide: what users have that benchmarks have not."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from streamgmm import Mixture, StochasticEM, StreamingGaussianMixture
from streamgmm.core.batches import PartialBatch
from streamgmm.core.grid import Grid, filters


def blobs(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(0, 0.5, (4, 3))
    return centres[rng.integers(4, size=count)] + rng.normal(0, 0.1, (count, 3))


def test_variances_in_single_precision_stay_after_very_many_samples() -> None:
    deviations = np.linspace(0.25, 1, 16)
    x = 0.5 + deviations * np.random.default_rng(0).standard_normal((300_000, 16))
    model = StreamingGaussianMixture(1, period=20_000, random_state=0).partial_fit(x[:100_000].astype(np.float32))
    model.trainer_.tensors()["rule.counts"][:] = 3e7  # as after so many samples
    for _ in range(3):
        model.partial_fit(x.astype(np.float32))
    np.testing.assert_allclose(model.covariances_[0], np.maximum(x.var(0), 1 / 20), rtol=0.03)


@pytest.mark.parametrize("count", [120, 350, 400, 500, 900])
@pytest.mark.parametrize("rule", ["natural", "sem", "sgd"])
@pytest.mark.parametrize("components", [1, 2, 4])
def test_a_fit_is_good_or_it_warns(components: int, rule: str, count: int) -> None:
    x = blobs(count)
    best = GaussianMixture(components, covariance_type="diag", n_init=3, random_state=0).fit(x).score(x)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", ConvergenceWarning)
        # with scale="auto" SGD keeps to precisions that are stable, at most 20 in standardised units
        settings = {"scale": "none", "n_epochs": 1} if rule == "sgd" else {}
        model = StreamingGaussianMixture(components, rule=rule, precision_max=500, random_state=0, **settings).fit(x)
    assert said or model.score(x) > best - 0.3


def test_one_component_needs_no_annealing() -> None:
    x = np.random.default_rng(0).normal(0, 1, (400, 2))
    model = StreamingGaussianMixture(1, random_state=0).fit(x)
    assert model.sigma_ == model.sigma_min
    assert model.score(x) > GaussianMixture(1).fit(x).score(x) - 0.02


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("scale", ["auto", "none"])
def test_stochastic_em_goes_on_after_a_first_pass_that_is_shorter_than_its_period(scale: str) -> None:
    x = blobs(150)
    settings = {"rule": "sem", "precision_max": 200, "scale": scale, "random_state": 0}
    one, five = (StreamingGaussianMixture(4, n_epochs=n, **settings) for n in (1, 5))
    assert five.fit(x).score(x) > one.fit(x).score(x) + 0.1


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_kmeans_start_heeds_weights() -> None:
    rng = np.random.default_rng(0)
    x = np.r_[rng.normal(0, 0.1, (300, 2)), rng.normal(1, 0.1, (300, 2))]
    rule = StochasticEM(start_from="kmeans")
    model = StreamingGaussianMixture(2, rule=rule, precision_max=200, random_state=0)
    model.fit(x, sample_weight=np.r_[np.ones(300), np.full(300, 0.2)])
    assert model.weights_.max() == pytest.approx(1 / 1.2, rel=0.01)


@pytest.mark.parametrize("offset", [0, 1e4, 1e6])
@pytest.mark.parametrize("one_near_zero", [False, True])
def test_scores_in_single_precision_far_from_zero(offset: float, one_near_zero: bool) -> None:
    rng = np.random.default_rng(0)
    means = (offset + rng.normal(0, 1, (5, 50))).astype(np.float32)
    if one_near_zero:
        means[3] = rng.normal(0, 1, 50)
    x = (means[rng.integers(5, size=200)] + rng.normal(0, 0.4, (200, 50))).astype(np.float32)
    settings = {"weights": np.full(5, 0.2), "precisions": np.full((5, 50), 6.0)}
    single, double = (Mixture.from_parameters(means=means.astype(t), **settings) for t in (np.float32, np.float64))
    near = np.abs(x).max(1) < 100 if one_near_zero else np.ones(200, bool)
    np.testing.assert_allclose(single.log_prob(x)[near], double.log_prob(x.astype(np.float64))[near], atol=1e-3)


def test_weights_divided_by_their_mean_are_ones() -> None:
    x = blobs(1000)
    weights = np.full(1000, 0.3)
    assert (weights / weights.mean() != 1).any()
    one, other = (StreamingGaussianMixture(4, random_state=0) for _ in range(2))
    one.partial_fit(x)
    other.partial_fit(x, sample_weight=weights / weights.mean())
    np.testing.assert_array_equal(one.means_, other.means_)
    assert other.n_samples_seen_ == 1000


@pytest.mark.parametrize("deviation", [2000.0, 1e6])
def test_the_advice_for_wide_data_holds(deviation: float) -> None:
    x = np.random.default_rng(0).normal(0, deviation, (20_000, 2))
    with pytest.warns(UserWarning, match="100 divided by the variance"):
        StreamingGaussianMixture(1, scale="none").partial_fit(x)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = StreamingGaussianMixture(1, precision_max=100 / x.var(), scale="none", random_state=0).fit(x)
    assert model.score(x) > GaussianMixture(1).fit(x).score(x) - 0.01


@pytest.mark.parametrize("deviation", [1e-9, 2000.0, 1e6])
def test_raw_data_need_no_advice(deviation: float) -> None:
    x = np.random.default_rng(0).normal(3 * deviation, deviation, (20_000, 2))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = StreamingGaussianMixture(1, random_state=0).fit(x)
    best = GaussianMixture(1, reg_covar=0).fit(x).score(x)
    assert model.score(x) > best - 0.01


def test_filters_along_a_long_side_are_not_hoarded() -> None:
    first = filters(Grid(1, 1009), 1.0)
    assert filters(Grid(1, 1009), 1.0) is first
    others = [filters(Grid(1, 1009), sigma) for sigma in (2.0, 3.0)]
    assert filters(Grid(1, 1009), 3.0) is others[-1]
    assert filters(Grid(1, 1009), 1.0) is not first


def test_swapped_bytes_stay_single() -> None:
    x = blobs(400).astype(np.float32)
    here, there = (StreamingGaussianMixture(4, random_state=0).partial_fit(r) for r in (x, x.astype(">f4")))
    assert there.means_.dtype == np.float32
    np.testing.assert_array_equal(here.means_, there.means_)


def test_a_batch_takes_no_more_room_than_it_has_rows() -> None:
    pending = PartialBatch(3, np.dtype(np.float64), 10**9)
    for start in range(0, 3000, 7):
        pending.add(np.arange(3.0 * start, 3.0 * (start + 7)).reshape(7, 3))
    np.testing.assert_array_equal(pending.rows, np.arange(3.0 * len(pending)).reshape(-1, 3))
    assert len(pending) == 3003


def test_numbers_too_large_for_single_precision() -> None:
    means = np.zeros((1, 2), np.float32)
    with np.errstate(over="ignore"), pytest.raises(ValueError, match="too large for float32"):
        Mixture.from_parameters([1.0], means, np.full((1, 2), 1e80))
