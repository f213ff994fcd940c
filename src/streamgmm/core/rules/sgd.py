"""Stochastic gradient ascent: the rule of the paper."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import inf
from typing import ClassVar

from streamgmm.core.covariance import Work
from streamgmm.core.engine import Replica, Round
from streamgmm.core.parameters import Parameters
from streamgmm.core.rules.base import Rule
from streamgmm.core.rules.context import Context
from streamgmm.core.rules.merging import average_parameters
from streamgmm.core.rules.plain_numbers import plain_numbers
from streamgmm.core.state import State, require_range
from streamgmm.native import SGDStep, Steps

NARROW, SLOW = 0.3, 0.16  # cells; share of the first rate. On a grid of 8×8 they are reached together


@dataclass
class SGDState(State):
    """State of `SGD`."""

    rate: float = 0.1

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        require_range("rate", self.rate, 1e-100)


@dataclass(frozen=True)
class SGD(Rule[SGDState]):
    """Gradient steps on means, scales and logits, with a rate that shrinks together with σ.

    Without annealing the rate is constant at its minimum: at a large rate a narrow winner overshoots its samples. The
    paper's tables without annealing have 0.001, which is too slow for three passes; 0.01 is better on most sets.

    Parameters
    ----------
    learning_rate_init : float, default=0.1
        Rate at the start.
    learning_rate_min : float, default=0.001
        Smallest rate.
    shrink : float, default=0.9
        Factor by which the rate shrinks whenever σ does.
    baseline : {"mean", "first"}, default="mean"
        ``"first"`` is the paper's control of the annealing: gains count from the loss of the first sample, a falling
        loss is stationary, too, and σ narrows in steps of a tenth down to its minimum. The schedule then depends on
        which sample comes first. Its tolerance is 0.05 unless ``tol`` is given.
    scaled_steps : bool, default=True
        Whether each of several replicas (threads, workers) takes larger steps, as it takes fewer, so that annealing
        needs as many samples as with one. False is how version 0.1 used threads; its files continue so.

    Examples
    --------
    >>> SGD(learning_rate_init=0.05).settings()  # doctest: +NORMALIZE_WHITESPACE
    {'name': 'sgd', 'learning_rate_init': 0.05, 'learning_rate_min': 0.001, 'shrink': 0.9,
     'baseline': 'mean', 'scaled_steps': True}

    The paper's settings with the paper's control:

    >>> from streamgmm import StreamingGaussianMixture
    >>> model = StreamingGaussianMixture.paper(rule=SGD(baseline="first"))
    >>> model.rule.baseline, model.tol
    ('first', 0.05)
    """

    name: ClassVar[str] = "sgd"
    required_steps: ClassVar[str] = "sgd_steps"
    tol: ClassVar[float | None] = None
    drop_below: ClassVar[float] = 0.25
    learning_rate_init: float = 0.1
    learning_rate_min: float = 0.001
    shrink: float = 0.9
    baseline: str = "mean"
    scaled_steps: bool = True

    def __post_init__(self) -> None:
        plain_numbers(self)
        if not (0 < self.learning_rate_init < inf and 0 < self.learning_rate_min < inf and 0 < self.shrink <= 1):
            raise ValueError(
                f"learning_rate_init is {self.learning_rate_init}, learning_rate_min {self.learning_rate_min}, "
                f"shrink {self.shrink}; expected positive rates and a factor within (0, 1]."
            )
        if self.baseline not in ("mean", "first"):
            raise ValueError(f"baseline is {self.baseline!r}; expected 'mean' or 'first'.")

    @classmethod
    def with_rates(cls, learning_rate_init: float, learning_rate_min: float) -> SGD:
        return cls(learning_rate_init, learning_rate_min)

    def start(self, parameters: Parameters, context: Context) -> SGDState:
        rate = self.learning_rate_min if context.annealed else max(self.learning_rate_init, self.learning_rate_min)
        return SGDState(rate)

    def advance(self, state: SGDState, parameters: Parameters, work: Work) -> Steps:
        return parameters.kind.sgd_steps(parameters, work, SGDStep(state.rate, work.bounds))

    def for_replicas(self, count: int) -> SGD:
        return _ReplicatedSGD(**asdict(self), count=count) if self.scaled_steps else self

    def check(self, state: SGDState, parameters: Parameters, context: Context) -> bool:
        if context.shrunk:
            state.rate = max(self.shrink * state.rate, self.learning_rate_min)
        return False

    def reheat(self, state: SGDState, parameters: Parameters, context: Context) -> None:
        if not context.annealed:
            rate = self.learning_rate_init * context.sigma / context.schedule.sigma_init
            state.rate = max(rate, self.learning_rate_min)

    def can_wait(self, state: SGDState, context: Context) -> bool:
        falling = (self.scaled_steps or context.shrunk) and state.rate > self.learning_rate_min  # checks lower it
        return context.annealed and not falling

    def finished(self, state: SGDState, context: Context) -> bool:
        """Neighbours hardly matter any more, and the rate has come down with the width."""
        slow = state.rate <= max(self.learning_rate_min, SLOW * self.learning_rate_init)
        return slow and context.sigma <= max(NARROW, context.schedule.sigma_min)

    def merge(self, done: Round, out: Replica, rows: range) -> None:
        average_parameters(done, out, rows)

    def learning_rate(self, state: SGDState) -> float:
        return state.rate


@dataclass(frozen=True)
class _ReplicatedSGD(SGD):
    """What each of several replicas follows, whose parameters are averaged.

    Each takes one in ``count`` of the steps, each ``count`` times as large: together they move as far as one that takes
    them all. A step is never larger than the first ones of a training.
    """

    count: int = 1

    def advance(self, state: SGDState, parameters: Parameters, work: Work) -> Steps:
        rate = min(self.count * state.rate, max(state.rate, self.learning_rate_init))
        return parameters.kind.sgd_steps(parameters, work, SGDStep(rate, work.bounds))
