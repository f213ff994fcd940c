"""Models of usual rows: the strangest rows of a table are not learned, as they make each other look typical."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.trainer import Trainer
from streamgmm.monitoring.gaps import fill_gaps
from streamgmm.monitoring.monitor import Monitor

Numbers = npt.NDArray[np.float64]
ROUNDS = 2  # rows that were hidden by others show in the second
MOST = 0.05  # share of rows that are not learned: whoever flags more does not mean outliers alone


def calibrate_on_usual(
    monitor: Monitor, trainer: Trainer, rows: npt.NDArray[Any], counts: Numbers | None, share: float
) -> Numbers:
    """[E45] Refine a model without its strangest rows, and take the reference from all; return their scores, (N,).

    Without refinement the model stays as it is.

    Parameters
    ----------
    monitor : Monitor
        Receives the reference.
    trainer : Trainer
        A training that has ended.
    rows : array of shape (N, D)
        All rows that it has learned, as floats.
    counts : array of shape (N,) or None
        How often each counts.
    share : float
        Share of rows that are not to be learned.
    """
    weights = np.ones(len(rows)) if counts is None else counts
    learned = weights
    for _ in range(ROUNDS if trainer.refined and min(share, MOST) * (weights.sum() + 1) >= 1 else 0):
        scores = trainer.cross_validated_scores(fill_gaps(trainer.mixture, rows), learned)
        learned = np.where(_lowest(scores, weights, min(share, MOST)), 0.0, weights)
        trainer.refine(rows.astype(np.float64), learned)
    return monitor.calibrate_on(rows, trainer, counts, learned)


def _lowest(scores: Numbers, weights: Numbers, share: float) -> npt.NDArray[np.bool_]:
    """Tell which rows are among the lowest that together have this share of the weight."""
    order = np.argsort(scores, kind="stable")
    found = np.zeros(len(scores), np.bool_)
    found[order] = np.cumsum(weights[order]) <= share * (weights.sum() + 1) * (1 + 1e-12)  # as many as [E32] flags
    return found
