"""Rows that a model was refined on score better than new ones; what samples of them say is corrected."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core import reference_thresholds
from streamgmm.monitoring import Monitor, Reference
from streamgmm.monitoring.optimism import LEVELS, NONE, Optimism

SCORES = np.random.default_rng(0).normal(size=500)


@given(st.integers(1, 300), st.integers(0, 1000), st.integers(0, 3))
def test_scores_are_lowered_as_in_the_reference(count: int, later: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    gaps, scores = rng.exponential(size=len(LEVELS)), rng.normal(size=count)
    expected = reference_thresholds.without_optimism(scores, gaps, 100, 100 + later)
    np.testing.assert_allclose(Optimism(gaps, 100).without(scores, 100 + later), expected, rtol=1e-12, atol=1e-12)


def test_the_correction_gives_the_reference_back() -> None:
    low = Reference.of(SCORES - 2)
    corrected = Optimism.of(SCORES, low, 500).without(SCORES, 500)
    np.testing.assert_allclose(np.quantile(corrected, LEVELS), np.quantile(SCORES - 2, LEVELS), atol=0.1)  # of spacings


def test_without_refinement_nothing_changes() -> None:
    np.testing.assert_array_equal(NONE.without(SCORES, 500), np.sort(SCORES))


@pytest.mark.parametrize("memory", [inf, 1e9])
def test_half_of_the_correction_is_left_when_the_stream_has_doubled(memory: float) -> None:
    lowered = Optimism(np.ones(len(LEVELS)), 500).without(SCORES, 1000, memory)
    np.testing.assert_allclose(lowered, np.sort(SCORES) - 0.5, atol=1e-5)


def test_a_sample_that_forgets_needs_no_correction_later() -> None:
    lowered = Optimism(np.ones(len(LEVELS)), 500).without(SCORES, 2000, 100.0)
    np.testing.assert_allclose(lowered, np.sort(SCORES), atol=1e-6)


def test_it_is_kept_in_files_with_the_rows() -> None:
    monitor = Monitor.from_tensors({**Monitor().tensors(), **Optimism(np.ones(len(LEVELS)), 7).tensors()}, 3)
    assert "optimism.seen" not in monitor.tensors(rows=False)
    kept = monitor.tensors()
    assert kept["optimism.seen"] == 7
    np.testing.assert_array_equal(kept["optimism.gaps"], np.ones(len(LEVELS)))


@pytest.mark.parametrize(
    "damage",
    [
        {"optimism.gaps": np.full(len(LEVELS), np.nan)},
        {"optimism.gaps": -np.ones(len(LEVELS))},
        {"optimism.gaps": np.ones(3)},
        {"optimism.seen": np.array(-1)},
    ],
)
def test_damaged_files_are_refused(damage: dict[str, np.ndarray]) -> None:
    whole = {**Monitor().tensors(), **Optimism(np.ones(len(LEVELS)), 7).tensors()}
    with pytest.raises(ValueError, match="optimism"):
        Monitor.from_tensors({**whole, **damage}, 3)


def test_a_fitted_detector_that_learns_on_flags_as_few_usual_rows() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(4000, 10)) @ rng.normal(size=(10, 10))
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(32, random_state=1)).fit(x[:1000])
    detector.partial_fit(x[1000:1400])
    assert 0.003 < (detector.predict(x[2000:]) < 0).mean() < 0.011  # 0.0145 where learned rows are taken for new ones
