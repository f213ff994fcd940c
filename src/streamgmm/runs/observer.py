"""What a run notes about the rows it learns: the strangest of them."""

from __future__ import annotations

from collections.abc import Mapping
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

STRANGE = 25  # deviations below the typical loss; learning reports at most 30, however strange a sample is


class Observer:
    """Keeps the strangest of the rows that were learned.

    Parameters
    ----------
    trainer : Trainer
        The training that learns the rows.
    monitor : Monitor
        Receives the rows.
    ids : mapping of int to id or None, default=None
        Ids of the rows by their numbers, if the source has some.
    """

    def __init__(self, trainer: Trainer, monitor: Monitor, ids: Mapping[int, Any] | None = None) -> None:
        self._trainer, self._monitor, self._ids = trainer, monitor, ids

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

    def _note(self, rows: npt.NDArray[Any], numbers: npt.NDArray[Any], factor: float) -> None:
        """Score rows and keep the strangest."""
        trainer = self._trainer
        trainer.settle()
        some = rows if rows.dtype == np.uint8 else rows.astype(trainer.dtype, copy=False)
        scores = trainer.mixture.scores(some, factor).log_likelihood
        time = trainer.n_samples + trainer.n_skipped
        ids = None if self._ids is None else [self._ids.get(number) for number in numbers.tolist()]
        self._monitor.strangest.add(as_floats(some, factor), scores, numbers, time, ids)


def as_floats(rows: npt.NDArray[Any], factor: float) -> npt.NDArray[Any]:
    """Convert bytes to float32, times ``factor``; other rows stay as they are."""
    return rows * np.float32(factor) if rows.dtype == np.uint8 else rows
