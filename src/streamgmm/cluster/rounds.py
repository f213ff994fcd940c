"""Rounds of a pass: share out rows, let workers learn them, and merge what comes back."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from streamgmm.cluster.plan import PassPlan
from streamgmm.cluster.round_length import RoundLength
from streamgmm.cluster.worker import Outcome, Task
from streamgmm.core.control import Check
from streamgmm.core.trainer import Trainer
from streamgmm.engines import run_all, thread_count
from streamgmm.engines.workers import Workers, nothing
from streamgmm.sources.slices import Layout

SAMPLED = 256  # rows of a round that come back, to be scored


class RoundReport(NamedTuple):
    """A round that is merged.

    Parameters
    ----------
    checks : list of Check
        The checks that fell due.
    outcomes : list of Outcome
        The learned shares.
    seconds, merge_seconds : float
        How long the round took in all, and how long merging took.
    left : int
        Rows of the pass that are not learned yet, as far as they are known.
    """

    checks: list[Check]
    outcomes: list[Outcome]
    seconds: float
    merge_seconds: float
    left: int

    @property
    def rows(self) -> int:
        """Rows that could be learned."""
        return sum(outcome.rows for outcome in self.outcomes)


@dataclass
class RoundTotals:
    """What rounds have cost so far."""

    rounds: int = 0
    seconds: float = 0.0
    busy_seconds: float = 0.0  # of the busiest worker of each round
    merge_seconds: float = 0.0
    samples: list[int] = field(default_factory=list)  # of each worker
    worker_seconds: list[float] = field(default_factory=list)

    def add(self, report: RoundReport) -> None:
        """Take in a round."""
        busy = [o.read_seconds + o.learn_seconds for o in report.outcomes]
        self.rounds += 1
        self.seconds += report.seconds
        self.busy_seconds += max(busy)
        self.merge_seconds += report.merge_seconds
        more = len(report.outcomes) - len(self.samples)
        self.samples += [0] * more
        self.worker_seconds += [0.0] * more
        for r, outcome in enumerate(report.outcomes):
            self.samples[r] += outcome.learned.samples
            self.worker_seconds[r] += busy[r]

    def rates(self) -> list[float]:
        """Return the samples that each worker reads and learns in a second."""
        return [n / max(s, 1e-9) for n, s in zip(self.samples, self.worker_seconds, strict=True)]

    def waiting(self) -> float:
        """Return the share of the time in which no worker reads or learns."""
        return 1 - self.busy_seconds / max(self.seconds, 1e-9)


def learn_round(
    trainer: Trainer,
    workers: Workers[Task, Outcome],
    plan: PassPlan,
    layout: Layout,
    length: RoundLength,
    meanwhile: Callable[[], Any] = nothing,
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
    meanwhile : callable, default=nothing
        Called here while workers learn; the trainer stands where the round has started.
    counted_from : int, default=0
        Rows below this number were counted in an earlier pass.
    """
    began = time.perf_counter()
    rows = length.next_round(trainer, workers.count)
    start = trainer.begin_round(workers.count)
    shares = plan.deal(start.replicas, rows, trainer.batch_size)
    sampled = max(1, SAMPLED // start.replicas)
    tasks = [Task(r, pieces, sampled, counted_from) for r, pieces in enumerate(shares)]
    outcomes = workers.learn(start, tasks, layout, meanwhile)
    merging = time.perf_counter()
    checks = trainer.merge_round(start, [outcome.learned for outcome in outcomes], partial(run_all, thread_count(-1)))
    done = time.perf_counter()
    busiest = max(outcome.read_seconds + outcome.learn_seconds for outcome in outcomes)
    longest = max(outcome.learned.samples for outcome in outcomes)
    if longest:
        length.observe(done - began - busiest, busiest / longest)
    return RoundReport(checks, outcomes, done - began, done - merging, plan.rows_left)
