"""What a run writes to its event file, and how often."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.control import Check
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring.strangest import short_id
from streamgmm.sources import BadRow
from streamgmm.storage import events
from streamgmm.storage.run_folder import EVENTS, Progress

BAD_REPORTED, BAD_TOGETHER = 1000, 10  # bad rows after which no more events follow, and how many go into one
CHECKS_PER_LENGTH = 200  # of a run: once annealing is over, a check waits for half a percent more samples


class RowIds(NamedTuple):
    """Ids of rows that were learned together, so that a check can say how far the source had come.

    Parameters
    ----------
    ids : mapping of int to id
        Ids by row number.
    numbers : array of shape (N,)
        Numbers of the rows.
    before : int
        Samples learned before them.
    """

    ids: Mapping[int, Any]
    numbers: npt.NDArray[np.int64]
    before: int

    def at(self, check: Check) -> dict[str, Any]:
        """Return the id of the row that completed the period, as a field of an event; none if it has no id."""
        last = min(max(check.samples - self.before, 1), len(self.numbers)) - 1
        found = short_id(self.ids.get(int(self.numbers[last])))
        return {} if found is None else {"row_id": found}


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

    @property
    def seconds(self) -> float:
        """Seconds since the run began, without the time between a stop and a resume."""
        return time.perf_counter() - self._started_at

    @property
    def size(self) -> int:
        """Bytes of the event file."""
        return self._path.stat().st_size

    def write(self, kind: str, trainer: Trainer, **fields: Any) -> None:
        """Write one event."""
        events.append(self._path, events.record(kind, trainer.current(), self.seconds, **fields))

    def write_checks(
        self,
        checks: list[Check],
        sigma_min: float,
        *,
        shuffled: bool = False,
        rows: RowIds | None = None,
        figures: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        """Write checks: all of them during annealing, later only a few; and drifts always.

        Shuffled rows have no drift: what looks like one is chance. ``rows`` tell the id at each check, and ``figures``
        are added to every event.
        """
        seconds, records = self.seconds, []
        for check in checks:
            if shuffled:
                check = check._replace(drift=False)
            fields = {**figures, **({} if rows is None or shuffled else rows.at(check))}
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
