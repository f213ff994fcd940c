"""Runs in a folder: what they look at, where they stand, and how far they read ahead."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture, events, keeping, running
from streamgmm.running import Journey
from streamgmm.streams.arrays import Array
from streamgmm.streams.base import Chunk, Position, Source

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


def model() -> StreamingGaussianMixture:
    return StreamingGaussianMixture(4, annealing=False, random_state=0)


@pytest.mark.parametrize("size", [1, 7, 500, 3000])
def test_one_row_in_sixteen_is_scored_whatever_the_chunks(tmp_path: Path, size: int) -> None:
    journey = Journey(tmp_path, Cut(ROWS, size), model(), passes=5)
    scored, all_at_first, add = 0, 0, journey.recent.scores.add

    def count(values: np.ndarray) -> None:
        nonlocal scored, all_at_first
        if len(journey.recent.scores) < running.ENOUGH_SCORES:
            all_at_first += len(values)
        scored += len(values)
        add(values)

    journey.recent.scores.add = count  # type: ignore[method-assign]
    seen = sum(1 for _ in journey.go())
    assert seen == 5 * -(-len(ROWS) // size)
    assert journey.place.samples == 5 * len(ROWS)
    assert running.ENOUGH_SCORES <= all_at_first < 2 * running.ENOUGH_SCORES + size
    sparse = (journey.place.samples - all_at_first) / running.SPARSE
    assert abs(scored - all_at_first - sparse) <= running.TOGETHER + size / running.SPARSE


def test_a_run_that_is_cut_anywhere_ends_where_a_whole_one_does(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "cut").mkdir()
    whole = Journey(tmp_path / "whole", Cut(ROWS, 1000), model(), passes=2, checkpoint_every=1)
    for _ in whole.go():
        pass
    cut = Journey(tmp_path / "cut", Cut(ROWS, 1000), model(), passes=2)
    for _ in range(18):
        next(cut.go())
        cut.save()
        found = keeping.resume(tmp_path / "cut")
        assert found is not None
        cut = Journey(tmp_path / "cut", Cut(ROWS, 1000), found[0].model, 2, place=found[1], recent=found[0].recent)
    assert list(cut.go()) == []  # nothing is left but to end
    assert cut.place.finished
    np.testing.assert_array_equal(cut.model.means_, whole.model.means_)
    assert cut.place.looked == whole.place.looked
    assert cut.recent.scores.__getstate__() == whole.recent.scores.__getstate__()
    np.testing.assert_array_equal(cut.recent.odd_numbers, whole.recent.odd_numbers)
    np.testing.assert_array_equal(cut.recent.odd_scores, whole.recent.odd_scores)


@pytest.mark.parametrize("far", [2.0, 1e4])
@pytest.mark.parametrize("settings", [{}, {"rule": "sgd"}, {"n_jobs": 2}, {"allow_nan": True}], ids=str)
def test_no_strange_row_is_overlooked(tmp_path: Path, far: float, settings: dict[str, Any]) -> None:
    """Though few rows are scored beforehand, and however far they lie: learning has seen each of them."""
    rng = np.random.default_rng(1)
    rows = np.tile(ROWS, (4, 1))
    strange = 10_000 + rng.choice(20_000, 6, replace=False)
    rows[strange] += far
    if "allow_nan" in settings:
        rows[12_000:30_000:7] = np.nan
        rows[strange] = far
    model = StreamingGaussianMixture(4, annealing=False, random_state=0, **settings)
    journey = Journey(tmp_path, Array("rows", rows), model, missing="learn" if model.allow_nan else "error")
    for _ in journey.go():
        pass
    recent = journey.recent
    assert set(strange) <= set(recent.odd_numbers)
    np.testing.assert_array_equal(recent.odd_rows, rows[recent.odd_numbers])
    assert (np.diff(recent.odd_scores) >= 0).all()


def test_the_next_pass_is_begun_while_the_one_before_is_learned(tmp_path: Path) -> None:
    source = Cut(ROWS[:2000], 1000)
    steps = Journey(tmp_path, source, model(), passes=3).go()
    next(steps)  # the first of two chunks
    deadline = time.monotonic() + 10
    while source.begun < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    assert source.begun >= 2
    assert sum(1 for _ in steps) == 5
    assert source.begun == 3


def test_the_position_after_all_passes_is_the_end_of_the_last(tmp_path: Path) -> None:
    journey = Journey(tmp_path, Array("rows", ROWS), model(), passes=2)
    for _ in journey.go():
        pass
    assert (journey.place.epoch, journey.place.position, journey.place.finished) == (1, {"row": len(ROWS)}, True)
    assert list(journey.go()) == []  # nothing new
    journey.passes = 3
    for _ in journey.go():
        pass
    assert journey.place.samples == 3 * len(ROWS)


def test_what_came_after_the_end_is_ended_too(tmp_path: Path) -> None:
    """Even if the last new row was in a checkpoint already, a pending batch is learned."""
    batches = StreamingGaussianMixture(4, annealing=False, batch_size=16, random_state=0)
    journey = Journey(tmp_path, Array("rows", ROWS[:1000]), batches, checkpoint_every=1)
    for _ in journey.go():
        pass
    journey.source = Array("rows", ROWS[:1010])
    for _ in journey.go():
        pass
    assert len(journey.model._training.pending) == 0
    kinds = [e["kind"] for e in events.read(tmp_path / keeping.EVENTS)]
    assert kinds.count("end") == 2
