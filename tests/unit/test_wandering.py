"""References of files in which time matters: rows are judged without a long time around them."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Monitor, Reference
from streamgmm.monitoring.monitor import FAR_PARTS
from streamgmm.monitoring.reference import CAUTION, MOST_CAUTION
from tests.conftest import make_trainer


def trained(x: np.ndarray) -> Trainer:
    trainer = make_trainer(x.shape[1], n_components=24, scale="auto")
    for seed in range(4):
        trainer.feed(np.random.default_rng(seed).permutation(x))
    trainer.flush()
    assert trainer.refine(x)
    return trainer


def wandering() -> np.ndarray:
    """States that change often, and levels that change slowly."""
    rng = np.random.default_rng(0)
    states = np.repeat(rng.normal(0, 8, (3, 3))[rng.integers(3, size=75)], 40, axis=0)
    level, kept = np.zeros((3000, 3)), np.exp(-1 / 600)
    for i in range(1, 3000):
        level[i] = kept * level[i - 1] + rng.normal(0, (1 - kept**2) ** 0.5, 3)
    return states + level + rng.normal(0, 0.3, (3000, 3))


def sorted_by_classes() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(np.repeat(rng.normal(0, 20, (20, 3)), 45, axis=0), 1.0)


def calibrated(x: np.ndarray) -> tuple[Monitor, Trainer, np.ndarray]:
    monitor, trainer = Monitor(), trained(x)
    return monitor, trainer, monitor.calibrate_on(x, trainer)


def test_slow_change_lowers_the_threshold() -> None:
    x = wandering()
    monitor, trainer, scores = calibrated(x)
    assert any((scores == trainer.cross_validated_scores(x, None, parts)).all() for parts in FAR_PARTS)
    assert CAUTION < monitor.reference.caution <= MOST_CAUTION
    assert np.quantile(scores, 0.01) < np.quantile(trainer.cross_validated_scores(x), 0.01) - 1


def test_a_file_that_is_sorted_by_classes_is_judged_by_neighbours() -> None:
    x = sorted_by_classes()
    monitor, trainer, scores = calibrated(x)
    np.testing.assert_array_equal(scores, trainer.cross_validated_scores(x))
    assert monitor.reference.caution == CAUTION


def test_without_change_caution_stays_small() -> None:
    monitor, *_ = calibrated(np.random.default_rng(0).normal(size=(3000, 3)))
    assert monitor.reference.caution < 1.5


def test_caution_is_kept_in_files() -> None:
    monitor = Monitor()
    monitor.reference = Reference.of(np.arange(100.0), caution=2.5)
    tensors = monitor.tensors()
    assert Monitor.from_tensors(tensors, 3).reference.caution == 2.5
    older = {name: value for name, value in tensors.items() if name != "reference.caution"}
    assert Monitor.from_tensors(older, 3).reference.caution == CAUTION
    with pytest.raises(ValueError, match=r"reference\.caution"):
        Monitor.from_tensors({**tensors, "reference.caution": np.array(np.nan)}, 3)
