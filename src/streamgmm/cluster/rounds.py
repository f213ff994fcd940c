"""Rounds of a pass: share out rows, let workers learn them, and merge what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from streamgmm.cluster.plan import PassPlan
from streamgmm.cluster.round_length import RoundLength
from streamgmm.cluster.worker import Outcome, Task
from streamgmm.core.control import Check
from streamgmm.core.trainer import Trainer
from streamgmm.engines import run_all, thread_count
from streamgmm.engines.workers import Workers
from streamgmm.sources.slices import Layout

SAMPLED = 256  # rows of a round that come back, to be scored


class RoundReport(NamedTuple):
    """A round that is merged.

    Parameters
    ----------
    checks : list of Check
        The checks that fell due.
    outcomes : list of Outcome
        What became of each share.
    seconds, merge_seconds : float
        How long the round took in all, and how long merging took.
    """

    checks: list[Check]
    outcomes: list[Outcome]
    seconds: float
    merge_seconds: float

    @property
    def rows(self) -> int:
        """Rows that could be learned."""
        return sum(outcome.rows for outcome in self.outcomes)


def learn_round(
    trainer: Trainer,
    workers: Workers[Task, Outcome],
    plan: PassPlan,
    layout: Layout,
    length: RoundLength,
    before_merge: Callable[[list[Outcome]], Any] = lambda outcomes: None,
    counted_from: int = 0,
) -> RoundReport:
    """Learn the next rows of a pass as one round.

    Parameters
    ----------
    trainer : Trainer
        The training.
    workers : Workers
        Who learns.
    plan : PassPlan
        What of the pass is left.
    layout : Layout
        How the pass is cut into slices.
    length : RoundLength
        How many samples a round has.
    before_merge : callable, optional
        Called with the outcomes while the trainer still knows nothing of the round.
    counted_from : int, default=0
        Rows below this number were counted in an earlier pass.
    """
    began = time.perf_counter()
    rows = length.next_round(trainer, workers.count)
    start = trainer.begin_round(workers.count)
    shares = plan.deal(start.replicas, rows, trainer.batch_size)
    sampled = max(1, SAMPLED // start.replicas)
    tasks = [Task(r, layout, pieces, sampled, counted_from) for r, pieces in enumerate(shares)]
    outcomes = workers.learn(start, tasks)
    before_merge(outcomes)
    merging = time.perf_counter()
    checks = trainer.merge_round(start, [outcome.learned for outcome in outcomes], partial(run_all, thread_count(-1)))
    done = time.perf_counter()
    busiest = max(outcome.read_seconds + outcome.learn_seconds for outcome in outcomes)
    longest = max(outcome.learned.samples for outcome in outcomes)
    if longest:
        length.observe(done - began - busiest, busiest / longest)
    return RoundReport(checks, outcomes, done - began, done - merging)
