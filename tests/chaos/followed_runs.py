"""Runs that follow a broker while something happens to it."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import open_source
from streamgmm.storage.run_folder import latest_checkpoint

PATIENCE = 120.0  # seconds after which a run that does not get its rows has failed


class Followed(NamedTuple):
    """A run that has stopped, and what it has said on the way."""

    run: TrainingRun
    said: str

    @property
    def parameters(self) -> dict[str, np.ndarray]:
        """Everything learned, by name."""
        assert self.run.trainer is not None
        return self.run.trainer.tensors()


def follow(
    folder: Path,
    url: str,
    enough: int,
    disturb: Callable[[], Timer | None] = lambda: None,
    at: int = 1,
    **reading: Any,
) -> Followed:
    """Follow a source until so many rows are learned or skipped; disturb it after ``at`` of them.

    A run in the same folder is resumed.
    """
    folder.mkdir(exist_ok=True)
    source = open_source(url, follow=True, **reading)
    run = TrainingRun(folder, source, Settings(4), Serial(), RunOptions(passes=None, checkpoint_seconds=0.5))
    known, waiting, timers = latest_checkpoint(folder), [disturb], list[Timer]()
    until = time.monotonic() + PATIENCE
    if known is not None:
        assert run.resume(*known)

    def stop() -> bool:
        assert time.monotonic() < until, (
            f"{run.progress.samples} rows and {run.progress.bad} bad ones of {enough} arrived"
        )
        return run.progress.samples + run.progress.bad >= enough

    run.stop = stop
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            for status in run.go():
                if waiting and status.samples >= at and (timer := waiting.pop()()) is not None:
                    timers.append(timer)
    finally:
        for timer in timers:
            timer.join()
        source.close()
    assert not waiting, "the run was not disturbed"
    return Followed(run, " ".join(str(w.message) for w in told))


def assert_same_parameters(here: Followed, there: Followed) -> None:
    """Two runs have learned the same rows in the same order."""
    found, expected = here.parameters, there.parameters
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


def later(seconds: float, *actions: Callable[[], object]) -> Timer:
    """Do something after a while, in another thread."""
    timer = Timer(seconds, lambda: [action() for action in actions])
    timer.daemon = True
    timer.start()
    return timer


@contextmanager
def impatient() -> Iterator[None]:
    """Let Kafka's clients give up soon, and read small blocks."""
    kafka = "streamgmm.sources.kafka"
    with (
        patch(f"{kafka}.TIMEOUT_SECONDS", 1.0),
        patch(f"{kafka}_partitions.TIMEOUT_SECONDS", 1.0),
        patch(f"{kafka}.BLOCK_BYTES", 100),
    ):
        yield


def vectors(count: int) -> list[bytes]:
    """Return messages, each a vector of three numbers."""
    return [row.tobytes() for row in np.random.default_rng(0).normal(size=(count, 3)).astype("<f4")]
