"""
A rule of your own
==================

A rule defines how samples change parameters. Subclass :class:`~streamgmm.Rule`, register it by name, and
everything else works: annealing, threads, saving, the command line.
"""

# %%
# This rule moves each winner a constant share of the way, so it never stops adapting. ``start`` creates its state, and
# ``advance`` takes the steps of some samples: here with the kernel of the natural rule.

from dataclasses import dataclass

import numpy as np

from streamgmm import Rule, StreamingGaussianMixture, register_rule
from streamgmm.core.rules import MomentState
from streamgmm.native import NaturalStep


@register_rule
@dataclass(frozen=True)
class ConstantRate(Rule):
    """Move each winner by a constant share of the way."""

    name = "constant-rate"
    rate: float = 0.02

    def start(self, parameters, context):
        return MomentState.of(parameters, count=1 / self.rate)

    def advance(self, state, parameters, work):
        step = NaturalStep(growth=0.0, count_max=1 / self.rate, scale_bounds=work.bounds)
        return parameters.kind.natural_steps(parameters, state.moments, state.counts, state.received, work, step)

    def learning_rate(self, state):
        return self.rate


# %%
# Use it by name, or as an object with settings.

rng = np.random.default_rng(0)
centres = np.array([[0.2, 0.2], [0.8, 0.2], [0.5, 0.8]])
x = centres[rng.integers(3, size=20_000)] + rng.normal(0, 0.05, (20_000, 2))
model = StreamingGaussianMixture(9, rule=ConstantRate(rate=0.05), scale="none", precision_max=1000, random_state=0)
model.partial_fit(x)
print(f"{model.score(x):.2f} nats; best possible {-np.log(2 * np.pi * np.e * 0.05**2 * 3):.2f}")

# %%
# Model files name the rule; import the module that registers it before you load one.

from streamgmm import plots

figure = plots.density(model)
