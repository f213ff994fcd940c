"""The chunk law: how a stream is cut into pieces changes nothing, nor does saving and loading in mid-stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import StochasticEM, StreamingGaussianMixture
from streamgmm.core.rules import Rule
from streamgmm.sources.synthetic.glyphs import Glyphs
from tests.conftest import assert_same_training, scales

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


RULES = ["sgd", "natural", "sem", StochasticEM(start_from="kmeans", accumulate=300)]


def model(batch_size: int = 1, period: int = 150, rule: str | Rule = "sgd", **more: Any) -> StreamingGaussianMixture:
    return StreamingGaussianMixture(9, rule=rule, batch_size=batch_size, period=period, random_state=3, **more)


def assert_identical(a: StreamingGaussianMixture, b: StreamingGaussianMixture, same_generator: bool = True) -> None:
    assert a.n_samples_seen_ == b.n_samples_seen_
    assert_same_training(a.trainer_, b.trainer_, same_generator)


@pytest.fixture(scope="module")
def glyphs() -> np.ndarray:
    return Glyphs(seed=5).take(0, 2013)[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("chunk", [1, 7, 1000])
@pytest.mark.parametrize("rule", RULES, ids=str)
@scales
def test_chunks_change_nothing(
    glyphs: np.ndarray, dtype: type, batch_size: int, chunk: int, rule: str | Rule, scale: str
) -> None:
    x = glyphs.astype(dtype)
    whole = model(batch_size, rule=rule, scale=scale).partial_fit(x)
    cut = model(batch_size, rule=rule, scale=scale)
    for start in range(0, len(x), chunk):
        cut.partial_fit(x[start : start + chunk])
    assert whole.sigma_ < 0.75
    assert_identical(whole, cut)


@given(
    cuts=st.lists(st.integers(1, 599), max_size=6),
    batch_size=st.integers(1, 40),
    period=st.integers(1, 250),
    rule=st.sampled_from(["sgd", "natural", "sem"]),
)
@scales
def test_any_cuts_change_nothing(cuts: list[int], batch_size: int, period: int, rule: str, scale: str) -> None:
    x = np.random.default_rng(0).random((600, 5))
    whole = model(batch_size, period, rule, scale=scale).partial_fit(x)
    cut = model(batch_size, period, rule, scale=scale)
    for part in np.split(x, sorted(set(cuts))):
        cut.partial_fit(part)
    assert_identical(whole, cut)


@pytest.mark.parametrize("batch_size", [1, 16])
@scales
def test_fit_is_partial_fit_over_shuffled_passes(glyphs: np.ndarray, batch_size: int, scale: str) -> None:
    x = glyphs[:800]
    fitted = model(batch_size, scale=scale, n_epochs=2).fit(x)
    rng = np.random.default_rng(3)
    rng.uniform(-0.1, 0.1, (9, 784))  # the start's own draw
    by_hand = model(batch_size, scale=scale, n_epochs=2)
    for _ in range(2):
        by_hand.partial_fit(x[rng.permutation(len(x))])
    assert_identical(fitted, by_hand, same_generator=False)  # fit draws its own orders
    plain = model(batch_size, scale=scale, n_epochs=1, shuffle=False).fit(x)
    assert_identical(plain, model(batch_size, scale=scale).partial_fit(x))


@pytest.mark.parametrize(("scale", "count"), [("none", 21), ("auto", 221)])
def test_fit_flushes_a_partial_batch_and_partial_fit_keeps_it(scale: str, count: int) -> None:
    x = np.random.default_rng(0).random((count, 4))
    kept = model(batch_size=8, scale=scale).partial_fit(x)
    assert kept.trainer_.n_pending == 5
    assert kept.n_samples_seen_ == count
    flushed = model(batch_size=8, scale=scale, n_epochs=1, shuffle=False).fit(x)
    assert flushed.trainer_.n_pending == 0
    assert flushed.n_samples_seen_ == count
    assert (flushed.means_ != kept.means_).any()


def test_fit_learns_rows_that_are_too_few_for_a_frame_and_partial_fit_keeps_them() -> None:
    """Kept rows answer as one Gaussian; a pass that ends takes its frame from what there is."""
    x = np.random.default_rng(0).normal(1e3, 10, (60, 4))
    kept = model().partial_fit(x)
    np.testing.assert_allclose(kept.means_, np.tile(x.mean(0), (9, 1)), rtol=1e-9)
    np.testing.assert_allclose(kept.covariances_, np.tile(x.var(0), (9, 1)), rtol=1e-9)
    assert (kept.n_samples_seen_, kept.trainer_.parameters.means.std() > 0) == (60, True)
    twice = model(n_epochs=2, shuffle=False).fit(x)
    by_hand = model(n_epochs=2, shuffle=False).partial_fit(x)
    by_hand.trainer_.end_pass()
    by_hand.partial_fit(x)
    by_hand.trainer_.flush()
    assert_identical(twice, by_hand)
    assert np.ptp(twice.means_, axis=0).max() > 0


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize(("scale", "cut"), [("none", 200), ("none", 997), ("auto", 150), ("auto", 997)])
def test_saving_in_mid_stream_changes_nothing(
    glyphs: np.ndarray, dtype: type, batch_size: int, rule: str | Rule, scale: str, cut: int, tmp_path: Path
) -> None:
    x = glyphs.astype(dtype)
    whole = model(batch_size, rule=rule, scale=scale).partial_fit(x)
    half = model(batch_size, rule=rule, scale=scale).partial_fit(x[:cut])
    half.save(tmp_path / "half.safetensors")
    resumed = StreamingGaussianMixture.load(tmp_path / "half.safetensors")
    assert resumed.get_params() == half.get_params()
    assert_identical(half, resumed)
    assert_identical(whole, resumed.partial_fit(x[cut:]))


@pytest.mark.parametrize("rule", ["sgd", "natural"])
@scales
def test_runs_repeat_bit_for_bit(glyphs: np.ndarray, rule: str, scale: str) -> None:
    few = glyphs[:300, 300:320]  # batch EM refines the natural rule's
    first, again = (model(rule=rule, scale=scale, period=50).fit(few) for _ in range(2))
    assert_identical(first, again)
