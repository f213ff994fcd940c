"""Bytes go straight into the loops."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture, kernels, training
from streamgmm.grid import filters, torus
from streamgmm.rules import StochasticEM
from tests.conftest import random_parameters

FACTOR = 1 / 255


def as_floats(rows: np.ndarray, dtype: type) -> np.ndarray:
    return rows.astype(dtype) * dtype(FACTOR)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [1, 33, 784])
def test_bytes_times_a_factor_are_numbers(width: str, dtype: type, features: int) -> None:
    rng = np.random.default_rng(features)
    rows = rng.integers(256, size=(70, 2 * features), dtype=np.uint8)[:, ::2]  # not side by side
    p = random_parameters(rng, 9, features, dtype)
    for found, expected in zip(kernels.score(p, rows, FACTOR), kernels.score(p, as_floats(rows, dtype)), strict=True):
        np.testing.assert_array_equal(found, expected)
    for sigma in (1.0, 0.01):
        here, there, bounds = p.copy(), p.copy(), (1e-3, 20**0.5)
        kernels.sgd_steps(here, rows, filters(torus(9), sigma), rate=0.01, scale_bounds=bounds, factor=FACTOR)
        kernels.sgd_steps(there, as_floats(rows, dtype), filters(torus(9), sigma), rate=0.01, scale_bounds=bounds)
        np.testing.assert_array_equal(here.means, there.means)
        np.testing.assert_array_equal(here.scales, there.scales)


@pytest.mark.parametrize("rule", ["natural", "sgd", "sem", StochasticEM(start_from="kmeans", accumulate=50)])
@pytest.mark.parametrize("batch_size", [1, 8])
def test_training_on_bytes(rule: object, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(256, size=(300, 40), dtype=np.uint8)
    model = StreamingGaussianMixture(9, rule=rule, batch_size=batch_size, random_state=0)
    model._start(as_floats(rows, np.float32))
    other = StreamingGaussianMixture(9, rule=rule, batch_size=batch_size, random_state=0)
    other._start(as_floats(rows, np.float32))
    for piece in np.split(rows, [7, 100, 211]):
        training.feed(model._training, piece, FACTOR)
        training.feed(other._training, as_floats(piece, np.float32))
    np.testing.assert_array_equal(model.means_, other.means_)
    np.testing.assert_array_equal(model.precisions_, other.precisions_)


def test_the_estimator_takes_bytes_as_the_numbers_they_are() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(3, size=(500, 20), dtype=np.uint8)
    here = StreamingGaussianMixture(4, random_state=0).partial_fit(rows)
    there = StreamingGaussianMixture(4, random_state=0).partial_fit(rows.astype(np.float64))
    np.testing.assert_array_equal(here.means_, there.means_)
    np.testing.assert_array_equal(here.score_samples(rows), there.score_samples(rows.astype(np.float64)))


def test_only_bytes_take_a_factor() -> None:
    p = random_parameters(np.random.default_rng(0), 2, 3)
    with pytest.raises(ValueError, match="only bytes take a factor"):
        kernels.score(p, np.zeros((1, 3)), 0.5)


def test_values_join_into_rows() -> None:
    values = [bytes([i] * 5) for i in range(7)]
    out = np.zeros((7, 5), np.uint8)
    kernels.join(values, out)
    assert out.tobytes() == b"".join(values)
    with pytest.raises(ValueError, match="differ in length"):
        kernels.join([*values[:6], b"1234"], out)
    with pytest.raises(ValueError, match="differ in number"):
        kernels.join(values[:6], out)
    assert out.tobytes() == b"".join(values)
