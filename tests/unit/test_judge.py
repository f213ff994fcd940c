"""Verdicts about rows with gaps: as often wrong as those about whole rows, and as often right."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Judge, Monitor
from tests.conftest import make_trainer

STATES = np.array([[0.0, 0, 0, 0], [9.0, 9, 9, 9]])


def rows(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(STATES[rng.integers(2, size=count)], [1.0, 1.0, 2.0, 0.1])


@pytest.fixture(scope="module")
def learned() -> tuple[Trainer, Monitor]:
    trainer, monitor = make_trainer(4, n_components=4, allow_nan=True, scale="auto"), Monitor()
    x = rows(8192, 0)
    for start in range(0, len(x), 256):
        trainer.feed(x[start : start + 256])
        monitor.add(x[start : start + 256], trainer)
    monitor.calibrate(trainer)
    return trainer, monitor


@pytest.mark.parametrize("gaps", [[], [0], [3], [0, 1], [1, 2, 3]], ids=str)
def test_usual_rows_are_flagged_as_often_with_any_gaps(learned: tuple[Trainer, Monitor], gaps: list[int]) -> None:
    trainer, monitor = learned
    x = rows(20_000, 1)
    x[:, gaps] = np.nan
    scores = trainer.mixture.log_prob(x)
    p_values, thresholds = Judge(trainer, monitor).judge(x, scores, 0.02)
    assert 0.012 < (scores < thresholds).mean() < 0.03
    assert 0.4 < (p_values <= 0.5).mean() < 0.6
    assert 0.005 < (p_values <= 0.01).mean() < 0.016


@pytest.mark.parametrize("gaps", [[], [0], [0, 2]], ids=str)
def test_strange_rows_are_found_by_what_they_have(learned: tuple[Trainer, Monitor], gaps: list[int]) -> None:
    trainer, monitor = learned
    x = rows(500, 2)
    x[:, 3] += 3.0  # thirty deviations
    x[:, gaps] = np.nan
    scores = trainer.mixture.log_prob(x)
    p_values, thresholds = Judge(trainer, monitor).judge(x, scores, 0.01)
    assert (scores < thresholds).all()
    assert (p_values < 1e-4).all()


def test_each_row_is_judged_by_its_own_gaps(learned: tuple[Trainer, Monitor]) -> None:
    trainer, monitor = learned
    x = rows(300, 3)
    x[np.random.default_rng(4).random(x.shape) < 0.2] = np.nan
    scores = trainer.mixture.log_prob(x)
    together = Judge(trainer, monitor).judge(x, scores, 0.05)
    judge = Judge(trainer, monitor)
    for i in range(len(x)):
        alone = judge.judge(x[i : i + 1], scores[i : i + 1], 0.05)
        assert (alone.p_values[0], alone.thresholds[0]) == (together.p_values[i], together.thresholds[i])


def test_without_rows_the_model_itself_is_sampled(learned: tuple[Trainer, Monitor]) -> None:
    trainer, monitor = learned
    bare = Monitor.from_tensors(monitor.tensors(rows=False), 4)
    x = rows(20_000, 5)
    x[:, 1] = np.nan
    scores = trainer.mixture.log_prob(x)
    assert 0.01 < (scores < Judge(trainer, bare).judge(x, scores, 0.02).thresholds).mean() < 0.035


def test_nothing_is_judged_before_anything_is_known() -> None:
    trainer = make_trainer(4, n_components=4)
    p_values, thresholds = Judge(trainer, Monitor()).judge(rows(5, 0), np.zeros(5), 0.01)
    assert p_values.tolist() == [1.0] * 5
    assert (thresholds == -np.inf).all()


def test_a_snapshot_outlives_a_file_and_later_rows(learned: tuple[Trainer, Monitor]) -> None:
    """Rows are judged by the model after the last multiple of 256 rows, bit for bit."""
    trainer, _ = learned
    monitor, x = Monitor(), rows(300, 6)
    before = trainer.mixture_of(monitor.snapshot(trainer)).log_prob(x)
    trainer.feed(x[:100])
    monitor.add(x[:100], trainer)
    again = Monitor.from_tensors(monitor.tensors(), 4)
    for known in (monitor, again):
        np.testing.assert_array_equal(trainer.mixture_of(known.snapshot(trainer)).log_prob(x), before)
    trainer.feed(x[100:256])
    monitor.add(x[100:256], trainer)
    assert (trainer.mixture_of(monitor.snapshot(trainer)).log_prob(x) != before).any()
