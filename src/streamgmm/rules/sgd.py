"""Stochastic gradient ascent: the rule of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np

from streamgmm import kernels
from streamgmm.kernels import Parameters, Steps
from streamgmm.merging import Part, Round, average_parameters
from streamgmm.rules.base import Moment, Rule, RuleState, Work, nothing_usual, plain_numbers

NARROW, SLOW = 0.3, 0.16  # cells; share of the first rate. On a grid of 8×8 they come together


@dataclass(frozen=True)
class SGD(Rule):
    """Gradient steps on means, scales and logits, with a rate that falls together with σ.

    Without annealing the rate is constant at its minimum: at a large rate a narrow winner overshoots its samples.

    >>> SGD(learning_rate_init=0.05).settings()
    {'name': 'sgd', 'learning_rate_init': 0.05, 'learning_rate_min': 0.001, 'shrink': 0.9}
    """

    name: ClassVar[str] = "sgd"
    drop_below: ClassVar[float] = 0.25
    learning_rate_init: float = 0.1
    learning_rate_min: float = 0.001
    shrink: float = 0.9

    def __post_init__(self) -> None:
        plain_numbers(self)
        if not (0 < self.learning_rate_init < inf and 0 < self.learning_rate_min < inf and 0 < self.shrink <= 1):
            raise ValueError(
                f"learning_rate_init is {self.learning_rate_init}, learning_rate_min {self.learning_rate_min}, "
                f"shrink {self.shrink}; expected positive rates and a factor within (0, 1]."
            )

    def start(self, parameters: Parameters, moment: Moment) -> RuleState:
        rate = self.learning_rate_min if moment.annealed else max(self.learning_rate_init, self.learning_rate_min)
        return {"learning_rate": np.array(rate), "usual": nothing_usual()}

    def advance(self, state: RuleState, parameters: Parameters, work: Work) -> Steps:
        return kernels.sgd_steps(
            parameters,
            work.x,
            work.filters,
            rate=self.learning_rate(state),
            scale_bounds=work.scale_bounds,
            **work.reading(state),
        )

    def check(self, state: RuleState, parameters: Parameters, moment: Moment) -> bool:
        if moment.shrunk:
            state["learning_rate"] = np.array(max(self.shrink * self.learning_rate(state), self.learning_rate_min))
        return False

    def reheat(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        rate = self.learning_rate_init * moment.sigma / moment.schedule.sigma_init
        state["learning_rate"] = np.array(max(rate, self.learning_rate_min))

    def waits(self, state: RuleState, moment: Moment) -> bool:
        falling = moment.shrunk and self.learning_rate(state) > self.learning_rate_min
        return moment.annealed and not falling

    def finished(self, state: RuleState, moment: Moment) -> bool:
        """Neighbours hardly matter any more, and the rate has come down with the width."""
        slow = self.learning_rate(state) <= max(self.learning_rate_min, SLOW * self.learning_rate_init)
        return slow and moment.sigma <= max(NARROW, moment.schedule.sigma_min)

    def merge(self, done: Round, out: Part, rows: range) -> None:
        average_parameters(done, out, rows)

    def learning_rate(self, state: RuleState) -> float:
        return float(state["learning_rate"])
