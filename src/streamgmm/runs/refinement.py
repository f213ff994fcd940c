"""The end of a run on a small file: all rows are read once more and refine the model by batch EM."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.passes import can_refine_all
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Monitor, Reference
from streamgmm.monitoring.gaps import fill_gaps
from streamgmm.runs.observer import as_floats
from streamgmm.sources.content_order import content_order

MOST_NUMBERS = 1 << 24  # of all rows, which are in memory as float64: 128 MB, and about four times that while EM runs
ROUNDS = 2  # in which rows of bursts are found; those that were hidden by others show in the second
NEAR, FEWEST = 10, 3  # rows on each side of an outlier, and outliers among them, itself included, that make a burst
MOST_IN_BURSTS = 0.03  # share of rows


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
    small = numbers <= MOST_NUMBERS and can_refine_all(n_rows, trainer.n_numbers)
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
    if learned is None or not (in_time or _refine(trainer, every.rows, learned)):
        return None
    rows = every.rows.astype(trainer.dtype, copy=False)
    scores = monitor.calibrate_on(rows, trainer, learned=learned)
    monitor.strangest.clear()
    monitor.strangest.add(rows, scores, every.numbers, trainer.n_samples + trainer.n_skipped)
    return every.numbers[learned == 0]


def _refine(trainer: Trainer, rows: npt.NDArray[Any], learned: npt.NDArray[np.float64]) -> bool:
    """Refine a model on rows (N, D) that count so often, (N,): the result does not depend on their order."""
    order = content_order(rows, np.random.default_rng(0))
    return trainer.refine(rows[order], learned[order])


def refine_on_lasting(trainer: Trainer, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64] | None:
    """[E46] Refine a model on rows in the order of time; return how often each counts, (N,), or None if it cannot be.

    Outliers that follow each other, and that rows of other times do not explain, describe a moment, not what is to
    come. They are not learned.

    Parameters
    ----------
    trainer : Trainer
        A training that has ended.
    rows : array of shape (N, D)
        All rows that it has learned, as float64.
    """
    learned = np.ones(len(rows))
    if not _refine(trainer, rows, learned):
        return None
    for _ in range(ROUNDS):
        burst = _in_bursts(trainer, rows, learned)
        if not (burst & (learned > 0)).any():
            break
        learned[burst] = 0.0
        _refine(trainer, rows, learned)
    return learned


def _in_bursts(trainer: Trainer, rows: npt.NDArray[Any], learned: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Tell which rows are evident outliers among others, judged by what rows of other times give."""
    values = rows.astype(trainer.dtype, copy=False)
    scores = trainer.cross_validated_scores(fill_gaps(trainer.mixture, values), learned)
    strange = scores < Reference.of(scores).outlier_threshold(MOST_IN_BURSTS)
    near = np.convolve(strange, np.ones(2 * NEAR + 1))[NEAR:-NEAR]
    return np.asarray(strange & (near >= FEWEST))
