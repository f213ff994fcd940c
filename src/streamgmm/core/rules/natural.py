"""The natural-gradient rule: each component keeps running moments, with a rate of its own."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, log
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.batch_em import Fit, Sheet
from streamgmm.core.covariance import Bounds, Work
from streamgmm.core.engine import Replica, Round
from streamgmm.core.parameters import Parameters
from streamgmm.core.refinement import refine, refine_coupled
from streamgmm.core.rules import restarts
from streamgmm.core.rules.base import Rule
from streamgmm.core.rules.context import Context
from streamgmm.core.rules.merging import merge_parameters
from streamgmm.core.rules.moments import MomentState, RegularisedState, merge_moments, merge_statistics, with_prior
from streamgmm.core.rules.plain_numbers import plain_numbers
from streamgmm.core.state import SHARES, require_range
from streamgmm.native import AnswerStep, Floats, NaturalStep, Steps, move_weights, upper_median

MANY = 0.05  # share of the components that may be restarted without a visible jump of the loss
COUNT_MAX = {"f": 5e4, "d": inf}  # by float type of the moments: shorter steps are rounded away in single precision
FRESH_COUNT = 10.0  # largest count of components that must learn a new feature
POOLED = 20.0  # samples from which a component's own variances tell more than those of all components, while it grows
FEWEST = 5.0  # samples that a component's mean counts like at least, when its answers allow for its uncertainty
PERIOD_PER_COMPONENT = 2.5  # samples: few enough that small data sets see the whole annealing in one pass
NEVER = 2**62


@dataclass
class NaturalState(RegularisedState, MomentState):
    """State of `Natural`; sample numbers are -1 where something has not happened."""

    weights: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0), metadata=SHARES)
    since_restart: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))  # weight received
    growth: float = 0.2
    hold: bool = True  # whether scales stay at the cap
    wide_at: int = 0  # sample at which the annealing began
    narrow_at: int = -1  # and at which it ended
    next_restart: int = 0
    recruits_left: int = 0

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        require_range("weights", self.weights, 0.0, 1.0 + 1e-6)
        if not self.weights.sum() > 0.5:
            raise ValueError(f"tensor 'weights' sums to {self.weights.sum():.6g}; expected 1")
        require_range("since_restart", self.since_restart, 0.0)
        require_range("growth", self.growth, 0.0, 1.0)
        require_range("wide_at, next_restart", [self.wide_at, self.next_restart], 0)
        require_range("narrow_at", self.narrow_at, -1)
        require_range("recruits_left", self.recruits_left, 0, len(self.weights))


@dataclass(frozen=True)
class Natural(Rule[NaturalState]):
    """Natural gradient of the annealed objective: as cheap as SGD, no learning rate, batch-EM quality in one pass.

    A component that has received weight n moves by w/n towards a sample that gives it weight w. The other constants
    are those of docs/math.md §5; the defaults work on every data set we have tried.

    Parameters
    ----------
    half_life : float or None, default=None
        Half-life of past data, in samples, for a component with an even share of them. None remembers everything, with
        the past counting less the older it is (in float32, a component's last 50 000 samples).
    count_init : float, default=3.0
        Counts at the start.
    count_annealing : float, default=5.0
        Largest count while σ shrinks.
    growth : float, default=0.2
        Growth of counts per weight received. Below one, early samples fade; it rises to one in the long run.
    maturity : float, default=100.0
        Annealing times (the samples that annealing took) until ``growth`` reaches one.
    hold_above : float, default=0.3
        Scales stay at the cap while σ is wider than this share of its start (or than 0.6).
    restart_below : float, default=0.4
        Share of an even weight below which a component is restarted where the spread is most unusual, unless its own
        samples need it more.
    recruits : float, default=0.0
        Share of the components, the lightest ones, that move after a drift to where samples fall now. 0.18 suits
        streams of images that bring something new while old data still count.
    reg_covar : float, default=0.0
        Added to the variances of components, as a share of the variance that each feature has within components, on
        average (``scale="auto"``). Densities need none; anomalies are ranked better with 0.1. Unless it is 0, the prior
        on diagonal covariances also counts like ten samples instead of one.

    Examples
    --------
    >>> Natural(half_life=10_000).count_max(64)
    225.4...
    """

    name: ClassVar[str] = "natural"
    has_prior: ClassVar[bool] = True
    refines: ClassVar[bool] = True
    tol: ClassVar[float | None] = None
    drop_below: ClassVar[float] = 0.25
    half_life: float | None = None
    count_init: float = 3.0
    count_annealing: float = 5.0
    growth: float = 0.2
    maturity: float = 100.0
    hold_above: float = 0.3
    restart_below: float = 0.4
    recruits: float = 0.0
    reg_covar: float = 0.0

    def __post_init__(self) -> None:
        plain_numbers(self)
        for name in ("count_init", "count_annealing", "growth", "maturity"):
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a positive number.")
        shares = all(0 <= share < 1 for share in (self.restart_below, self.recruits, self.reg_covar))
        if self.growth > 1 or not shares or self.hold_above < 0:
            raise ValueError(
                f"growth is {self.growth}, restart_below {self.restart_below}, recruits {self.recruits}, hold_above "
                f"{self.hold_above}, reg_covar {self.reg_covar}; expected growth within (0, 1], shares within "
                "[0, 1), hold_above not negative."
            )
        if self.half_life is not None and not 1 <= self.half_life < inf:
            raise ValueError(f"half_life is {self.half_life}; expected at least one sample, or None.")

    @property
    def memory(self) -> float:
        return inf if self.half_life is None else self.half_life

    def with_half_life(self, half_life: float) -> Natural:
        return replace(self, half_life=half_life)

    def period(self, n_components: int) -> int:
        return max(50, round(PERIOD_PER_COMPONENT * n_components))

    def first_sigma(self, widest: float, least: float) -> float:
        return widest if widest > self.drop_below else least  # one component has no neighbours

    def count_max(self, n_components: int) -> float:
        """[E13] Largest count that the half-life allows.

        Parameters
        ----------
        n_components : int
            Number of components.
        """
        return inf if self.half_life is None else max(1.0, self.half_life / (n_components * log(2)))

    def start(self, parameters: Parameters, context: Context) -> NaturalState:
        state = NaturalState.of(
            parameters,
            self.count_init,
            weights=parameters.weights,
            since_restart=np.zeros(len(parameters)),
            growth=self.growth,
            hold=self._holds(context),
        )
        if context.scale_free:
            state.start_prior(parameters)
            everywhere = np.ones(parameters.n_features, np.bool_)
            parameters.kind.forget_features(state.moments, everywhere)  # all components are alike: like all samples
        if context.annealed:
            self._end_annealing(state, context)
        return state

    def advance(self, state: NaturalState, parameters: Parameters, work: Work) -> Steps:
        own = (state.moments, state.counts, state.received)
        return parameters.kind.natural_steps(parameters, *own, work, self._step(state, work), *with_prior(state.prior))

    def prepare(self, state: NaturalState, parameters: Parameters, work: Work) -> Any:
        own = (state.moments, state.counts, state.received)
        return parameters.kind.natural_rows(parameters, *own, work, self._step(state, work), state.prior)

    def renew(self, state: NaturalState, steps: Any) -> bool:
        steps.adapt(state.growth, self._bound(state), state.hold)
        return True

    def _step(self, state: NaturalState, work: Work) -> NaturalStep:
        soft = state.prior_rows is not None
        return NaturalStep(state.growth, self._bound(state), work.bounds, state.hold, soft=soft)

    def check(self, state: NaturalState, parameters: Parameters, context: Context) -> bool:
        state.hold = self._holds(context)
        if context.annealed and state.narrow_at < 0:
            self._end_annealing(state, context)
        age = context.samples - state.narrow_at if context.annealed else 0
        if state.recruits_left > 0:
            self._recruit(state, parameters, context)
        moved = 0
        self._move_weights(state, age)
        if context.annealed:
            took = max(state.narrow_at - state.wide_at, context.schedule.period)
            grown = min(1.0, self.growth + (1 - self.growth) * (age / (self.maturity * took)))
            state.growth = max(state.growth, grown)  # refinement has set it to 1
            if context.samples >= state.next_restart:
                moved = self._restart(state, parameters, context)
                # rarer and rarer, so that restarts come to an end
                state.next_restart = context.samples + max(2 * context.schedule.period, age // 20)
        np.log(np.maximum(state.weights, 1e-9, out=parameters.logits), out=parameters.logits)
        return moved > MANY * len(parameters) or state.recruits_left > 0

    def on_drift(self, state: NaturalState, parameters: Parameters, context: Context) -> None:
        state.recruits_left = round(self.recruits * len(parameters))

    def reheat(self, state: NaturalState, parameters: Parameters, context: Context) -> None:
        np.minimum(state.counts, self.count_annealing, out=state.counts)
        state.growth, state.wide_at, state.narrow_at, state.recruits_left = self.growth, context.samples, -1, 0

    def holds_scales(self, state: NaturalState) -> bool:
        return state.hold

    def set_covariances(self, state: NaturalState, parameters: Parameters, context: Context) -> bool:
        if state.prior is None:
            return context.annealed
        kind, moments, weight = parameters.kind, state.moments, POOLED**2 * (1 - state.growth)
        effective = np.minimum(state.prior.evidence, (2 - state.growth) * state.counts)
        if weight > 0:
            # means of n samples are uncertain, and variances about them too small: by (n + 1)/n and (n - 1)/n
            n = np.maximum(effective, FEWEST)
            moments = kind.inflate(moments, (n + 1) / (n - 1))
        kind.set_from_moments(parameters, moments, context.bounds, range(len(parameters)), state.prior)
        if weight > 0:  # a few samples tell less about a component than all components together do
            kind.pool_variances(parameters, weight / (effective**2 + weight))
        return True

    def answer(
        self, state: NaturalState, parameters: Parameters, frame: Floats, bounds: Bounds, out: Parameters
    ) -> bool:
        if state.prior is None:
            return False
        step = AnswerStep(state.growth, POOLED, FEWEST, bounds)
        own = (state.moments, state.counts, state.prior)
        return parameters.kind.natural_answer(parameters, *own, frame, step, out)

    def restarted(self, state: NaturalState, parameters: Parameters) -> NaturalState:
        return replace(state, moments=parameters.kind.start_moments(parameters), weights=parameters.weights)

    def refine(self, state: NaturalState, parameters: Parameters, samples: Any, counts: Any, bounds: Bounds) -> bool:
        if state.prior is None:
            return False
        if counts is None:
            counts = np.ones(len(samples))
        sheet = Sheet(samples[counts > 0].astype(parameters.dtype), counts[counts > 0])
        start = Fit(parameters, state.moments, state.prior, bounds).copy()
        fit = refine_coupled(sheet, start) if parameters.kind.couples_features else refine(sheet, start)
        parameters.assign(fit.parameters)
        state.moments.assign(fit.moments)
        state.weights[:], state.counts[:] = fit.parameters.weights, np.maximum(fit.masses, 1.0)
        state.prior.rows[:], state.prior.evidence[:] = fit.prior.rows, fit.masses
        state.growth, state.hold, state.next_restart = 1.0, False, NEVER  # EM has found out what each is needed for
        return True

    def on_new_features(self, state: NaturalState) -> None:
        np.minimum(state.counts, FRESH_COUNT, out=state.counts)

    def can_wait(self, state: NaturalState, context: Context) -> bool:
        return state.narrow_at >= 0 and state.recruits_left == 0

    def finished(self, state: NaturalState, context: Context) -> bool:
        """While σ shrinks, scales are held and counts are small; two periods later both have settled."""
        return state.narrow_at >= 0 and context.samples >= state.narrow_at + 2 * context.schedule.period

    def merge(self, done: Round, out: Replica, rows: range) -> None:
        """Add counts and weighted sums; where replicas together received more than the count, they average."""
        before, state, part = done.start.state, out.state, slice(rows.start, rows.stop)
        assert isinstance(before, NaturalState)
        assert isinstance(state, NaturalState)
        received = done.column("received") - before.received[:, None]
        total = received.sum(1)
        counts = np.minimum(before.counts + before.growth * total, self._bound(before))
        counts = np.where(total > 0, counts, before.counts)
        shares = np.maximum(done.column("counts"), received) / np.maximum(counts, total)[:, None]
        if state.evidence is not None and before.evidence is not None:
            added = done.column("evidence") - before.evidence[:, None]
            state.evidence[part] = (before.evidence + added.sum(1))[part]
        if before.hold:
            merge_parameters(done, out, rows, shares)
            if before.prior is not None:
                merge_statistics(done, out, rows, shares)
        else:
            merge_moments(done, out, rows, shares, state.prior)
        state.counts[part] = counts[part]
        state.received[part] = (before.received + total)[part]

    def learning_rate(self, state: NaturalState) -> float:
        """Share of the way that a typical component moves towards a sample that it wins."""
        return min(1.0, 1 / upper_median(state.counts))

    def _bound(self, state: NaturalState) -> float:
        """[E13] Largest count allowed now."""
        most = min(self.count_max(len(state.counts)), COUNT_MAX[state.moments.dtype.char])
        return min(self.count_annealing, most) if state.narrow_at < 0 else most

    def _holds(self, context: Context) -> bool:
        return not context.annealed and context.sigma > min(0.6, self.hold_above * context.schedule.sigma_init)

    def _end_annealing(self, state: NaturalState, context: Context) -> None:
        state.narrow_at, state.hold = context.samples, False
        state.next_restart = context.samples + 2 * context.schedule.period

    def _move_weights(self, state: NaturalState, age: int) -> None:
        """[E18] Move weights towards the shares received, over a memory that grows once annealing is over."""
        received = state.received
        total = float(np.add.reduce(received))
        if total == 0:
            return  # all samples were so extreme that they had no influence
        memory = self.count_annealing * len(received) + age
        if self.half_life is not None:
            memory = min(memory, self.half_life / log(2))
        move_weights(state.weights, received, state.since_restart, total, total / (memory + total))

    def _restart(self, state: NaturalState, parameters: Parameters, context: Context) -> int:
        """[E19] Move light components beside those that carry the most; return how many moved."""
        light = np.flatnonzero(state.weights < self.restart_below / len(state.weights))
        used = state.since_restart > 0
        state.since_restart = np.zeros_like(state.since_restart)
        if not len(light):
            return 0
        moved = restarts.restart(state, parameters, light, used, context)
        state.weights /= state.weights.sum()  # what the light ones had goes to all
        parameters.refresh()
        return moved

    def _recruit(self, state: NaturalState, parameters: Parameters, context: Context) -> None:
        """[E22] After a drift, move the lightest idle component to where samples fall now.

        Components that carry the change learn fast; all others keep what they know.
        """
        busy = state.received >= 0.02 * state.received.sum()
        state.counts[busy] = np.minimum(state.counts[busy], self.count_annealing)
        idle = np.flatnonzero(state.received == 0)
        state.recruits_left = state.recruits_left - 1 if len(idle) else 0
        if not len(idle):
            return
        lightest = int(idle[state.weights[idle].argmin()])
        restarts.recruit(state, parameters, lightest, context)
        state.weights /= state.weights.sum()
        parameters.refresh()


ANOMALY_RULE = Natural(reg_covar=0.1)
"""What detectors learn with: narrow components make good densities, but rank anomalies poorly."""
COUPLED_ANOMALY_RULE = Natural(reg_covar=0.001)
"""The same for covariances that couple features: what breaks a correlation shows in narrow directions."""


def anomaly_rule(covariance_type: str) -> Natural:
    """Return what detectors learn with."""
    return COUPLED_ANOMALY_RULE if covariance_type in ("full", "low_rank") else ANOMALY_RULE
