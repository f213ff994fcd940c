"""An order of rows that does not depend on how they were sorted before."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from streamgmm.sources.content_order import content_order

TABLES = hnp.arrays(
    st.sampled_from([np.uint8, np.float32, np.float64]),
    hnp.array_shapes(min_dims=2, max_dims=2, min_side=0, max_side=12),
    elements=st.integers(0, 3),  # so that there are copies
)


def order_of(rows: np.ndarray, seed: int = 0) -> np.ndarray:
    return content_order(rows, np.random.default_rng(seed))


@given(TABLES, st.integers(0, 100))
def test_the_same_rows_come_in_the_same_sequence(rows: np.ndarray, seed: int) -> None:
    order = order_of(rows, seed)
    assert sorted(order.tolist()) == list(range(len(rows)))
    other = np.random.default_rng(seed).permutation(rows)
    np.testing.assert_array_equal(rows[order], other[order_of(other, seed)])


@pytest.mark.parametrize("rows", [np.arange(4000.0)[:, None], np.arange(4000)[:, None] // 16 % np.full(3, 256)])
def test_rows_that_follow_each_other_are_torn_apart(rows: np.ndarray) -> None:
    rows = rows.astype(np.uint8) if rows.shape[1] == 3 else rows
    order = order_of(rows)
    assert abs(np.corrcoef(order, np.arange(4000))[0, 1]) < 0.06
    steps = np.abs(np.diff(order))
    assert abs(steps.mean() - 4000 / 3) < 100  # as of random numbers: neither neighbours nor in equal steps
    assert len(np.unique(steps)) > 1500


def test_copies_of_a_row_are_spread_out() -> None:
    rows = np.zeros((4000, 5))
    rows[::4] = np.arange(1000)[:, None] + 1
    places = np.flatnonzero(rows[order_of(rows), 0] > 0)
    counts = np.bincount(places // 400, minlength=10)
    assert counts.min() > 60
    assert counts.max() < 140


def test_each_seed_has_its_own_order() -> None:
    rows = np.arange(300.0).reshape(100, 3)
    assert not np.array_equal(order_of(rows, 0), order_of(rows, 1))
