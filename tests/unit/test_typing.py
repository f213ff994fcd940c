"""What a type checker of a user sees: ``make lint`` checks the types of this file."""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture

ROWS = np.random.default_rng(0).normal(size=(200, 2))


def test_a_mixture_keeps_its_type(tmp_path: Path) -> None:
    mixture = StreamingGaussianMixture(2)
    assert assert_type(mixture.fit(ROWS), StreamingGaussianMixture) is mixture
    assert assert_type(mixture.partial_fit(ROWS), StreamingGaussianMixture) is mixture
    mixture.save(tmp_path / "model")
    loaded = assert_type(StreamingGaussianMixture.load(tmp_path / "model"), StreamingGaussianMixture)
    assert type(loaded) is StreamingGaussianMixture


def test_a_detector_keeps_its_type(tmp_path: Path) -> None:
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(2))
    assert assert_type(detector.fit(ROWS), StreamingAnomalyDetector) is detector
    assert assert_type(detector.partial_fit(ROWS), StreamingAnomalyDetector) is detector
    detector.save(tmp_path / "model")
    loaded = assert_type(StreamingAnomalyDetector.load(tmp_path / "model"), StreamingAnomalyDetector)
    assert type(loaded) is StreamingAnomalyDetector
