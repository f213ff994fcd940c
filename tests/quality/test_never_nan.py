"""Whatever finite data come, parameters and answers stay finite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from tests.conftest import scales

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.parametrize("rule", ["sgd", "natural", "sem"]),
    scales,
]


def mixture(n_components: int = 9, **settings: Any) -> StreamingGaussianMixture:
    return StreamingGaussianMixture(n_components, **{"n_epochs": 1, "random_state": 0, **settings})


def assert_sane(model: StreamingGaussianMixture, x: np.ndarray) -> None:
    for values in (model.means_, model.precisions_, model.covariances_, model.weights_):
        assert np.isfinite(values).all()
    assert (model.precisions_ > 0).all()
    if model.scale == "none":
        assert model.precisions_.max() <= 20 * (1 + 1e-6)
    assert model.weights_.sum() == pytest.approx(1, rel=1e-5)
    assert np.isfinite(model.score_samples(x)).all()
    assert np.isfinite(model.predict_proba(x)).all()
    assert np.isfinite([model.sigma_, model.trainer_.current().loss]).all()


@pytest.mark.parametrize("annealing", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_thirty_thousand_features(rule: str, annealing: bool, scale: str) -> None:
    x = np.random.default_rng(0).random((300, 30_000), dtype=np.float32)
    assert_sane(mixture(64, rule=rule, period=50, annealing=annealing, scale=scale).fit(x), x[:20])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("magnitude", [1e-6, 1e6, 1e30])
def test_scaled_data(rule: str, dtype: type, batch_size: int, magnitude: float, scale: str) -> None:
    x = (magnitude * np.random.default_rng(0).random((3000, 20))).astype(dtype)
    assert_sane(mixture(rule=rule, batch_size=batch_size, period=100, scale=scale).fit(x), x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_constant_features(rule: str, dtype: type, batch_size: int, scale: str) -> None:
    x = np.random.default_rng(0).random((3000, 20)).astype(dtype)
    x[:, :10] = [0, 1, -1, 0.5, 5, 0, 0, 0, 0, 0]
    assert_sane(mixture(rule=rule, batch_size=batch_size, period=100, scale=scale).fit(x), x)
    nothing = np.zeros((3000, 20), dtype)
    assert_sane(mixture(rule=rule, batch_size=batch_size, period=100, scale=scale).fit(nothing), nothing)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("value", [1e30, -1e36, 1e100, 1e149])
def test_one_absurd_sample(rule: str, dtype: type, batch_size: int, value: float, scale: str) -> None:
    if value > float(np.finfo(dtype).max):
        pytest.skip("no such number in this float type")
    x = np.random.default_rng(0).random((3000, 20)).astype(dtype)
    x[1500, 3] = value
    x[1600] = value
    assert_sane(mixture(rule=rule, batch_size=batch_size, period=100, shuffle=False, scale=scale).fit(x), x)


@pytest.mark.parametrize("batch_size", [1, 8])
@pytest.mark.parametrize("period", [8, 100])
@pytest.mark.parametrize("value", [1e36, 1e100, 1e149])
def test_nothing_but_absurd_samples_for_a_while(
    rule: str, batch_size: int, period: int, value: float, scale: str, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).random((3000, 20))
    x[1500:1700] = value
    x[1600:1650] = -value
    model = mixture(rule=rule, batch_size=batch_size, period=period, scale=scale)
    for start in range(0, 3000, 500):
        model.partial_fit(x[start : start + 500])
        assert_sane(model, x[:1000])
        model.save(tmp_path / "m")
        assert_sane(StreamingGaussianMixture.load(tmp_path / "m"), x[:1000])
    plain = mixture(rule=rule, batch_size=batch_size, period=period, scale=scale).partial_fit(x[np.abs(x[:, 0]) < 2])
    assert model.score(x[:1000]) > plain.score(x[:1000]) - 2
