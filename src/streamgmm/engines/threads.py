"""Replicas on the threads of one machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import Bounds, Work
from streamgmm.core.engine import Engine, Replica, Round, merge_replicas
from streamgmm.core.rules import Context, Rule
from streamgmm.core.state import Named
from streamgmm.native import Samples, Steps, Turn

MOST_REPLICAS = 1024  # each is a copy of the model
MOST_THREADS = 64  # or as many as there are cores; results depend on the number of replicas alone
LONG_ROUND = 1000  # samples per replica: merging costs about as much as scoring twenty of them
In = TypeVar("In")
Out = TypeVar("Out")


@dataclass
class RoundState:
    """The replicas of a round in progress: where it started, what each has become, and how far it is."""

    start: Replica | None = None
    replicas: list[Replica] = field(default_factory=list)
    turn: int = 0  # steps taken in this round
    learned: int = 0  # samples learned in this round


@dataclass(frozen=True)
class Threads(Engine):
    """Several replicas that learn side by side and are merged.

    A round lasts from one check to the next; where nothing depends on a check and replicas hardly move, up to
    ``LONG_ROUND`` samples for each of them. Replica t mod R takes step t of a round. All start the round from the same
    parameters and are merged at its end, and whenever parameters are read. The result depends on the number of
    replicas, not on the machine or on timing.

    Parameters
    ----------
    count : int
        Number of replicas, at least 2.
    """

    name: ClassVar[str] = "threads"
    count: int

    def __post_init__(self) -> None:
        if self.count < 2:
            raise ValueError(f"count is {self.count}; expected at least 2 replicas. Use Serial for one.")
        if self.count > MOST_REPLICAS:
            raise ValueError(f"count is {self.count}; expected at most {MOST_REPLICAS} replicas.")

    @property
    def replicas(self) -> int:
        return self.count

    def start(self) -> RoundState:
        return RoundState()

    def advance(self, rule: Rule[Any], main: Replica, state: RoundState, work: Work) -> Steps:
        if not rule.can_split(main.state):
            return rule.advance(main.state, main.parameters, work)
        if state.turn == 0:
            self._begin_round(main, state)
        steps = len(work.samples.rows) // work.samples.batch_size
        turns = [range((r - state.turn) % self.count, steps, self.count) for r in range(self.count)]
        own_rule = rule.for_replicas(self.count)

        def learn(r: int) -> Steps:
            replica = state.replicas[r]
            samples = _every(work.samples, turns[r])
            if samples.typical_loss is not None:
                samples = samples._replace(typical_loss=replica.typical_loss)
            turn = Turn(samples.turn.first + turns[r].start, self.count, samples.turn.every)
            samples = samples._replace(frame=replica.frame, turn=turn)
            return own_rule.advance(replica.state, replica.parameters, work._replace(samples=samples))

        reports = run_all(self.count, learn, range(self.count))
        state.turn += steps
        state.learned += len(work.samples.rows)
        return _joined(reports, turns, steps)

    def settle(self, rule: Rule[Any], main: Replica, state: RoundState, bounds: Bounds) -> None:
        if not state.turn or state.start is None:
            return
        taken = [len(range(r, state.turn, self.count)) for r in range(self.count)]
        done = Round(state.start, state.replicas, taken, bounds)
        merge_replicas(rule, done, main, partial(run_all, self.count))

    def skips_check(self, rule: Rule[Any], main: Replica, state: RoundState, context: Context) -> bool:
        # replicas must not forget where they started
        longest = min(LONG_ROUND * self.count, rule.memory / 4)
        return 0 < state.learned < longest and rule.can_wait(main.state, context)

    def end_round(self, rule: Rule[Any], main: Replica, state: RoundState, bounds: Bounds) -> None:
        self.settle(rule, main, state, bounds)
        state.turn = state.learned = 0

    def latest(self, main: Replica, state: RoundState) -> Replica:
        return state.replicas[0] if state.turn else main

    def own_replicas(self, state: RoundState) -> list[Replica]:
        return [] if state.start is None else [state.start, *state.replicas]

    def named(self, state: RoundState) -> Named:
        if not state.turn or state.start is None:
            return {}
        found: Named = {"turn": np.array(state.turn), "learned": np.array(state.learned)}
        for place, replica in zip(self._places, (state.start, *state.replicas), strict=True):
            found |= {f"{place}.{name}": value for name, value in replica.named().items()}
        return found

    def restored(self, main: Replica, named: Mapping[str, npt.NDArray[Any]]) -> RoundState:
        if not named:
            return RoundState()
        replicas = []
        for place in self._places:
            own = {n.removeprefix(f"{place}."): v for n, v in named.items() if n.startswith(f"{place}.")}
            try:
                replicas.append(main.restored(own))
            except (KeyError, ValueError) as problem:
                raise ValueError(f"{place}: {problem}") from problem
        start, *others = replicas
        turn, learned = int(named["turn"]), int(named["learned"])
        if not 0 < turn <= learned:
            raise ValueError(f"a round has {turn} steps and {learned} samples; expected at least one of each")
        return RoundState(start, others, turn, learned)

    @property
    def _places(self) -> list[str]:
        return ["start", *(f"replica{r}" for r in range(self.count))]

    def _begin_round(self, main: Replica, state: RoundState) -> None:
        """Set start and replicas to what is known now; memory of an earlier round is used again."""
        fits = state.start is not None and state.start.parameters.means.shape == main.parameters.means.shape
        if not fits or state.start is None:
            state.start, *state.replicas = run_all(self.count, lambda _: main.copy(), self._places)
        else:
            run_all(self.count, lambda replica: replica.assign(main), (state.start, *state.replicas))


def _every(samples: Samples, steps: range) -> Samples:
    """Take the samples of every R-th step."""
    rows, shares, size = samples.rows, samples.shares, samples.batch_size
    if size == 1:
        chosen = slice(steps.start, None, steps.step)
        return samples._replace(rows=rows[chosen], shares=None if shares is None else shares[chosen])
    batches = rows.reshape(-1, size, rows.shape[1])[steps.start :: steps.step]
    some = None if shares is None else shares.reshape(-1, size)[steps.start :: steps.step].reshape(-1)
    return samples._replace(rows=batches.reshape(-1, rows.shape[1]), shares=some)


def _joined(reports: list[Steps], turns: list[range], steps: int) -> Steps:
    """Join the reports of replicas in the order of the stream."""
    losses, tops = np.empty(steps), np.empty(steps)
    for report, own in zip(reports, turns, strict=True):
        losses[own.start :: own.step], tops[own.start :: own.step] = report.losses, report.max_components
    wins, received, read = (np.sum([r[i] for r in reports], axis=0) for i in (2, 3, 4))
    return Steps(losses, tops, wins, received, read)


def run_all(threads: int, work: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    """Map ``work`` over items on threads; the last item runs on the calling thread, which would only wait."""
    *others, last = items
    if not others:
        return [work(last)]
    futures = [_pool(threads, os.getpid()).submit(work, item) for item in others]
    try:
        mine = work(last)
    finally:
        wait(futures)  # nothing may still be written when we return, not even after Ctrl-C
    return [*(f.result() for f in futures), mine]


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay; a forked process has none of them and gets its own."""
    most = max(MOST_THREADS, os.cpu_count() or 1)
    return ThreadPoolExecutor(min(threads, most), thread_name_prefix="streamgmm")
