"""What full and low-rank mixtures learn from degenerate rows, and answer: each kind was found by `odd_trainings`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import Mixture, StreamingGaussianMixture
from streamgmm.core.covariance import Full
from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Tensors

pytestmark = pytest.mark.filterwarnings("ignore")
kinds = pytest.mark.parametrize("kind", ["diag", "full", "low_rank"])


def learned(x: np.ndarray, kind: str, n_components: int = 3, **settings: Any) -> StreamingGaussianMixture:
    values = {"period": 10, "random_state": 0, "rank": 2, **settings}
    return StreamingGaussianMixture(n_components, covariance_type=kind, **values).partial_fit(x)


def gaussian(rows: int, features: int, dtype: type = np.float64, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, features)).astype(dtype)


@kinds
@pytest.mark.parametrize("unit", [1e-40, 1e-25, 1e25, 1e36])
def test_squares_of_units_need_not_fit_into_single_precision(kind: str, unit: float) -> None:
    x = (gaussian(300, 4).clip(-5, 5) * unit).astype(np.float32)
    rules = ["natural", "sem"] + ["sgd"] * (kind != "low_rank")
    for model in (learned(x, kind, rule=rule) for rule in rules):
        for values in (model.covariances_, model.precisions_, model.mixture_.variances, model.score_samples(x)):
            assert np.isfinite(values).all()
        assert (model.mixture_.variances > 0).all()


@pytest.mark.parametrize("kind", ["full", "low_rank"])
@pytest.mark.parametrize("absurd", [1e36, 1e149])
def test_absurd_rows_are_strange_with_and_without_gaps(kind: str, absurd: float) -> None:
    dtype = np.float32 if absurd < 1e37 else np.float64
    model = learned(gaussian(500, 6, dtype), kind, allow_nan=True, scale="none", precision_max=1e12)
    rows = gaussian(3, 6, dtype)
    rows[1:, :5] = absurd
    rows[2, 3] = np.nan
    usual, whole, part = model.score_samples(rows)
    assert usual > -1e30
    assert np.isfinite([whole, part]).all()
    assert max(whole, part) < -1e30
    for row in model.explain(rows):
        assert not np.isnan([reason[1:] for reason in row]).any()
    rows[:, 5] = np.nan
    assert np.isfinite(model.impute(rows)).all()
    assert np.isfinite(model.conditional_sample(rows, 3)).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_absurd_rows_do_not_tell_what_hidden_numbers_are(dtype: type, tmp_path: Path) -> None:
    x = gaussian(200, 5, dtype)
    x[100:130] *= 1e30
    for rule in ("natural", "sem"):
        model = learned(x, "low_rank", rule=rule)
        model.save(tmp_path / "model")
        assert np.abs(model.trainer_.tensors()["rule.moments.inner"]).max() < 1e10


def test_kurtosis_stays_within_bounds_while_rows_are_forgotten(tmp_path: Path) -> None:
    x = (np.random.default_rng(0).random((4000, 10)) < 0.01).astype(float)
    x[300:] = 0
    model = learned(x, "full", rule="sem", half_life=1.0)
    model.save(tmp_path / "model")
    assert np.isfinite(StreamingGaussianMixture.load(tmp_path / "model").means_).all()


@kinds
def test_smallest_variances_far_above_those_of_the_data(kind: str, tmp_path: Path) -> None:
    for x in (1e-140 * gaussian(300, 3), 1e-30 * gaussian(300, 3, np.float32)):
        for rule in ["natural", "sem"] + ["sgd"] * (kind != "low_rank"):
            model = learned(x, kind, rule=rule, precision_max=1e-6)
            model.save(tmp_path / "model")
            assert np.isfinite(model.covariances_).all()


@pytest.mark.parametrize("kind", ["full", "low_rank"])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_rounding_of_dependent_columns_is_no_direction(kind: str, batch_size: int, tmp_path: Path) -> None:
    few = gaussian(300, 3, np.float32)
    x = np.hstack([few, few @ gaussian(3, 20, np.float32, seed=1)])
    for rule in ("natural", "sem"):
        settings = {"scale": "none", "precision_max": 1e11, "rank": 8, "batch_size": batch_size, "rule": rule}
        model = learned(x, kind, **settings)
        model.save(tmp_path / "model")
        # steps along rounding errors would be as long as these are short
        assert np.abs(model.trainer_.parameters["factors"]).max() < 1e6
        assert np.isfinite(model.precisions_).all()
        assert np.isfinite(model.score_samples(x)).all()


def test_conditions_of_units_and_shapes_that_squares_would_lose() -> None:
    rng, units = np.random.default_rng(0), 10.0 ** np.array([-120, 0, 120, -60, 60])
    root = np.tril(rng.normal(0, 1, (5, 5))) + 3 * np.eye(5)
    mixture = Mixture.view(Parameters(Full(), {"means": np.zeros((1, 5)), "factors": root[None]}, np.zeros(1)))
    scaled = Mixture.view(Parameters(Full(), {"means": np.zeros((1, 5)), "factors": root[None] / units}, np.zeros(1)))
    row = np.array([0.3, np.nan, -0.5, np.nan, 0.1])
    (given,), (there,) = mixture.condition([row]), scaled.condition([row * units])
    np.testing.assert_allclose(there.means / units[[1, 3]], given.means, rtol=1e-9)
    part, some = mixture.marginal([4, 0, 2]), scaled.marginal([4, 0, 2])
    lost = np.log(units[[4, 0, 2]]).sum()
    np.testing.assert_allclose(
        some.log_prob(row[[4, 0, 2]][None] * units[[4, 0, 2]]) + lost, part.log_prob(row[None, [4, 0, 2]])
    )
    narrow = np.array([[[1.0, 0.0], [-1e9, 1e9]]])  # two features that differ by a billionth
    nearly = Mixture.view(Parameters(Full(), {"means": np.zeros((1, 2)), "factors": narrow}, np.zeros(1)))
    (given,) = nearly.condition([[0.25, np.nan]])
    np.testing.assert_allclose(given.means, 0.25)
    (given,) = nearly.condition([[np.nan, 0.25]])
    np.testing.assert_allclose(given.means, 0.25)
    np.testing.assert_allclose(nearly.marginal([1]).variances, 1.0)


@pytest.mark.parametrize("kind", ["full", "low_rank"])
def test_absurd_rows_and_others_in_turn_widen_no_bound_without_end(kind: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.choice([-1, 1], (2500, 9)) * 10 ** rng.uniform(-149, 149, (2500, 9))
    model = learned(x, kind, batch_size=4, period=1, annealing=False)
    model.save(tmp_path / "model")
    assert abs(model.trainer_.current().loss) < 1e100


def test_variances_below_zero_by_rounding_are_zero_for_restarts() -> None:
    values = {"covariances": np.full((1, 2, 2), -8.7e-22), "pending": np.zeros(1)}
    moments = Tensors(Full().moment_layout(2), values, np.dtype(np.float64))
    np.testing.assert_array_equal(Full().variances(moments), 0.0)


def test_expectations_stay_within_what_single_precision_can_learn() -> None:
    factors = np.array([[[1e-30, 0.0], [1e6, 1e-2]]], np.float32)
    p = Parameters(Full(), {"means": np.zeros((1, 2), np.float32), "factors": factors}, np.zeros(1))
    mixture = Mixture.view(p)
    (given,) = mixture.condition([[1e35, np.nan]])
    assert np.isfinite(given.means).all()
    assert np.isfinite(mixture.sample(100, 0)[0]).all()


@pytest.mark.parametrize("batch_size", [1, 4])
def test_gradients_of_absurd_rows_are_finite(batch_size: int) -> None:
    x = gaussian(40, 8, np.float32)
    x[10:20] *= np.float32(1e35)
    model = learned(x, "full", rule="sgd", scale="none", precision_max=1e10, batch_size=batch_size)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.covariances_).all()


@kinds
def test_rows_that_are_no_numbers_in_the_unit_of_a_feature(kind: str, tmp_path: Path) -> None:
    x = gaussian(400, 3, np.float32) * np.float32(1e-31)
    x[300:, 0] = 1e30
    for rule in ["natural", "sem"] + ["sgd"] * (kind != "low_rank"):
        model = learned(x, kind, rule=rule, annealing=False)
        model.save(tmp_path / "model")
        assert np.isfinite(model.means_).all()
        assert np.isfinite(model.score_samples(x)).all()


def test_hidden_numbers_of_equal_rows_may_vanish(tmp_path: Path) -> None:
    x = np.concatenate([gaussian(300, 4), np.ones((2000, 4))])
    model = learned(x, "low_rank", 1, rule="sem", half_life=1.0, period=1)
    model.save(tmp_path / "model")
    assert np.isfinite(model.covariances_).all()
