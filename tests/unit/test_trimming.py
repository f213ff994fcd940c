"""Models of usual rows: what a detector does not learn, and what a run does not."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core import reference_thresholds as eq
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Monitor, calibrate_on_usual
from streamgmm.runs.refinement import refine_on_lasting
from tests.conftest import make_trainer

STATES = np.array([[0.0, 0, 0], [9.0, 9, 9], [0.0, 9, 0]])
BURST = slice(2000, 2012)


def rows(seed: int, count: int = 4000) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(STATES[rng.integers(3, size=count)], 1.0)


def log() -> np.ndarray:
    x = rows(0)
    x[BURST] = np.random.default_rng(1).normal([20.0, -20.0, 0.0], 0.1, (12, 3))
    return x


def trained(x: np.ndarray) -> Trainer:
    trainer = make_trainer(3, n_components=8, scale="auto")
    for seed in range(4):
        trainer.feed(np.random.default_rng(seed).permutation(x))
    trainer.flush()
    assert trainer.refine(x)
    return trainer


def like_the_burst(trainer: Trainer) -> float:
    return float(trainer.mixture.log_prob(np.array([[20.0, -20.0, 0.0]]))[0])


def test_a_detector_does_not_learn_the_strangest_rows() -> None:
    """[E45] They are scored all the same, and flagged together with usual rows."""
    x, monitor = log(), Monitor()
    trainer = trained(x)
    assert like_the_burst(trainer) > -10  # a component of its own
    scores = calibrate_on_usual(monitor, trainer, x, None, 0.01)
    assert like_the_burst(trainer) < -50
    assert set(range(2000, 2012)) <= eq.strangest(scores, 0.01)
    assert 0.005 < (trainer.mixture.log_prob(rows(2, 20_000)) < np.sort(scores)[39]).mean() < 0.015


def test_rows_that_count_nothing_are_not_among_the_strangest() -> None:
    x = log()
    trainer, counts = trained(x), np.ones(len(x))
    counts[BURST] = 0.0
    scores = calibrate_on_usual(Monitor(), trainer, x, counts, 0.01)
    assert np.isfinite(scores).all()
    assert like_the_burst(trainer) < -50


def test_a_run_does_not_learn_what_happened_once() -> None:
    """[E46]"""
    x = log()
    trainer = trained(x)
    burst = eq.in_bursts(np.asarray(trainer.cross_validated_scores(x), np.float64))
    assert np.flatnonzero(burst).tolist() == list(range(2000, 2012))
    learned = refine_on_lasting(trainer, x)
    assert learned is not None
    np.testing.assert_array_equal(np.flatnonzero(learned == 0), np.arange(2000, 2012))
    assert like_the_burst(trainer) < -50


@pytest.mark.parametrize("again", [500, 3500])
def test_what_happened_twice_is_learned(again: int) -> None:
    x = log()
    x[again : again + 12] = x[BURST]
    trainer = trained(x)
    learned = refine_on_lasting(trainer, x)
    assert learned is not None
    assert learned.all()
    assert like_the_burst(trainer) > -10


def test_a_large_part_of_a_file_is_learned_even_if_it_is_sorted() -> None:
    x = rows(0)[np.argsort(np.random.default_rng(0).integers(3, size=4000), kind="stable")]
    x[-200:] = np.random.default_rng(1).normal([20.0, -20.0, 0.0], 1.0, (200, 3))
    learned = refine_on_lasting(trained(x), x)
    assert learned is not None
    assert learned.all()
