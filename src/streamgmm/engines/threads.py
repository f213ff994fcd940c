"""Replicas on the threads of one machine."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from functools import lru_cache, partial
from itertools import accumulate
from math import ceil
from typing import Any, ClassVar, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import Bounds, Work
from streamgmm.core.engine import Engine, Replica, Round, merge_replicas, ranges_of
from streamgmm.core.rules import Context, Rule
from streamgmm.core.state import Named
from streamgmm.native import Samples, Steps, Turn

MOST_REPLICAS = 1024  # each is a copy of the model
MOST_THREADS = 64  # or as many as there are cores; results depend on the number of replicas alone
LONG_ROUND = 1000  # samples per replica: merging costs about as much as scoring twenty of them
In = TypeVar("In")
Out = TypeVar("Out")


class Taken(NamedTuple):
    """A work that all replicas have taken, what they report of it, and the learning rate after it."""

    work: Work
    steps: Steps
    rate: float


@dataclass
class RoundState:
    """The replicas of a round in progress: where it started, what each has become, and how far it is."""

    start: Replica | None = None
    replicas: list[Replica] = field(default_factory=list)
    turn: int = 0  # steps taken in this round
    learned: int = 0  # samples learned in this round
    ahead: list[Taken] = field(default_factory=list)  # taken, but not reported yet
    reported: list[Taken] = field(default_factory=list)  # those before, if any are ahead


@dataclass(frozen=True)
class Threads(Engine):
    """Several replicas that learn side by side and are merged.

    A round lasts from one check to the next; where nothing depends on a check and replicas hardly move, up to
    ``LONG_ROUND`` samples for each of them. Replica t mod R takes step t of a round. All start the round from the same
    parameters and are merged at its end, and whenever parameters are read. The result depends on the number of
    replicas, not on the machine or on timing.

    Replicas need not wait for each other at checks within a round: they take all its steps, if the rows are in memory.
    A check that does more than report takes back what comes after it.

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

    def advance(
        self, rule: Rule[Any], main: Replica, state: RoundState, work: Work, coming: Sequence[Work] = ()
    ) -> Steps:
        if not rule.can_split(main.state):
            return rule.advance(main.state, main.parameters, work)
        if not state.ahead or state.ahead[0].work is not work:
            self.rewind(rule, state)
            state.ahead = self._take(rule, state, [work, *coming], None if state.turn else main)
        state.reported.append(taken := state.ahead.pop(0))
        state.turn += _steps_of(work)
        state.learned += len(work.samples.rows)
        if not state.ahead:
            state.reported.clear()
        return taken.steps

    def looks_ahead(self, rule: Rule[Any], main: Replica, state: RoundState, context: Context) -> int:
        if state.turn or not rule.can_split(main.state) or not rule.can_wait(main.state, context):
            return 0
        return ceil(self._longest(rule))

    def is_ahead(self, state: RoundState) -> bool:
        return bool(state.ahead)

    def rewind(self, rule: Rule[Any], state: RoundState) -> None:
        if not state.ahead or state.start is None:
            return
        again = [taken.work for taken in state.reported]
        state.ahead, state.reported, state.turn = [], [], 0
        self._take(rule, state, again, state.start)
        state.turn = sum(map(_steps_of, again))

    def _take(self, rule: Rule[Any], state: RoundState, works: list[Work], origin: Replica | None) -> list[Taken]:
        """Let every replica take its steps of all works, at the beginning of a round from where that one starts."""
        own_rule = rule.for_replicas(self.count)
        if origin is not None and not _fits(state.start, origin):
            state.start, *state.replicas = run_all(self.count, Replica.copy, [origin] * (self.count + 1))
            origin = None
        firsts = accumulate(map(_steps_of, works), initial=state.turn)
        turns = [
            [range((r - first) % self.count, _steps_of(work), self.count) for r in range(self.count)]
            for first, work in zip(firsts, works, strict=False)
        ]

        def learn(r: int) -> list[tuple[Steps, float]]:
            replica, found = state.replicas[r], []
            if origin is not None:
                replica.assign(origin)
                if state.start is not None and state.start is not origin:
                    part = ranges_of(origin.parameters, self.count)[r]
                    state.start.assign(origin, slice(part.start, part.stop))
            for work, own in zip(works, turns, strict=True):
                samples = _every(work.samples, own[r])
                if samples.typical_loss is not None:
                    samples = samples._replace(typical_loss=replica.typical_loss)
                turn = Turn(samples.turn.first + own[r].start, self.count, samples.turn.every)
                samples = samples._replace(frame=replica.frame, turn=turn)
                steps = own_rule.advance(replica.state, replica.parameters, work._replace(samples=samples))
                found.append((steps, rule.learning_rate(replica.state)))
            return found

        reports = run_all(self.count, learn, range(self.count))
        taken = []
        for i, (work, own) in enumerate(zip(works, turns, strict=True)):
            steps = _joined([report[i][0] for report in reports], own, _steps_of(work))
            taken.append(Taken(work, steps, reports[0][i][1]))
        return taken

    def settle(self, rule: Rule[Any], main: Replica, state: RoundState, bounds: Bounds) -> None:
        self.rewind(rule, state)
        if not state.turn or state.start is None:
            return
        taken = [len(range(r, state.turn, self.count)) for r in range(self.count)]
        done = Round(state.start, state.replicas, taken, bounds)
        merge_replicas(rule, done, main, partial(run_all, self.count))

    def skips_check(self, rule: Rule[Any], main: Replica, state: RoundState, context: Context) -> bool:
        return 0 < state.learned < self._longest(rule) and rule.can_wait(main.state, context)

    def _longest(self, rule: Rule[Any]) -> float:
        """Return how many samples make a round long enough; replicas must not forget where they started."""
        return min(LONG_ROUND * self.count, rule.memory / 4)

    def end_round(self, rule: Rule[Any], main: Replica, state: RoundState, bounds: Bounds) -> None:
        self.settle(rule, main, state, bounds)
        state.turn = state.learned = 0

    def learning_rate(self, rule: Rule[Any], main: Replica, state: RoundState) -> float:
        if state.ahead and state.reported:
            return state.reported[-1].rate
        return rule.learning_rate(state.replicas[0].state if state.turn else main.state)

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


def _fits(start: Replica | None, main: Replica) -> bool:
    """Whether memory of an earlier round can be used again."""
    return start is not None and start.parameters.means.shape == main.parameters.means.shape


def _steps_of(work: Work) -> int:
    """Count the steps of a work."""
    return len(work.samples.rows) // work.samples.batch_size


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
    """Threads that stay, beside the calling one; a forked process has none of them and gets its own."""
    most = max(MOST_THREADS, os.cpu_count() or 1)
    return ThreadPoolExecutor(min(threads - 1, most), thread_name_prefix="streamgmm")
