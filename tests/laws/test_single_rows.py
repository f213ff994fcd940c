"""Single rows take a shorter way: it gives the same training, the same answers and the same complaints."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from tests.conftest import assert_same_training, scales

FEATURES = 5


def stream(count: int, dtype: type = np.float64, gaps: bool = False, seed: int = 0) -> np.ndarray:
    """Three clusters, and a change after two thirds."""
    rng = np.random.default_rng(seed)
    x = rng.normal(rng.normal(size=(3, FEATURES))[rng.integers(3, size=count)], 0.3) * [0.5, 0.4, 0.2, 0.3, 0.4]
    x[2 * count // 3 :] += 0.8
    if gaps:
        x[rng.random(x.shape) < 0.15] = np.nan
    return x.astype(dtype)


def mixture(**settings: Any) -> StreamingGaussianMixture:
    return StreamingGaussianMixture(6, random_state=0, **settings)


def without_caches(model: Any) -> Any:
    return pickle.loads(pickle.dumps(model))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("more", [{}, {"reheat": True}, {"half_life": 400.0}], ids=str)
@scales
def test_rows_one_by_one_are_learned_like_a_chunk(dtype: type, gaps: bool, more: dict[str, Any], scale: str) -> None:
    x = stream(2000, dtype, gaps)
    whole, single = (mixture(allow_nan=gaps, scale=scale, **more) for _ in range(2))
    whole.partial_fit(x)
    for i in range(len(x)):
        single.partial_fit(x[i : i + 1])
    assert_same_training(whole.trainer_, single.trainer_)


@given(cuts=st.lists(st.integers(1, 40), min_size=1, max_size=60), scored=st.booleans())
def test_rows_and_chunks_mix(cuts: list[int], scored: bool) -> None:
    x = stream(sum(cuts) + 300)
    whole, cut = mixture().partial_fit(x), mixture().partial_fit(x[:300])
    for start, size in zip(np.cumsum([300, *cuts]), cuts, strict=False):
        part = x[start : start + size]
        for i in range(len(part) if size % 2 else 0):
            cut.partial_fit(part[i : i + 1])
        if size % 2 == 0:
            cut.partial_fit(part)
        if scored:
            cut.score_samples(part[:1])
    assert_same_training(whole.trainer_, cut.trainer_)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("more", [{}, {"reheat": True}, {"half_life": 400.0}], ids=str)
@scales
def test_prepared_steps_are_those_of_any_chunk(dtype: type, gaps: bool, more: dict[str, Any], scale: str) -> None:
    x = stream(4000, dtype, gaps)
    settings = Settings(6, allow_nan=gaps, scale=scale, **more)
    plain, counted = (Trainer(settings, FEATURES, dtype, engine=Serial(), seed=0) for _ in range(2))
    found, expected = plain.feed(x), counted.feed(x, shares=np.ones(len(x)))  # shares need steps that are not prepared
    assert found == expected
    assert_same_training(plain, counted)


def test_a_detector_learns_rows_like_chunks() -> None:
    x = stream(3000)
    whole, single = (StreamingAnomalyDetector(mixture(), contamination=0.05) for _ in range(2))
    for part in np.split(x, 3):
        whole.partial_fit(part)
    for i in range(len(x)):
        single.partial_fit(x[i : i + 1])
    assert single.offset_ == whole.offset_ > -np.inf
    np.testing.assert_array_equal(single.p_values(x), whole.p_values(x))
    assert_same_training(whole.mixture_.trainer_, single.mixture_.trainer_)


@pytest.mark.parametrize("name", ["score_samples", "predict"])
@pytest.mark.parametrize("gaps", [False, True])
@scales
def test_a_row_is_answered_like_a_chunk(name: str, gaps: bool, scale: str) -> None:
    x = stream(1500, gaps=gaps)
    model = mixture(allow_nan=gaps, scale=scale).partial_fit(x)
    expected = getattr(model, name)(x[:200])
    found = np.concatenate([getattr(model, name)(x[i : i + 1]) for i in range(200)])
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("rows", [1, 3])
@scales
def test_answers_follow_the_training(rows: int, scale: str) -> None:
    """Whatever is remembered of an answer, it is that of the present model."""
    x, seen = stream(1200), set[float]()
    model = mixture(scale=scale).partial_fit(x[:600])
    for i in range(600, 900, rows):
        model.partial_fit(x[i : i + rows])
        score = model.score_samples(x[:1])
        np.testing.assert_array_equal(score, without_caches(model).score_samples(x[:1]))
        seen.add(float(score[0]))
    assert len(seen) > 100 / rows


def test_a_detector_judges_a_row_like_a_chunk() -> None:
    x = stream(3000, gaps=True)
    detector = StreamingAnomalyDetector(mixture(allow_nan=True), contamination=0.2).partial_fit(x)
    judged = [detector.predict(x[i : i + 1])[0] for i in range(300)]
    assert judged == detector.predict(x[:300]).tolist()
    assert set(judged) == {-1, 1}


BAD_ROWS = {
    "NaN": np.array([[1.0, np.nan, 0, 0, 0]]),
    "infinite": np.array([[1.0, 0, 0, -np.inf, 0]]),
    "too large": np.array([[1.0, 0, 0, 1e200, 0]]),
    "too wide": np.zeros((1, FEATURES + 1)),
    "too narrow": np.zeros((1, FEATURES - 1)),
    "flat": np.zeros(FEATURES),
    "deep": np.zeros((1, 1, FEATURES)),
    "text": np.array([["a"] * FEATURES]),
    "complex": np.zeros((1, FEATURES), np.complex128),
}


def complaint(call: Any, row: Any) -> tuple[type, str]:
    with pytest.raises((ValueError, TypeError)) as found:
        call(row)
    return found.type, str(found.value)


@pytest.mark.parametrize("row", BAD_ROWS.values(), ids=BAD_ROWS)
def test_bad_rows_are_refused_and_leave_no_trace(row: np.ndarray) -> None:
    """Lists take the long way."""
    x = stream(900)
    model, detector = mixture().partial_fit(x), StreamingAnomalyDetector(mixture()).partial_fit(x)
    long_way = row.tolist()
    for method in (model.partial_fit, model.score_samples, model.predict, detector.partial_fit, detector.predict):
        assert complaint(method, row) == complaint(method, long_way)
    assert_same_training(model.trainer_, mixture().partial_fit(x).trainer_)


@pytest.mark.parametrize(
    "row", [np.ones((1, FEATURES), np.float32), np.ones((1, 2 * FEATURES))[:, ::2], [[1.0] * FEATURES]], ids=str
)
def test_other_forms_of_a_row_are_learned_as_well(row: Any) -> None:
    model, twin = (mixture().partial_fit(stream(900)) for _ in range(2))
    model.partial_fit(row)
    twin.partial_fit(np.ones((1, FEATURES)))
    assert_same_training(model.trainer_, twin.trainer_)


def test_changed_parameters_are_noticed() -> None:
    x = stream(900)
    model, detector = mixture().partial_fit(x), StreamingAnomalyDetector(mixture()).partial_fit(x)
    for estimator, change in ((model, {"period": 77}), (detector, {"mixture__period": 77})):
        estimator.partial_fit(x[:1]).set_params(**change)
        with pytest.raises(ValueError, match="period is 77, but training began with None"):
            estimator.partial_fit(x[:1])
    detector.set_params(mixture__period=None, contamination=0.7)
    with pytest.raises(ValueError, match=r"contamination is 0\.7"):
        detector.partial_fit(x[:1])


def test_a_row_that_lacks_everything_is_skipped() -> None:
    model = mixture(allow_nan=True).partial_fit(stream(900, gaps=True))
    seen = model.n_samples_seen_
    model.partial_fit(np.full((1, FEATURES), np.nan))
    assert (model.n_rows_skipped_, model.n_samples_seen_) == (1, seen)


def test_a_frame_of_one_row_is_like_an_array() -> None:
    pd = pytest.importorskip("pandas")
    x, names = stream(1200), ["a", "b", "c", "d", "e"]
    frame = pd.DataFrame(x, columns=names)
    model, detector = mixture().partial_fit(frame[:900]), StreamingAnomalyDetector(mixture()).partial_fit(frame[:900])
    for i in range(900, len(x)):
        model.partial_fit(frame[i : i + 1])
        detector.partial_fit(frame[i : i + 1])
    assert_same_training(model.trainer_, mixture().partial_fit(x).trainer_)
    whole = StreamingAnomalyDetector(mixture()).partial_fit(frame)
    np.testing.assert_array_equal(detector.p_values(frame), whole.p_values(frame))
    np.testing.assert_array_equal(model.score_samples(frame[5:6]), model.score_samples(frame)[5:6])
    with pytest.raises(ValueError, match="feature names should match"):
        model.partial_fit(frame[:1].rename(columns={"a": "z"}))
    with pytest.raises(ValueError, match="same order"):
        model.score_samples(frame[:1][names[::-1]])
    with pytest.warns(UserWarning, match="does not have valid feature names"):
        model.score_samples(x[:1])
    model.partial_fit(frame[:1].astype({"a": object}))
    assert model.n_samples_seen_ == len(x) + 1
