"""What a rule may look at."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from streamgmm.core.annealing import Schedule
from streamgmm.core.covariance import Bounds


class Context(NamedTuple):
    """What a rule may look at when training starts, at a check, or at the end of a pass."""

    samples: int
    sigma: float
    schedule: Schedule
    bounds: Bounds
    rng: np.random.Generator
    shrunk: bool = False  # whether σ has shrunk at this check
    scale_free: bool = False  # whether samples are standardised, so that a prior on variances is known

    @property
    def annealed(self) -> bool:
        """Whether σ has reached its minimum."""
        return self.sigma <= self.schedule.sigma_min
