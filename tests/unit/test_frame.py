"""The frame of raw data: what the first rows suggest, when it is updated, and what moves."""

from __future__ import annotations

from math import inf
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.core import reference as eq
from streamgmm.core import standardisation
from streamgmm.core.covariance.diagonal import Diagonal
from streamgmm.core.frame import Frame
from streamgmm.core.rules.restarts import median
from streamgmm.core.scaling import may_hold_a_burst, without_extremes
from streamgmm.native import FRAME_SUMS


def rows(count: int = 400, seed: int = 0) -> np.ndarray:
    """Three features that vary, and two that do not."""
    x = np.random.default_rng(seed).normal([1, -5, 0, 0, 7], [1, 0.1, 30, 0, 0], (count, 5))
    x[:, 3:] = [0, 7]
    return x


def read(frame: Frame, x: np.ndarray) -> None:
    """Sum rows as the kernel does."""
    frame.values[FRAME_SUMS:] += eq.frame_sums(x, *frame.values[:FRAME_SUMS])


def test_a_row_that_is_absurd_everywhere_wakes_no_feature() -> None:
    x = rows()
    clean = Frame.start(x, np.dtype(np.float64))
    x[17] = 1e9
    found = Frame.start(x, np.dtype(np.float64))
    assert found.varies.tolist() == clean.varies.tolist() == [True, True, True, False, False]
    np.testing.assert_allclose(found.unit, clean.unit, rtol=0.05)


def test_a_row_that_is_absurd_in_one_feature_still_counts_in_others() -> None:
    x = rows()
    x[17, 1], x[17, 3] = 1e9, 2.0
    assert Frame.start(x, np.dtype(np.float64)).varies.tolist() == [True, True, True, True, False]


def test_only_features_that_no_longer_fit_move() -> None:
    frame = Frame.start(rows(), np.dtype(np.float64))
    before = frame.values[:2].copy()
    x = rows(4000, seed=1)
    read(frame, x)
    assert frame.update(inf, 1) is None
    x[:, 1] += 0.3  # three deviations
    read(frame, x)
    move = frame.update(inf, 1)
    assert move is not None
    assert (move.factor != 1).tolist() == [False, True, False, False, False]
    assert (move.shift != 0).tolist() == [False, True, False, False, False]
    assert not move.fresh.any()
    np.testing.assert_array_equal(np.delete(frame.values[:2], 1, 1), np.delete(before, 1, 1))
    assert frame.log_volume == pytest.approx(np.log(np.abs(frame.unit[:3])).sum(), rel=1e-15)


def test_what_is_urgent() -> None:
    frame = Frame.start(rows(), np.dtype(np.float64))
    read(frame, rows(2000, seed=1))
    assert not frame.is_urgent(1)
    far = rows(100, seed=2)
    far[:, 2] = 1e5
    read(frame, far)
    assert not frame.is_urgent(1)  # a burst may end here
    assert frame.is_urgent(8)  # one row of eight was read
    read(frame, far)
    read(frame, far)
    assert frame.is_urgent(1)
    woken = Frame.start(rows(), np.dtype(np.float64))
    other = rows(1, seed=1)
    other[0, 3] = 1
    read(woken, other)
    assert woken.is_urgent(1)


def test_bursts_among_the_first_rows() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 300))
    assert not may_hold_a_burst(x)
    # fewer than a quarter are extreme values, which are ignored
    for share, expected in ((0.2, False), (0.3, True)):
        y = x.copy()
        y[: int(200 * share), 290] += 5000
        assert may_hold_a_burst(y) is expected
        y[100:120] = np.nan  # of what is left, the shares are 0.22 and 0.33
        assert may_hold_a_burst(y) is expected
    assert not may_hold_a_burst(rng.integers(0, 256, (200, 300), dtype=np.uint8))
    assert not may_hold_a_burst(np.full((200, 2), np.nan))


def test_extreme_values_are_those_far_beyond_the_quartiles() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(101, 4))
    x[:, 3], x[5, 3] = 2.0, 3.0  # nothing tells whether a single value is extreme
    x[rng.random(x.shape) < 0.2] = np.nan
    low, middle, high = np.nanpercentile(x, [25, 50, 75], axis=0)
    x[50, :2] = (middle + 2000 * (high - low))[:2]
    x[60, :2] = (middle - 500 * (high - low))[:2]
    expected = x.copy()
    expected[50, :2] = np.nan
    np.testing.assert_array_equal(without_extremes(x), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("components", [1, 2, 7, 64])
def test_medians_are_those_of_numpy(components: int, dtype: type) -> None:
    variances = np.random.default_rng(components).gamma(0.3, size=(components, 50)).astype(dtype)
    found = median(variances)
    assert found.dtype == dtype
    np.testing.assert_array_equal(found, np.median(variances, axis=0))


def test_a_burst_does_not_become_typical() -> None:
    """[E20] Room and deviation both grow in a burst; if they fed on each other, a hundred rows would be enough."""
    typical = (10_000.0, -300.0, 200.0, 4.0, 0.0)
    for _ in range(100):
        share, _, typical = eq.influence(-1e15, typical, 784)
    assert share < 1e-10
    assert 30 * typical[2] * typical[3] < 200 * (30 * 200 * 4)


@pytest.mark.parametrize(("dtype", "unit"), [(np.float32, 1e-41), (np.float64, 1e-310)])
def test_values_too_small_for_their_type_do_no_harm(dtype: type, unit: float) -> None:
    """The inverse of a subnormal deviation would be infinite."""
    x = np.random.default_rng(0).normal(size=(3000, 3)).astype(dtype)
    x[:, 1] *= dtype(unit)
    model = StreamingGaussianMixture(4, random_state=0).partial_fit(x)
    assert np.isfinite(model.means_).all()
    assert (
        model.score(x) > StreamingGaussianMixture(4, random_state=0).partial_fit(x[:, [0, 2]]).score(x[:, [0, 2]]) - 1
    )


@pytest.mark.parametrize("unit", [1e-100, 1e78, 1e140])
def test_values_whose_fourth_powers_overflow(unit: float, tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(1000, 2))
    plain, scaled = (StreamingGaussianMixture(3, random_state=0).partial_fit(u * x) for u in (1.0, unit))
    scaled.save(tmp_path / "model")
    assert scaled.score(unit * x) == pytest.approx(plain.score(x) - 2 * np.log(unit))


def test_waiting_for_more_rows_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """A short warm-up, which wide rows have, need not reach the longest one by doubling."""
    monkeypatch.setattr(standardisation, "MANY_NUMBERS", 2 * 99)
    x = np.random.default_rng(0).normal(size=(3000, 2))
    x[np.arange(3000) % 10 < 4, 0] += 1e6
    whole = StreamingGaussianMixture(2, random_state=0).partial_fit(x)
    assert whole.n_features_in_ == 2
    parts = StreamingGaussianMixture(2, random_state=0).partial_fit(x[:1590]).partial_fit(x[1590:])
    np.testing.assert_array_equal(parts.means_, whole.means_)


def test_kinds_need_not_move_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    x = rows(3000)
    x[1500:, 0] *= 1000
    expected = StreamingGaussianMixture(2, random_state=0).partial_fit(x).means_
    in_place = Diagonal.reframe
    monkeypatch.setattr(Diagonal, "reframe", lambda kind, t, *move: in_place(kind, t.copy(), *move))
    np.testing.assert_array_equal(StreamingGaussianMixture(2, random_state=0).partial_fit(x).means_, expected)
