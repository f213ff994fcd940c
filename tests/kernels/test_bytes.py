"""The kernel reads bytes without converting them first."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core.grid import filters, torus
from streamgmm.native import copy_rows, diagonal
from tests.kernels import random_mixture, sgd_steps

FACTOR = 1 / 255


def as_floats(rows: np.ndarray, dtype: type) -> np.ndarray:
    return rows.astype(dtype) * dtype(FACTOR)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("features", [1, 33, 784])
def test_bytes_times_a_factor_are_numbers(width: str, dtype: type, features: int) -> None:
    rng = np.random.default_rng(features)
    rows = rng.integers(256, size=(70, 2 * features), dtype=np.uint8)[:, ::2]  # not adjacent
    p = random_mixture(rng, 9, features, dtype)
    scores = diagonal.score(p.model, rows, FACTOR), diagonal.score(p.model, as_floats(rows, dtype))
    for found, expected in zip(*scores, strict=True):
        np.testing.assert_array_equal(found, expected)
    for sigma in (1.0, 0.01):
        here, there = p.copy(), p.copy()
        sgd_steps(here, rows, filters(torus(9), sigma), 0.01, factor=FACTOR)
        sgd_steps(there, as_floats(rows, dtype), filters(torus(9), sigma), 0.01)
        np.testing.assert_array_equal(here.means, there.means)
        np.testing.assert_array_equal(here.scales, there.scales)


def test_only_bytes_take_a_factor() -> None:
    p = random_mixture(np.random.default_rng(0), 2, 3)
    with pytest.raises(ValueError, match="only bytes take a factor"):
        diagonal.score(p.model, np.zeros((1, 3)), 0.5)


def test_values_are_copied_into_rows() -> None:
    values = [bytes([i] * 5) for i in range(7)]
    out = np.zeros((7, 5), np.uint8)
    copy_rows(values, out)
    assert out.tobytes() == b"".join(values)
    with pytest.raises(ValueError, match="differ in length"):
        copy_rows([*values[:6], b"1234"], out)
    with pytest.raises(ValueError, match="differ in number"):
        copy_rows(values[:6], out)
    assert out.tobytes() == b"".join(values)
