"""What a run notes about the rows it learns: scores of typical rows, and the strangest rows."""

from __future__ import annotations

from heapq import nsmallest
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import rows_with_values
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Monitor
from streamgmm.monitoring.strangest import MOST_ROWS
from streamgmm.native import Steps
from streamgmm.storage.run_folder import Progress

ENOUGH_SCORES = 2000  # from then on only one row in SPARSE is scored before it is learned
SPARSE, TOGETHER = 16, 256  # and at least TOGETHER at once, if chunks are large enough
STRANGE = 25  # deviations below the typical loss; learning reports at most 30, however strange a sample is


class Observer:
    """Scores rows before they are learned, and keeps the strangest of them.

    Parameters
    ----------
    trainer : Trainer
        The training that learns the rows.
    monitor : Monitor
        Receives scores and rows.
    progress : Progress
        Remembers up to which sample rows were scored.
    """

    def __init__(self, trainer: Trainer, monitor: Monitor, progress: Progress) -> None:
        self._trainer, self._monitor, self._progress = trainer, monitor, progress

    def before(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float) -> None:
        """Score some rows before they are learned, once annealing is over."""
        behind = self._time + len(rows)
        unknown = self._trainer.settings.scale == "auto" and not self._trainer.n_samples  # nothing to score by
        if unknown or not self._trainer.annealed:
            self._progress.scored = behind
            return
        few = len(self._monitor.scores) < ENOUGH_SCORES
        wanted = len(rows) if few else (behind - self._progress.scored) // SPARSE
        if few or wanted >= TOGETHER:
            step = max(1, len(rows) // wanted)
            known = np.flatnonzero(rows_with_values(rows[::step])) * step
            self._progress.scored = behind if few else self._progress.scored + SPARSE * len(rows[::step])
            self._monitor.scores.add(self._note(rows[known], numbers[known], factor))

    def after(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float, reports: list[Steps]) -> None:
        """Keep the strangest of rows just learned: learning them one by one has scored each of them."""
        if self._trainer.batch_size > 1 or not reports:
            return
        level, deviation = self._trainer.typical_loss
        strangest = self._monitor.strangest
        limit = max(strangest.limit - self._trainer.offset, level - STRANGE * max(deviation, rows.shape[1] ** 0.5))
        # lists: NumPy would release the interpreter for a moment, and a reading thread would take it for longer
        found = [report.max_components.tolist() for report in reports]
        if min(map(min, found)) >= limit:
            return
        gaps = self._trainer.settings.allow_nan
        learned = np.flatnonzero(rows_with_values(rows)).tolist() if gaps else range(len(rows))
        learned = learned[len(learned) - sum(map(len, found)) :]  # without those that only gave the first frame
        known = set(strangest.numbers.tolist())  # those of an earlier pass
        new = (
            (v, i) for v, i in zip(chain(*found), learned, strict=True) if v < limit and int(numbers[i]) not in known
        )
        strange = [i for _, i in nsmallest(MOST_ROWS, new)]
        if strange:
            self._note(rows[strange], numbers[strange], factor)

    @property
    def _time(self) -> int:
        return self._trainer.n_samples + self._trainer.n_skipped

    def _note(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float) -> npt.NDArray[np.float64]:
        """Score rows and keep the strangest."""
        self._trainer.settle()
        some = rows if rows.dtype == np.uint8 else rows.astype(self._trainer.dtype, copy=False)
        scores = self._trainer.mixture.scores(some, factor).log_likelihood
        self._monitor.strangest.add(as_floats(some, factor), scores, numbers, self._time)
        return scores


def as_floats(rows: npt.NDArray[Any], factor: float) -> npt.NDArray[Any]:
    """Convert bytes to float32, times ``factor``; other rows stay as they are."""
    return rows * np.float32(factor) if rows.dtype == np.uint8 else rows
