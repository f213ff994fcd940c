"""Stochastic expectation-maximisation (Cappé & Moulines 2009): the baseline of the paper."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log
from typing import ClassVar, Literal

import numpy as np

from streamgmm import kernels
from streamgmm.kernels import Parameters, Steps
from streamgmm.merging import Part, Round, add_collected, add_moments
from streamgmm.rules.base import Moment, Rule, RuleState, Work, nothing_usual, plain_numbers


@dataclass(frozen=True)
class StochasticEM(Rule):
    """Every sample is shared out by responsibilities; sufficient statistics move by a falling rate; there is no grid.

    step_init, step_decay, step_min : rate of step t is max(step_min, step_init · (t+1)^−(0.5 + step_decay)).
    accumulate : samples that only fill the statistics, under the initial model; None is one period, 0 learns at once.
        Accumulation ends at the first check after so many samples.
    start_from : "random", or "kmeans" on the accumulated samples, which are buffered.
    half_life : in samples; bounds the memory, in place of step_min.
    """

    name: ClassVar[str] = "sem"
    anneals: ClassVar[bool] = False
    varying: ClassVar[frozenset[str]] = frozenset({"buffer", "buffered_shares", "means"})
    step_init: float = 0.05
    step_decay: float = 0.01
    step_min: float = 0.001
    accumulate: int | None = None
    start_from: Literal["random", "kmeans"] = "random"
    half_life: float | None = None

    def __post_init__(self) -> None:
        plain_numbers(self)
        if not 0 < self.step_init <= 1 or not 0 < self.step_min <= 1 or not 0 < self.step_decay <= 0.5:
            raise ValueError(
                f"step_init is {self.step_init}, step_min {self.step_min}, step_decay {self.step_decay}; "
                "expected rates within (0, 1] and a decay within (0, 0.5]."
            )
        if self.half_life is not None and not self.half_life >= 1:
            raise ValueError(f"half_life is {self.half_life}; expected at least one sample, or None.")
        if self.start_from not in ("random", "kmeans"):
            raise ValueError(f"start_from is {self.start_from!r}; expected 'random' or 'kmeans'.")
        if self.start_from == "kmeans" and self.accumulate == 0:
            raise ValueError("accumulate is 0, but a k-means start needs samples to look at; leave it at None.")

    def start(self, parameters: Parameters, moment: Moment) -> RuleState:
        at_once = self.accumulate == 0
        waits = moment.schedule.period if self.accumulate is None else self.accumulate
        if self.start_from == "kmeans" and waits < len(parameters):
            raise ValueError(
                f"a k-means start of {len(parameters)} components needs at least as many samples; "
                f"it would see {waits}. Raise accumulate."
            )
        state = {
            "masses": parameters.weights if at_once else np.zeros(len(parameters)),
            "means": kernels.aligned_copy(parameters.means_buffer),
            "variances": kernels.padded(1 / parameters.scales**2, parameters.dtype, 1),
            "step": np.array(0),
            "usual": nothing_usual(),
            "accumulating": np.array(not at_once),
        }
        if self.start_from == "kmeans":
            state["buffer"] = np.empty((0, parameters.n_features), parameters.dtype)
            state["buffered_shares"] = np.empty(0)
        return state

    def advance(self, state: RuleState, parameters: Parameters, work: Work) -> Steps:
        if "buffer" in state:
            rows = np.multiply(work.x, work.factor, dtype=parameters.dtype)
            shares = np.ones(len(rows)) if work.shares is None else work.shares
            state["buffer"] = np.concatenate([state["buffer"], rows])
            state["buffered_shares"] = np.concatenate([state["buffered_shares"], shares])
            return _look(parameters, work)
        accumulating, step = bool(state["accumulating"]), int(state["step"])
        steps = kernels.em_steps(
            parameters,
            state["means"] if accumulating else parameters.means_buffer,
            state["variances"],
            state["masses"],
            work.x,
            rate=self.step_init,
            exponent=0.5 + self.step_decay,
            rate_min=self._rate_min(work.batch_size),
            first_step=step,
            scale_bounds=work.scale_bounds,
            accumulate=accumulating,
            **work.reading(state),
        )
        state["step"] = np.array(step + len(steps.losses))
        return steps

    def check(self, state: RuleState, parameters: Parameters, moment: Moment) -> bool:
        accumulates = bool(state["accumulating"])
        if moment.samples >= (moment.schedule.period if self.accumulate is None else self.accumulate):
            self.flush(state, parameters, moment)
        return accumulates

    def flush(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        """Ends accumulation: the statistics become the model."""
        if not state["accumulating"]:
            return
        if "buffer" in state:
            _kmeans(state, moment.rng)
        if state["masses"].sum() < 1e-6:
            return  # nothing has been seen, or nothing that counts
        seen = state["masses"] > 1e-12  # others keep their place: nobody has told them anything
        parameters.means_buffer[seen] = state["means"][seen]
        least, most = (1 / s**2 for s in reversed(moment.scale_bounds))
        variances = np.clip(state["variances"][:, : parameters.n_features], least, most)
        parameters.scales[seen] = 1 / np.sqrt(variances[seen])
        parameters.logits[:] = np.log(np.maximum(state["masses"], 1e-300))
        parameters.refresh()
        state["accumulating"], state["step"] = np.array(False), np.array(0)
        state["means"] = np.empty((0, 0), parameters.dtype)  # from now on the model's own means are the statistics

    def reheat(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        state["step"] = np.array(0)

    def waits(self, state: RuleState, moment: Moment) -> bool:
        return not state["accumulating"]

    def finished(self, state: RuleState, moment: Moment) -> bool:
        return not state["accumulating"] and moment.samples >= 2 * moment.schedule.period

    def one_of(self, replicas: int) -> StochasticEM:
        """A replica sees fewer samples, so its half-life is shorter in its own."""
        return self if self.half_life is None else replace(self, half_life=max(1.0, self.half_life / replicas))

    def splits(self, state: RuleState) -> bool:
        return "buffer" not in state  # samples for k-means stay together, in their order

    def merge(self, done: Round, out: Part, rows: range) -> None:
        """Statistics are means over samples, so those of all replicas are averaged."""
        part = slice(rows.start, rows.stop)
        masses = done.column("masses") * done.shares
        total = np.maximum(masses.sum(1), 1e-300)
        shares = masses / total[:, None]
        out.state["masses"][part] = total[part]
        out.state["step"] = np.array(max(int(r.state["step"]) for r in done.replicas))
        if done.start.state["accumulating"]:
            return add_collected(done, out, rows, shares)
        out.parameters.logits[part] = np.log(total[part])
        return add_moments(done, out, rows, shares)

    def _rate_min(self, batch_size: int) -> float:
        return self.step_min if self.half_life is None else min(1.0, log(2) * batch_size / self.half_life)

    def learning_rate(self, state: RuleState) -> float:
        """[E16] the rate of the next step; with a half-life its lower bound is that of single samples."""
        step = int(state["step"])
        if state["accumulating"]:
            return 1 / (step + 1)
        return float(max(self._rate_min(1), self.step_init * (step + 1) ** -(0.5 + self.step_decay)))


def _look(parameters: Parameters, work: Work) -> Steps:
    """The report of steps that only look."""
    found = kernels.score(parameters, work.x, work.factor)
    losses, tops = (v.reshape(-1, work.batch_size).mean(1) for v in (found.log_likelihood, found.max_component))
    wins = np.bincount(found.winner, minlength=len(parameters))
    return Steps(losses, tops, wins, wins.astype(np.float64), np.zeros(1, np.int64))


def _kmeans(state: RuleState, rng: np.random.Generator) -> None:
    """Statistics of the clusters that k-means finds in the buffer, which is then given up."""
    from sklearn.cluster import MiniBatchKMeans

    rows, shares, size = state["buffer"], state["buffered_shares"], len(state["masses"])
    if len(rows) < size:
        raise ValueError(
            f"a k-means start of {size} components needs at least as many samples; only {len(rows)} were accumulated. "
            "Raise accumulate, or use start_from='random'."
        )
    seed = int(rng.integers(2**31 - 1))
    found = MiniBatchKMeans(size, random_state=seed, n_init=3).fit(rows, sample_weight=shares)
    for k in range(size):
        own, weights = rows[found.labels_ == k], shares[found.labels_ == k]
        state["masses"][k] = max(weights.sum(), shares.mean()) / shares.sum()
        state["means"][k, : rows.shape[1]] = found.cluster_centers_[k]
        if len(own) > 1:
            away = own - np.average(own, axis=0, weights=weights)
            state["variances"][k, : rows.shape[1]] = np.average(away**2, axis=0, weights=weights)
    del state["buffer"], state["buffered_shares"]
