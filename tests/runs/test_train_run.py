"""Runs in a folder: what they look at, where they stand, and how far they read ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.core.settings import Settings
from streamgmm.engines import engine_for
from streamgmm.monitoring import Reservoir
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import Chunk, Position, Source
from streamgmm.sources.numpy_files import ArraySource
from streamgmm.storage import events
from streamgmm.storage.run_folder import EVENTS, latest_checkpoint

ROWS = np.random.default_rng(0).normal(0.5, 0.2, (9000, 3)).astype(np.float32)


class Cut(Source):
    """Rows in chunks of a given size; remembers which passes were begun."""

    name = "rows"

    def __init__(self, rows: np.ndarray, size: int) -> None:
        self._rows, self._size, self.begun = rows, size, 0

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        self.begun += 1
        for at in range((start or {"row": 0})["row"], len(self._rows), self._size):
            rows = self._rows[at : at + self._size]
            yield Chunk(rows, np.arange(at, at + len(rows)), {"row": at + len(rows)})


def training(
    folder: Path, source: Source, settings: dict[str, Any] | None = None, jobs: int = 1, **options: Any
) -> TrainingRun:
    chosen = Settings(4, annealing=False, **{"scale": "none", **(settings or {})})
    return TrainingRun(folder, source, chosen, engine_for(jobs), RunOptions(**options))


def finish(run: TrainingRun) -> TrainingRun:
    for _ in run.go():
        pass
    return run


@pytest.mark.parametrize(("size", "passes"), [(1, 2), (7, 3), (3000, 5)])
def test_rows_are_sampled_once_whatever_the_chunks(tmp_path: Path, size: int, passes: int) -> None:
    run = training(tmp_path, Cut(ROWS, size), passes=passes)
    seen = sum(1 for _ in run.go())
    assert seen == passes * -(-len(ROWS) // size)
    assert run.progress.samples == passes * len(ROWS)
    expected = Reservoir(2000)
    expected.add(ROWS)
    assert run.monitor.reservoir is not None
    np.testing.assert_array_equal(run.monitor.reservoir.rows, expected.rows)


def test_a_run_that_is_cut_anywhere_ends_where_a_whole_one_does(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = finish(training(tmp_path / "whole", Cut(ROWS, 1000), passes=2, checkpoint_every=1))
    cut = training(tmp_path / "cut", Cut(ROWS, 1000), passes=2)
    for _ in range(18):
        next(cut.go())
        cut.save()
        found = latest_checkpoint(tmp_path / "cut")
        assert found is not None
        cut = training(tmp_path / "cut", Cut(ROWS, 1000), passes=2)
        assert cut.resume(*found)
    assert list(cut.go()) == []  # nothing is left but to end
    assert cut.progress.finished
    assert cut.trainer is not None
    assert whole.trainer is not None
    np.testing.assert_array_equal(cut.trainer.mixture.means, whole.trainer.mixture.means)
    for name, tensor in whole.monitor.tensors().items():
        np.testing.assert_array_equal(cut.monitor.tensors()[name], tensor, err_msg=name)
    np.testing.assert_array_equal(cut.monitor.strangest.numbers, whole.monitor.strangest.numbers)
    np.testing.assert_array_equal(cut.monitor.strangest.scores, whole.monitor.strangest.scores)


@pytest.mark.parametrize("far", [2.0, 1e4])
@pytest.mark.parametrize(
    ("settings", "jobs"),
    [({}, 1), ({"rule": "sgd"}, 1), ({}, 2), ({"allow_nan": True}, 1), ({"scale": "auto"}, 1)],
    ids=str,
)
def test_no_strange_row_is_overlooked(tmp_path: Path, far: float, settings: dict[str, Any], jobs: int) -> None:
    """Though few rows are scored beforehand, and however far they lie: learning has seen each of them."""
    rng = np.random.default_rng(1)
    rows = np.tile(ROWS, (4, 1))
    strange = 10_000 + rng.choice(20_000, 6, replace=False)
    rows[strange] += far
    if "allow_nan" in settings:
        rows[12_000:30_000:7] = np.nan
        rows[strange] = far
    missing = "learn" if "allow_nan" in settings else "error"
    run = finish(training(tmp_path, ArraySource("rows", rows), settings, jobs, missing=missing))
    found = run.monitor.strangest
    assert set(strange) <= set(found.numbers)
    np.testing.assert_array_equal(found.rows, rows[found.numbers])
    assert (np.diff(found.scores) >= 0).all()


def test_the_next_pass_is_begun_while_the_one_before_is_learned(tmp_path: Path) -> None:
    source = Cut(ROWS[:2000], 1000)
    steps = training(tmp_path, source, passes=3).go()
    next(steps)  # the first of two chunks
    deadline = time.monotonic() + 10
    while source.begun < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert source.begun >= 2
    assert sum(1 for _ in steps) == 5
    assert source.begun == 3


def test_the_position_after_all_passes_is_the_end_of_the_last(tmp_path: Path) -> None:
    run = finish(training(tmp_path, ArraySource("rows", ROWS), passes=2))
    progress = run.progress
    assert (progress.epoch, progress.position, progress.finished) == (1, {"row": len(ROWS)}, True)
    assert list(run.go()) == []  # nothing new
    run.options = RunOptions(passes=3)
    assert finish(run).progress.samples == 3 * len(ROWS)


def test_what_came_after_the_end_is_ended_too(tmp_path: Path) -> None:
    """Even if the last new row was in a checkpoint already, a pending batch is learned."""
    source = ArraySource("rows", ROWS[:1000])
    run = finish(training(tmp_path, source, {"batch_size": 16}, checkpoint_every=1))
    run.source = ArraySource("rows", ROWS[:1010])
    finish(run)
    assert run.trainer is not None
    assert run.trainer.n_pending == 0
    kinds = [e["kind"] for e in events.read(tmp_path / EVENTS)]
    assert kinds.count("end") == 2
