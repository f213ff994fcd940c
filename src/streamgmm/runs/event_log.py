"""What a run writes to its event file, and how often."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.control import Check
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring.strangest import short_id
from streamgmm.sources import BadRow
from streamgmm.storage import events
from streamgmm.storage.event_thinning import MOST_BYTES, thin, written
from streamgmm.storage.run_folder import EVENTS, Progress

BAD_REPORTED, BAD_TOGETHER = 1000, 10  # bad rows after which no more events follow, and how many go into one
CHECKS_PER_LENGTH = 200  # of a run: once annealing is over, a check waits for half a percent more samples


class LearnedRows(NamedTuple):
    """Rows that were learned together, so that a check among them can say how far the source had come.

    Parameters
    ----------
    numbers : array of shape (N,)
        Numbers of the rows.
    before : int
        Samples learned before them.
    ids : mapping of int to id or None, default=None
        Ids by row number, if the source has some, in its order.
    figures : callable or None, default=None
        Returns what was judged so far, without so many of the latest rows.
    """

    numbers: npt.NDArray[np.int64]
    before: int
    ids: Mapping[int, Any] | None = None
    figures: Callable[[int], dict[str, Any]] | None = None

    def at(self, check: Check) -> dict[str, Any]:
        """Return the fields of an event that tell about the row that completed the period, and those before it."""
        count = min(max(check.samples - self.before, 1), len(self.numbers))
        found = {} if self.figures is None else self.figures(len(self.numbers) - count)
        row_id = None if self.ids is None else short_id(self.ids.get(int(self.numbers[count - 1])))
        return found if row_id is None else {**found, "row_id": row_id}


class EventLog:
    """Writes events to a run folder; rarely enough that the file stays small however long the run.

    Parameters
    ----------
    folder : Path
        The run folder.
    progress : Progress
        Remembers what was written last, and for how many seconds the run has lasted.
    """

    def __init__(self, folder: Path, progress: Progress) -> None:
        self._path, self._progress = folder / EVENTS, progress
        self._started_at = time.perf_counter() - progress.seconds
        self._last_place, self._most = progress.events, MOST_BYTES

    @property
    def seconds(self) -> float:
        """Seconds since the run began, without the time between a stop and a resume."""
        return time.perf_counter() - self._started_at

    @property
    def place(self) -> int:
        """Bytes of events that the run has written."""
        return written(self._path)

    def thin(self) -> None:
        """Remove old events if there are too many; called after a checkpoint.

        What was written since the checkpoint before it stays as it is: the run may have to resume from that one.
        """
        if self._path.stat().st_size > self._most:
            self._most = max(self._most, 2 * thin(self._path, self._last_place, self._most))
        self._last_place = self._progress.events

    def write(self, kind: str, trainer: Trainer, **fields: Any) -> None:
        """Write one event."""
        events.append(self._path, events.record(kind, trainer.current(), self.seconds, **fields))

    def write_checks(self, checks: list[Check], rows: LearnedRows, sigma_min: float, *, shuffled: bool = False) -> None:
        """Write checks among rows: all of them during annealing, later only a few; and drifts always.

        Shuffled rows have no drift: what looks like one is chance.
        """
        seconds, records = self.seconds, []
        for check in checks:
            if shuffled:
                check = check._replace(drift=False)
            fields = rows.at(check)
            if check.drift:
                self._progress.drifts += 1
                records.append(events.record("drift", check, seconds, **fields))
            quiet = not check.drift and check.sigma <= sigma_min
            if quiet and check.samples < self._progress.last_check_event * (1 + 1 / CHECKS_PER_LENGTH):
                continue
            records.append(events.record("check", check, seconds, **fields))
            self._progress.last_check_event = check.samples
        if records:
            events.append(self._path, *records)

    def write_bad(self, bad: tuple[BadRow, ...], trainer: Trainer) -> None:
        """Report skipped rows, the first thousand of a run."""
        if bad and self._progress.bad < BAD_REPORTED:
            first = [row._asdict() for row in bad[:BAD_TOGETHER]]
            self.write("bad", trainer, count=len(bad), first=first)

    def write_checkpoint(self, trainer: Trainer, figures: Mapping[str, Any]) -> None:
        """Write that a checkpoint follows."""
        self.write("checkpoint", trainer, position=self._progress.position, **figures)
        self._progress.last_checkpoint_event = self._progress.samples

    @property
    def checkpoint_due(self) -> bool:
        """Whether a checkpoint deserves an event of its own."""
        return self._progress.samples >= self._progress.last_checkpoint_event * (1 + 1 / CHECKS_PER_LENGTH)
