"""The chunk law: how a stream is cut into pieces changes nothing, nor does saving and loading in mid-stream."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import StochasticEM, StreamingGaussianMixture
from streamgmm.core.rules import Rule
from streamgmm.sources.synthetic.glyphs import Glyphs
from tests.conftest import assert_same_training

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


RULES = ["sgd", "natural", "sem", StochasticEM(start_from="kmeans", accumulate=300)]


def model(batch_size: int = 1, period: int = 150, rule: str | Rule = "sgd") -> StreamingGaussianMixture:
    return StreamingGaussianMixture(9, rule=rule, batch_size=batch_size, period=period, random_state=3)


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
def test_chunks_change_nothing(glyphs: np.ndarray, dtype: type, batch_size: int, chunk: int, rule: str | Rule) -> None:
    x = glyphs.astype(dtype)
    whole = model(batch_size, rule=rule).partial_fit(x)
    cut = model(batch_size, rule=rule)
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
def test_any_cuts_change_nothing(cuts: list[int], batch_size: int, period: int, rule: str) -> None:
    x = np.random.default_rng(0).random((600, 5))
    whole = model(batch_size, period, rule).partial_fit(x)
    cut = model(batch_size, period, rule)
    for part in np.split(x, sorted(set(cuts))):
        cut.partial_fit(part)
    assert_identical(whole, cut)


@pytest.mark.parametrize("batch_size", [1, 16])
def test_fit_is_partial_fit_over_shuffled_passes(glyphs: np.ndarray, batch_size: int) -> None:
    x = glyphs[:800]
    fitted = model(batch_size).set_params(n_epochs=2).fit(x)
    rng = np.random.default_rng(3)
    rng.uniform(-0.1, 0.1, (9, 784))  # the start's own draw
    by_hand = model(batch_size)
    for _ in range(2):
        by_hand.partial_fit(x[rng.permutation(len(x))])
    assert_identical(fitted, by_hand, same_generator=False)  # fit draws its own orders
    plain = model(batch_size).set_params(shuffle=False).fit(x)
    assert_identical(plain, model(batch_size).partial_fit(x))


def test_fit_flushes_a_partial_batch_and_partial_fit_keeps_it() -> None:
    x = np.random.default_rng(0).random((21, 4))
    kept = model(batch_size=8).partial_fit(x)
    assert kept.trainer_.n_pending == 5
    assert kept.n_samples_seen_ == 21
    flushed = model(batch_size=8).set_params(shuffle=False).fit(x)
    assert flushed.trainer_.n_pending == 0
    assert flushed.n_samples_seen_ == 21
    assert (flushed.means_ != kept.means_).any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("cut", [200, 997])
def test_saving_in_mid_stream_changes_nothing(
    glyphs: np.ndarray, dtype: type, batch_size: int, rule: str | Rule, cut: int, tmp_path: Path
) -> None:
    x = glyphs.astype(dtype)
    whole = model(batch_size, rule=rule).partial_fit(x)
    half = model(batch_size, rule=rule).partial_fit(x[:cut])
    half.save(tmp_path / "half.safetensors")
    resumed = StreamingGaussianMixture.load(tmp_path / "half.safetensors")
    assert resumed.get_params() == half.get_params()
    assert_identical(half, resumed)
    assert_identical(whole, resumed.partial_fit(x[cut:]))


def test_runs_repeat_bit_for_bit(glyphs: np.ndarray) -> None:
    assert_identical(model().fit(glyphs), model().fit(glyphs))
