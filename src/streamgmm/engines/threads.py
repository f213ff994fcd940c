"""Replicas on the threads of one machine: a rule made of several that learn side by side."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, TypeVar

import numpy as np

from streamgmm.kernels import Parameters, Steps, aligned_copy
from streamgmm.merging import Part, Round
from streamgmm.rules import Moment, Rule, RuleState, Work
from streamgmm.rules.base import ScaleBounds

PARAMETERS = ("means.", "scales.", "logits.", "log_dets.")  # the dot tells them from what a rule remembers
LONG_ROUND = 1000  # samples a replica: merging costs about as much as scoring twenty of them
In = TypeVar("In")
Out = TypeVar("Out")


@dataclass(frozen=True)
class Replicated(Rule):
    """``rule``, learned by so many replicas.

    A round lasts from one check to the next; where nothing hangs on a check and replicas hardly move, up to
    ``LONG_ROUND`` samples for each of them. In step t of a round replica t mod R learns; all start the round from the
    same parameters and are merged at its end, and whenever somebody looks. The outcome depends on the number of
    replicas, not on the machine or the moment.
    """

    name: ClassVar[str] = "replicated"
    rule: Rule
    replicas: int

    def __post_init__(self) -> None:
        if self.replicas < 2:
            raise ValueError(f"replicas is {self.replicas}; expected at least 2, or the rule by itself.")

    @property
    def varying(self) -> frozenset[str]:  # type: ignore[override]
        inner = self.rule.varying
        return inner | {f"{place}.{name}" for place in self._places for name in inner}

    @property
    def _places(self) -> list[str]:
        return ["start", *(f"replica{r}" for r in range(self.replicas))]

    def period(self, n_components: int) -> int:
        return self.replicas * self.rule.period(n_components)

    def start(self, parameters: Parameters, moment: Moment) -> RuleState:
        state = {**self.rule.start(parameters, moment), "turn": np.array(0), "learned": np.array(0)}
        self._begin_round(state, parameters)
        return state

    def advance(self, state: RuleState, parameters: Parameters, work: Work) -> Steps:
        if not self.rule.splits(state):
            return self.rule.advance(state, parameters, work)
        if state["turn"] == 0:
            self._begin_round(state, parameters)
        replicas = [self._part(state, f"replica{r}", parameters.n_features) for r in range(self.replicas)]
        turn, steps = int(state["turn"]), len(work.x) // work.batch_size
        shares = [range((r - turn) % self.replicas, steps, self.replicas) for r in range(self.replicas)]

        def learn(r: int) -> Steps:
            own = work._replace(x=_every(work, work.x, shares[r]))
            if work.shares is not None:
                own = own._replace(shares=_every(work, work.shares[:, None], shares[r])[:, 0])
            return rule.advance(replicas[r].state, replicas[r].parameters, own)

        rule = self.rule.one_of(self.replicas)
        reports = together(self.replicas, learn, range(self.replicas))
        for r, replica in enumerate(replicas):
            self._keep(state, r, replica.state)
        state["turn"] = np.array(turn + steps)
        state["learned"] = state["learned"] + len(work.x)
        return _joined(reports, shares, steps)

    def settle(self, state: RuleState, parameters: Parameters, scale_bounds: ScaleBounds) -> None:
        turn = int(state["turn"])
        if not turn:
            return
        start, *replicas = (self._part(state, place, parameters.n_features) for place in self._places)
        taken = [len(range(r, turn, self.replicas)) for r in range(self.replicas)]
        done, out = Round(start, replicas, taken, scale_bounds), Part(state, parameters)
        cuts = [len(parameters) * i // self.replicas for i in range(self.replicas + 1)]
        ranges = [range(*cut) for cut in pairwise(cuts)]
        together(self.replicas, lambda rows: self.rule.merge(done, out, rows), ranges)
        state["usual"] = np.mean([replica.state["usual"] for replica in replicas], axis=0)

    def check(self, state: RuleState, parameters: Parameters, moment: Moment) -> bool:
        long = min(LONG_ROUND * self.replicas, self.rule.memory / 4)  # replicas must not forget where they started
        if 0 < state["learned"] < long and self.rule.waits(state, moment):
            return False
        self._end_round(state, parameters, moment.scale_bounds)
        return self.rule.check(state, parameters, moment)

    def flush(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        self._end_round(state, parameters, moment.scale_bounds)
        self.rule.flush(state, parameters, moment)

    def notice(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        self._end_round(state, parameters, moment.scale_bounds)
        self.rule.notice(state, parameters, moment)

    def reheat(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        self._end_round(state, parameters, moment.scale_bounds)
        self.rule.reheat(state, parameters, moment)

    def _end_round(self, state: RuleState, parameters: Parameters, scale_bounds: ScaleBounds) -> None:
        self.settle(state, parameters, scale_bounds)
        state["turn"] = state["learned"] = np.array(0)

    def first_sigma(self, widest: float, least: float) -> float:
        return self.rule.first_sigma(widest, least)

    def finished(self, state: RuleState, moment: Moment) -> bool:
        return self.rule.finished(state, moment)

    def merge(self, done: Round, out: Part, rows: range) -> None:
        self.rule.merge(done, out, rows)

    def learning_rate(self, state: RuleState) -> float:
        if not state["turn"]:
            return self.rule.learning_rate(state)
        return self.rule.learning_rate({n[9:]: v for n, v in state.items() if n.startswith("replica0.")})

    def settings(self) -> dict[str, Any]:
        return {"name": self.name, "rule": self.rule.settings(), "replicas": self.replicas}

    def _begin_round(self, state: RuleState, parameters: Parameters) -> None:
        """Start and replicas become what is known now."""
        known = {name: value for name, value in state.items() if "." not in name and name not in ("turn", "learned")}
        known |= dict(zip(PARAMETERS, parameters.native, strict=True))
        for old in [name for name in state if "." in name and name.split(".", 1)[1] not in known]:
            del state[old]

        def copy(place: str) -> None:
            for name, value in known.items():
                old = state.get(f"{place}.{name}")
                if old is not None and old.shape == value.shape:
                    np.copyto(old, value)
                else:
                    state[f"{place}.{name}"] = aligned_copy(value)

        together(self.replicas, copy, self._places)

    def _part(self, state: RuleState, place: str, n_features: int) -> Part:
        own = {name[len(place) + 1 :]: value for name, value in state.items() if name.startswith(f"{place}.")}
        means, scales, logits, log_dets = (own.pop(name) for name in PARAMETERS)
        return Part(own, Parameters.over((means, scales, logits, log_dets), n_features))

    def _keep(self, state: RuleState, r: int, learned: RuleState) -> None:
        for name, value in learned.items():
            state[f"replica{r}.{name}"] = value


def _every(work: Work, rows: Any, steps: range) -> Any:
    """Rows of every R-th step."""
    if work.batch_size == 1:
        return rows[steps.start :: steps.step]
    batches = rows.reshape(-1, work.batch_size, rows.shape[1])[steps.start :: steps.step]
    return batches.reshape(-1, rows.shape[1])


def _joined(reports: list[Steps], shares: list[range], steps: int) -> Steps:
    """One report in the order of the stream."""
    losses, tops = np.empty(steps), np.empty(steps)
    for report, own in zip(reports, shares, strict=True):
        losses[own.start :: own.step], tops[own.start :: own.step] = report.losses, report.max_components
    wins, received, looked = (np.sum([getattr(r, name) for r in reports], axis=0) for name in Steps._fields[2:])
    return Steps(losses, tops, wins, received, looked)


def together(threads: int, work: Callable[[In], Out], items: Iterable[In]) -> list[Out]:
    """``map`` on threads; the last item runs here, where somebody waits anyway."""
    *others, last = items
    if not others:
        return [work(last)]
    futures = [_pool(threads, os.getpid()).submit(work, item) for item in others]
    try:
        mine = work(last)
    finally:
        wait(futures)  # nobody may still be writing when we return, not even after Ctrl-C
    return [*(f.result() for f in futures), mine]


@lru_cache(maxsize=4)
def _pool(threads: int, process: int) -> ThreadPoolExecutor:
    """Threads that stay; a process that was forked from ours has none of them and gets its own."""
    return ThreadPoolExecutor(threads, thread_name_prefix="streamgmm")
