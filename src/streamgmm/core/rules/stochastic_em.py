"""Stochastic expectation-maximisation (Cappé & Moulines 2009): the baseline of the paper."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Any, ClassVar, Literal

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import Covariance, Statistics, Work
from streamgmm.core.engine import Replica, Round
from streamgmm.core.parameters import Parameters
from streamgmm.core.rows import LIMITS
from streamgmm.core.rules.base import Rule
from streamgmm.core.rules.context import Context
from streamgmm.core.rules.kmeans import cluster
from streamgmm.core.rules.moments import RegularisedState, merge_moments, with_prior
from streamgmm.core.rules.plain_numbers import plain_numbers
from streamgmm.core.state import BUFFER, OPTIONAL, SHARES, require_range
from streamgmm.core.tensors import Tensors
from streamgmm.native import EMStep, Floats, Samples, Steps

PAPERS_EXTRA = 1e-5  # what the paper's code adds to masses and variances


@dataclass
class StochasticEMState(RegularisedState):
    """State of `StochasticEM`; means are apart from those of the parameters only while it accumulates."""

    masses: npt.NDArray[np.float64] = field(metadata=SHARES)
    moments: Tensors
    means: Tensors | None = field(default=None, metadata=OPTIONAL)
    buffer: npt.NDArray[Any] | None = field(default=None, metadata=BUFFER)  # samples for k-means
    buffered_shares: npt.NDArray[np.float64] | None = field(default=None, metadata=BUFFER)
    step: int = 0
    accumulating: bool = True

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        means = parameters.means if self.means is None else self.means["means"]
        require_range("means", means, -LIMITS[parameters.dtype], LIMITS[parameters.dtype])
        parameters.kind.validate_moments(self.moments, means)
        require_range("masses", self.masses, 0.0)
        require_range("step", self.step, 0)
        if self.accumulating and self.means is None:
            raise ValueError("the state of the rule accumulates, but has no means")
        rows, shares = self.buffer, self.buffered_shares
        if rows is None and shares is None:
            return
        if rows is None or shares is None or not self.accumulating:
            raise ValueError("the state of the rule has samples without their shares, or samples that it does not need")
        if rows.ndim != 2 or rows.shape[1] != parameters.n_features or rows.dtype != parameters.dtype:
            raise ValueError(
                f"tensor 'buffer' is {rows.dtype} {rows.shape}; expected (samples, {parameters.n_features})"
            )
        if shares.shape != (len(rows),) or shares.dtype != np.float64:
            raise ValueError(f"tensor 'buffered_shares' is {shares.dtype} {shares.shape}; expected ({len(rows)},)")
        if not ((shares > 0) & (shares <= 1)).all():
            raise ValueError("tensor 'buffered_shares' holds values that are not within (0, 1]")


@dataclass(frozen=True)
class StochasticEM(Rule[StochasticEMState]):
    """Responsibilities share out every sample; sufficient statistics move by a decreasing rate; there is no grid.

    Parameters
    ----------
    step_init : float, default=0.05
        The rate of step t is max(step_min, step_init · (t+1)^−(0.5 + step_decay)).
    step_decay : float, default=0.01
        See ``step_init``.
    step_min : float, default=0.001
        Smallest rate.
    accumulate : int or None, default=None
        Samples that only fill the statistics, under the initial model; None is one period, 0 learns at once.
        Accumulation ends at the first check after that many samples.
    start_from : {"random", "kmeans"}, default="random"
        ``"kmeans"`` clusters the accumulated samples, which are buffered.
    half_life : float or None, default=None
        Half-life of past data, in samples; replaces ``step_min``.
    accumulation : {"mean", "paper"}, default="mean"
        ``"mean"`` accumulates the plain mean of the statistics, and restarts the count of steps at its end. ``"paper"``
        follows Gepperth & Pfülb (2021): statistics start at 0, the rate falls during the accumulation, too, and 1e-5 is
        added to masses and variances. Components that receive little then become wide and never win again.

    Examples
    --------
    >>> StochasticEM(step_init=0.01, step_decay=0.25, accumulate=6000, accumulation="paper").accumulation
    'paper'
    """

    name: ClassVar[str] = "sem"
    required_steps: ClassVar[str] = "em_steps"
    anneals: ClassVar[bool] = False
    has_prior: ClassVar[bool] = True
    step_init: float = 0.05
    step_decay: float = 0.01
    step_min: float = 0.001
    accumulate: int | None = None
    start_from: Literal["random", "kmeans"] = "random"
    half_life: float | None = None
    accumulation: Literal["mean", "paper"] = "mean"

    def __post_init__(self) -> None:
        plain_numbers(self)
        if not 0 < self.step_init <= 1 or not 0 < self.step_min <= 1 or not 0 < self.step_decay <= 0.5:
            raise ValueError(
                f"step_init is {self.step_init}, step_min {self.step_min}, step_decay {self.step_decay}; "
                "expected rates within (0, 1] and a decay within (0, 0.5]."
            )
        if self.half_life is not None and not 1 <= self.half_life < inf:
            raise ValueError(f"half_life is {self.half_life}; expected at least one sample, or None.")
        if self.start_from not in ("random", "kmeans"):
            raise ValueError(f"start_from is {self.start_from!r}; expected 'random' or 'kmeans'.")
        if self.start_from == "kmeans" and self.accumulate == 0:
            raise ValueError("accumulate is 0, but a k-means start needs samples to cluster; leave it at None.")
        if self.accumulation not in ("mean", "paper"):
            raise ValueError(f"accumulation is {self.accumulation!r}; expected 'mean' or 'paper'.")
        if self.accumulation == "paper" and (self.accumulate == 0 or self.start_from == "kmeans"):
            raise ValueError("accumulation='paper' needs samples to accumulate and start_from='random'.")

    @property
    def memory(self) -> float:
        return inf if self.half_life is None else self.half_life

    def with_half_life(self, half_life: float) -> StochasticEM:
        return replace(self, half_life=half_life)

    @property
    def supports_gaps(self) -> bool:
        return self.start_from != "kmeans"

    def start(self, parameters: Parameters, context: Context) -> StochasticEMState:
        at_once = self.accumulate == 0
        waits = context.schedule.period if self.accumulate is None else self.accumulate
        if self.start_from == "kmeans" and waits < len(parameters):
            raise ValueError(
                f"a k-means start of {len(parameters)} components needs at least as many samples; "
                f"it would see {waits}. Raise accumulate."
            )
        if self.accumulation == "paper" and (context.scale_free or parameters.kind.name != "diag"):
            raise ValueError("accumulation='paper' needs covariance_type='diag' and scale='none', like the paper.")
        layout = {"means": parameters.kind.layout(parameters.n_features)["means"]}
        state = StochasticEMState(
            masses=parameters.weights if at_once else np.zeros(len(parameters)),
            moments=parameters.kind.start_moments(parameters),
            means=Tensors(layout, {"means": parameters.means}, parameters.dtype),
            accumulating=not at_once,
        )
        if context.scale_free:
            state.start_prior(parameters)
        if self.start_from == "kmeans":
            state.buffer = np.empty((0, parameters.n_features), parameters.dtype)
            state.buffered_shares = np.empty(0)
        return state

    def advance(self, state: StochasticEMState, parameters: Parameters, work: Work) -> Steps:
        if state.buffer is not None and state.buffered_shares is not None:
            rows = _in_frame(work.samples, parameters.dtype)
            shares = np.ones(len(rows)) if work.samples.shares is None else work.samples.shares
            state.buffer = np.concatenate([state.buffer, rows])
            state.buffered_shares = np.concatenate([state.buffered_shares, shares])
            return _score_only(parameters, rows, work.samples.batch_size)
        plain = state.accumulating and self.accumulation == "mean"
        step = EMStep(
            rate=0.0 if plain else self.step_init,
            exponent=0.5 + self.step_decay,
            rate_min=self._rate_min(work.samples.batch_size),
            first_step=state.step,
            scale_bounds=work.bounds,
            accumulate=state.accumulating,
        )
        own = state.means if state.accumulating and state.means is not None else parameters.tensors
        statistics = Statistics(own.buffers["means"], state.moments)
        steps = parameters.kind.em_steps(parameters, statistics, state.masses, work, step, *with_prior(state.prior))
        state.step += len(steps.losses)
        return steps

    def check(self, state: StochasticEMState, parameters: Parameters, context: Context) -> bool:
        accumulated = state.accumulating
        if context.samples >= (context.schedule.period if self.accumulate is None else self.accumulate):
            self.flush(state, parameters, context)
        self._widen_light(state, parameters)
        return accumulated

    def _widen_light(self, state: StochasticEMState, parameters: Parameters) -> None:
        """[E17b] Limit precisions as the paper's sum of 1e-5 and the squares does, S0/(S2 + 1e-5) ≤ S0/1e-5."""
        if self.accumulation == "paper" and not state.accumulating:
            most = np.maximum(state.masses / PAPERS_EXTRA, 1e-6)
            parameters.kind.limit_precisions(parameters, most[:, None])

    def flush(self, state: StochasticEMState, parameters: Parameters, context: Context) -> None:
        """End the accumulation: the statistics become the model."""
        if not state.accumulating or state.means is None:
            return
        if state.buffer is not None:
            self._cluster(state, parameters, context)
        if state.masses.sum() < 1e-6:
            return  # no samples yet, or none that count
        seen = np.flatnonzero(state.masses > 1e-12)  # others keep their place: they have received nothing
        statistics = Statistics(state.means.buffers["means"], state.moments)
        if self.accumulation == "paper":  # squares were about the initial means
            state.moments["variances"][:] += (state.means["means"] - parameters.means) ** 2
        parameters.kind.set_components(parameters, statistics, seen, context.bounds)
        parameters.logits[:] = np.log(np.maximum(state.masses, 1e-300))
        parameters.refresh()
        state.accumulating, state.step = False, state.step if self.accumulation == "paper" else 0
        state.means = None  # from now on the means of the parameters are the statistics
        self.set_covariances(state, parameters, context)
        self._widen_light(state, parameters)

    def _cluster(self, state: StochasticEMState, parameters: Parameters, context: Context) -> None:
        """Set the statistics to those of the clusters that k-means finds in the buffer, and drop the buffer."""
        rows, shares, means = state.buffer, state.buffered_shares, state.means
        assert rows is not None
        assert shares is not None
        assert means is not None
        size = len(parameters)
        if len(rows) < size:
            raise ValueError(
                f"a k-means start of {size} components needs at least as many samples; only {len(rows)} were "
                "accumulated. Raise accumulate, or use start_from='random'."
            )
        centres, labels = cluster(rows, shares, size, context.rng)
        for k in range(size):
            own, weights = rows[labels == k], shares[labels == k]
            state.masses[k] = max(weights.sum(), shares.mean()) / shares.sum()
            means["means"][k] = centres[k]
            if len(own) > 1:
                parameters.kind.set_moments(state.moments, k, own, weights)
        state.buffer = state.buffered_shares = None

    def set_covariances(self, state: StochasticEMState, parameters: Parameters, context: Context) -> bool:
        if state.prior is not None and not state.accumulating:
            every = range(len(parameters))
            parameters.kind.set_from_moments(parameters, state.moments, context.bounds, every, state.prior)
        return not state.accumulating

    def restarted(self, state: StochasticEMState, parameters: Parameters) -> StochasticEMState:
        if state.means is not None:
            state.means["means"][:] = parameters.means
        masses = state.masses if state.accumulating else parameters.weights
        return replace(state, moments=parameters.kind.start_moments(parameters), masses=masses)

    def reframed(self, state: StochasticEMState, kind: Covariance, shift: Any, factor: Any) -> StochasticEMState:
        buffer = None if state.buffer is None else ((state.buffer - shift) * factor).astype(state.buffer.dtype)
        return replace(super().reframed(state, kind, shift, factor), buffer=buffer)

    def reheat(self, state: StochasticEMState, parameters: Parameters, context: Context) -> None:
        state.step = 0

    def can_wait(self, state: StochasticEMState, context: Context) -> bool:
        return not state.accumulating and self.accumulation == "mean"

    def finished(self, state: StochasticEMState, context: Context) -> bool:
        return not state.accumulating and context.samples >= 2 * context.schedule.period

    def for_replicas(self, count: int) -> StochasticEM:
        """A replica sees fewer samples, so its half-life is shorter in its own."""
        return self if self.half_life is None else replace(self, half_life=max(1.0, self.half_life / count))

    def can_split(self, state: StochasticEMState) -> bool:
        return state.buffer is None  # samples for k-means stay together, in their order

    def merge(self, done: Round, out: Replica, rows: range) -> None:
        """Average the statistics of all replicas: they are means over samples."""
        before, state, part = done.start.state, out.state, slice(rows.start, rows.stop)
        assert isinstance(before, StochasticEMState)
        assert isinstance(state, StochasticEMState)
        masses = done.column("masses") * done.shares
        total = np.maximum(masses.sum(1), 1e-300)
        shares = masses / total[:, None]
        state.masses[part] = total[part]
        state.step = max(r.state.step for r in done.replicas if isinstance(r.state, StochasticEMState))
        if state.evidence is not None and before.evidence is not None:
            added = done.column("evidence") - before.evidence[:, None]
            state.evidence[part] = (before.evidence + added.sum(1))[part]
        if before.accumulating:
            to, of, *parts = (_collected(r) for r in (out, done.start, *done.replicas))
            out.parameters.kind.merge_statistics(to, of, parts, shares, rows, done.bounds)
        else:
            out.parameters.logits[part] = np.log(total[part])
            merge_moments(done, out, rows, shares, state.prior)

    def _rate_min(self, batch_size: int) -> float:
        return self.step_min if self.half_life is None else min(1.0, log(2) * batch_size / self.half_life)

    def learning_rate(self, state: StochasticEMState) -> float:
        """[E16] Rate of the next step; with a half-life its lower bound is that of single samples."""
        if state.accumulating and self.accumulation == "mean":
            return 1 / (state.step + 1)
        return float(max(self._rate_min(1), self.step_init * (state.step + 1) ** -(0.5 + self.step_decay)))


def _collected(replica: Replica) -> Statistics:
    """Statistics that are still apart from the parameters."""
    state = replica.state
    assert isinstance(state, StochasticEMState)
    assert state.means is not None
    return Statistics(state.means.buffers["means"], state.moments)


def _in_frame(samples: Samples, dtype: np.dtype[Any]) -> Floats:
    """[E23] Return rows as the samples they are."""
    rows = np.multiply(samples.rows, samples.factor, dtype=dtype)
    if samples.frame is None:
        return rows
    shift, unit, active = samples.frame[:3]
    return np.where(active != 0, (rows - shift) * unit, dtype.type(0))


def _score_only(parameters: Parameters, rows: Floats, batch_size: int) -> Steps:
    """Report on steps that learn nothing."""
    found = parameters.kind.score(parameters, rows)
    losses, tops = (v.reshape(-1, batch_size).mean(1) for v in (found.log_likelihood, found.max_component))
    wins = np.bincount(found.winner, minlength=len(parameters))
    return Steps(losses, tops, wins, wins.astype(np.float64), np.zeros(1, np.int64))
