"""The end of a run on a small file: all rows are read once more and refine the model by batch EM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.passes import MOST_REFINED
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Monitor, refine_on_lasting
from streamgmm.runs.observer import as_floats

MOST_NUMBERS = 1 << 24  # of all rows, which are in memory as float64: 128 MB, and about four times that while EM runs


class AllRows(NamedTuple):
    """All rows of a source that a run learns, with their numbers."""

    rows: npt.NDArray[Any]
    numbers: npt.NDArray[np.int64]


def can_refine(trainer: Trainer, n_rows: int) -> bool:
    """Return whether a training of so many rows is refined: raw data, annealed, and few enough rows.

    Parameters
    ----------
    trainer : Trainer
        The training at its end.
    n_rows : int
        Rows of the source.
    """
    numbers = n_rows * trainer.n_features
    small = numbers <= MOST_NUMBERS and n_rows * trainer.n_numbers <= MOST_REFINED
    return small and trainer.settings.scale == "auto" and trainer.annealed


def gather(parts: Iterable[AllRows], trainer: Trainer, factor: float) -> AllRows | None:
    """Return all rows as float64; None if there are too many.

    Parameters
    ----------
    parts : iterable of AllRows
        The rows, in the order of the source.
    trainer : Trainer
        The training.
    factor : float
        Factor for rows of bytes.
    """
    found, count = list[AllRows](), 0
    for rows, numbers in parts:
        values = as_floats(rows, factor).astype(np.float64)
        count += len(rows)
        if not can_refine(trainer, count):
            return None
        found.append(AllRows(values, numbers))
    return AllRows(*(np.concatenate(values) for values in zip(*found, strict=True))) if found else None


def refine(trainer: Trainer, monitor: Monitor, every: AllRows, *, in_time: bool) -> npt.NDArray[np.int64] | None:
    """Refine a model and score all rows anew, out of sample; return numbers of rows it is refined without, or None.

    None means that it was not possible.

    Parameters
    ----------
    trainer : Trainer
        The training at its end.
    monitor : Monitor
        Receives scores and the strangest rows.
    every : AllRows
        All rows.
    in_time : bool
        Whether their order may be that of time: then rows that describe a single moment are not learned ([E46]).
    """
    learned = refine_on_lasting(trainer, every.rows) if in_time else np.ones(len(every.rows))
    if learned is None or not (in_time or trainer.refine(every.rows)):
        return None
    rows = every.rows.astype(trainer.dtype, copy=False)
    scores = monitor.calibrate_on(rows, trainer, learned=learned)
    monitor.strangest.clear()
    monitor.strangest.add(rows, scores, every.numbers, trainer.n_samples + trainer.n_skipped)
    return every.numbers[learned == 0]
