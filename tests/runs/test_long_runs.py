"""Runs that last: their event files stay small, extreme values do not stop them, and absent files are named."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from streamgmm.core.settings import Settings
from streamgmm.dashboard.follower import Follower
from streamgmm.engines import Serial
from streamgmm.runs.absence import Absence
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.storage import events
from streamgmm.storage.event_thinning import read_thinned
from streamgmm.storage.run_folder import EVENTS, MODEL, PREVIOUS, latest_checkpoint, truncate_events
from tests.runs.test_train_run import Cut

ROWS = np.random.default_rng(0).normal(0.5, 0.2, (8000, 3))
MOST = 6000


def training(folder: Path, rows: np.ndarray = ROWS, scale: str = "none") -> TrainingRun:
    folder.mkdir(exist_ok=True)
    options = RunOptions(passes=1, shuffle="no", checkpoint_every=500, scale=scale)
    return TrainingRun(folder, Cut(rows, 100), Settings(4), Serial(), options)


def go(run: TrainingRun, samples: int | None = None) -> None:
    run.stop = lambda: samples is not None and run.progress.samples >= samples
    for _ in run.go():
        pass


def samples_of(folder: Path, kind: str | None = None) -> list[int]:
    return [e["samples"] for e in events.read(folder / EVENTS) if kind in (None, e["kind"])]


@pytest.fixture
def small_file() -> Iterator[None]:
    with patch("streamgmm.runs.event_log.MOST_BYTES", MOST):
        yield


@pytest.mark.usefixtures("small_file")
class TestThinnedEvents:
    def test_a_run_keeps_its_event_file_small(self, tmp_path: Path) -> None:
        go(training(tmp_path / "run"))
        assert read_thinned(tmp_path / "run" / EVENTS).removed > 0
        assert (tmp_path / "run" / EVENTS).stat().st_size < 2 * MOST
        found = samples_of(tmp_path / "run")
        assert (found[0], found[-1]) == (0, 8000)
        assert found == sorted(found)
        assert samples_of(tmp_path / "run", "start") == [0]

    @pytest.mark.parametrize("name", [MODEL, PREVIOUS])
    def test_events_end_where_the_checkpoint_does_that_a_run_resumes_from(self, tmp_path: Path, name: str) -> None:
        go(training(tmp_path / "run"), 7000)
        folder = tmp_path / "run"
        if name == PREVIOUS:
            shutil.copy(folder / PREVIOUS, folder / MODEL)
        known = latest_checkpoint(folder)
        assert known is not None
        progress = known[1].progress
        truncate_events(folder, progress)
        assert max(samples_of(folder)) <= progress.samples
        run = training(folder)
        run.resume(*known)
        go(run)
        found = samples_of(folder)
        assert found == sorted(found)
        assert found[-1] == 8000

    def test_the_page_reads_a_thinned_file_anew(self, tmp_path: Path) -> None:
        run = training(tmp_path / "run")
        follower = Follower(tmp_path / "run")
        run.stop = lambda: False
        for _ in run.go():
            follower.poll()
        follower.poll()
        shown = follower.history.points["samples"]
        assert shown == sorted(set(shown))
        fresh = Follower(tmp_path / "run")
        fresh.poll()
        assert shown == fresh.history.points["samples"]
        assert follower.state == "The run has ended."


@pytest.mark.parametrize("scale", ["none", "minmax", "standard"])
@pytest.mark.parametrize("value", [1e60, -1e149])
def test_an_extreme_value_does_not_end_a_run(tmp_path: Path, scale: str, value: float) -> None:
    rows = ROWS[:3000].copy()
    rows[2500, 1] = value
    go(training(tmp_path / "run", rows, scale))
    known = latest_checkpoint(tmp_path / "run")
    assert known is not None
    assert known[1].progress.samples == 3000
    assert known[0].monitor is not None
    assert 2500 in known[0].monitor.strangest.numbers


def test_a_file_that_stays_away_is_named_once_and_welcomed_back() -> None:
    now = [0.0]
    with patch("streamgmm.runs.absence.time.monotonic", lambda: now[0]), warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        absence = Absence("x.csv")
        for gone, seconds in ((True, 0.0), (True, 3.0), (False, 4.0), (True, 10.0), (True, 16.0), (True, 99.0)):
            now[0] = seconds
            absence.note(gone=gone)
        absence.note(gone=False)
        absence.note(gone=False)
    assert [str(w.message) for w in told] == ["x.csv is gone; waiting until it is back.", "x.csv is back."]
