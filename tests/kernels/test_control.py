"""What the control does at a check: the same numbers as NumPy, to the last bit; and columns that become rows."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.native import average_usage, move_weights, rows_of_columns, upper_median


@pytest.mark.parametrize("components", [1, 7, 8, 64, 1000])
def test_usage_is_averaged(components: int) -> None:
    rng = np.random.default_rng(components)
    usage, wins = rng.dirichlet(np.ones(components)), rng.integers(0, 9, components)
    wins[0] = 3
    weight = min(1.0, wins.sum() / 150)
    expected = (1 - weight) * usage + weight * wins / wins.sum()
    assert average_usage(usage, wins, 150.0, 0.01) == np.count_nonzero(expected >= 0.01)
    np.testing.assert_array_equal(usage, expected)
    assert not wins.any()


@pytest.mark.parametrize("components", [1, 7, 8, 64, 1000])
def test_weights_move_towards_what_was_received(components: int) -> None:
    rng = np.random.default_rng(components)
    weights, received, since = rng.dirichlet(np.ones(components)), rng.random(components), rng.random(components)
    total, more = float(received.sum()), since + received
    expected = weights + 0.3 * (received / total - weights)
    move_weights(weights, received, since, total, 0.3)
    np.testing.assert_array_equal(weights, expected)
    np.testing.assert_array_equal(since, more)
    assert not received.any()


@pytest.mark.parametrize("count", [1, 2, 3, 10, 65])
def test_upper_median(count: int) -> None:
    values = np.random.default_rng(count).random(count)
    assert upper_median(values) == np.sort(values)[count // 2]


def test_lengths_must_agree() -> None:
    with pytest.raises(ValueError, match="differ in length"):
        average_usage(np.ones(3), np.ones(4, np.int64), 1.0, 0.1)
    with pytest.raises(ValueError, match="differ in length"):
        move_weights(np.ones(3), np.ones(3), np.ones(4), 1.0, 0.1)
    with pytest.raises(ValueError, match="at least one number"):
        upper_median(np.empty(0))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16, np.uint8])
@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (16, 16), (33, 40), (100, 7)])
def test_columns_become_rows(dtype: type, shape: tuple[int, int]) -> None:
    x = (100 * np.random.default_rng(0).random(shape)).astype(dtype)
    rows = rows_of_columns(list(np.asfortranarray(x).T))
    np.testing.assert_array_equal(rows, x)
    assert rows.dtype == dtype


def test_columns_of_several_types() -> None:
    mixed = rows_of_columns([np.array([1, 2], np.int32), np.array([0.5, np.nan], np.float32), np.arange(4.0)[::2]])
    np.testing.assert_array_equal(mixed, [[1, 0.5, 0], [2, np.nan, 2]])
    with pytest.raises(ValueError, match="differ in length"):
        rows_of_columns([np.ones(3), np.ones(4)])
