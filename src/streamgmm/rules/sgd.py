"""Stochastic gradient ascent: the rule of the paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from streamgmm import kernels
from streamgmm.grid import Filters
from streamgmm.kernels import Floats, Parameters, Steps
from streamgmm.rules.base import Moment, Rule, RuleState, ScaleBounds


@dataclass(frozen=True)
class SGD(Rule):
    """Gradient steps on means, scales and logits, with a rate that falls together with σ.

    Without annealing the rate is constant at its minimum: at a large rate a narrow winner overshoots its samples.

    >>> SGD(learning_rate_init=0.05).settings()
    {'name': 'sgd', 'learning_rate_init': 0.05, 'learning_rate_min': 0.001, 'shrink': 0.9}
    """

    name: ClassVar[str] = "sgd"
    learning_rate_init: float = 0.1
    learning_rate_min: float = 0.001
    shrink: float = 0.9

    def start(self, parameters: Parameters, moment: Moment, scale_max: float) -> RuleState:
        rate = self.learning_rate_min if moment.narrow else max(self.learning_rate_init, self.learning_rate_min)
        return {"learning_rate": np.array(rate)}

    def advance(
        self,
        state: RuleState,
        parameters: Parameters,
        x: Floats,
        filters: Filters,
        batch_size: int,
        scale_bounds: ScaleBounds,
    ) -> Steps:
        rate = self.learning_rate(state)
        return kernels.sgd_steps(parameters, x, filters, rate=rate, scale_bounds=scale_bounds, batch_size=batch_size)

    def check(
        self,
        state: RuleState,
        parameters: Parameters,
        moment: Moment,
        scale_bounds: ScaleBounds,
        rng: np.random.Generator,
    ) -> None:
        if moment.shrunk:
            state["learning_rate"] = np.array(max(self.shrink * self.learning_rate(state), self.learning_rate_min))

    def learning_rate(self, state: RuleState) -> float:
        return float(state["learning_rate"])
