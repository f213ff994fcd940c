"""One pass over rows in memory: on this machine, or on the workers of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.cluster.plan import PassPlan
from streamgmm.cluster.round_length import RoundLength
from streamgmm.cluster.rounds import learn_round
from streamgmm.cluster.share_reader import Reading, ShareReader
from streamgmm.cluster.worker import ShareWorker
from streamgmm.core.control import Check
from streamgmm.core.trainer import Trainer
from streamgmm.engines.workers import ClusterEngine
from streamgmm.estimators.weights import Weights, portions
from streamgmm.sources.numpy_files import ArraySource
from streamgmm.sources.slices import find_layout, open_slices

FIRST_ROWS = 200  # learned here at a time, until the scale of features is known

Pass = Callable[[int, np.random.Generator | None], Iterator[tuple[int, list[Check]]]]
"""Learns all rows once, in random order if there is a generator; yields rows done and the checks that fell due."""


@contextmanager
def learner(
    trainer: Trainer, rows: npt.NDArray[Any], weights: Weights | None, engine: ClusterEngine | None
) -> Iterator[Pass]:
    """Give a function that makes a pass over validated rows.

    Parameters
    ----------
    trainer : Trainer
        Learns the rows.
    rows : ndarray of shape (N, D)
        The rows.
    weights : Weights or None
        How often each counts.
    engine : ClusterEngine or None
        The cluster whose workers learn; None for this machine.
    """
    if engine is None:
        yield partial(_pass_here, trainer, rows, weights)
        return
    if weights is not None:
        raise ValueError("sample_weight does not combine with engine; repeat rows, or use engine=None.")
    missing = "learn" if trainer.settings.allow_nan else "error"
    open_rows = partial(ArraySource, "X", rows if rows.dtype == np.uint8 else rows.astype(trainer.dtype, copy=False))
    reading = Reading(open_rows, missing, None, trainer.n_features, trainer.dtype.name)
    length = RoundLength(engine.round_samples)
    with closing(engine.open(partial(ShareWorker, reading))) as workers:

        def one_pass(epoch: int, rng: np.random.Generator | None) -> Iterator[tuple[int, list[Check]]]:
            reader, seed = ShareReader(reading), None if rng is None else int(rng.integers(1 << 31))
            layout = find_layout(reader.source, epoch, seed)
            plan = PassPlan(open_slices(reader.source, layout))
            done = 0
            while plan.rows_left:
                if trainer.warming_up:
                    [pieces] = plan.deal(1, FIRST_ROWS)
                    chunks = list(reader.chunks(layout, pieces))
                    checks = [check for chunk in chunks for check in trainer.feed(chunk.rows, more=True)]
                    done += sum(len(chunk.rows) for chunk in chunks)
                else:
                    report = learn_round(trainer, workers, plan, layout, length)
                    checks, done = report.checks, done + report.rows
                yield done, checks

        yield one_pass


def _pass_here(
    trainer: Trainer,
    rows: npt.NDArray[Any],
    weights: Weights | None,
    epoch: int,
    rng: np.random.Generator | None,
) -> Iterator[tuple[int, list[Check]]]:
    for done, piece, shares in portions(rows, trainer.dtype, weights, rng):
        yield done, trainer.feed(piece, shares=shares, more=True)
