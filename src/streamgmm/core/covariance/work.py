"""What covariance kinds work on, apart from parameters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.tensors import Tensors
from streamgmm.native import Filters, Floats, Samples, Tally


class Bounds(NamedTuple):
    """Smallest and largest scale, the square root of a precision."""

    scale_min: float
    scale_max: float

    @property
    def precision_max(self) -> float:
        """Inverse of the smallest variance."""
        return self.scale_max**2

    @property
    def variance_max(self) -> float:
        """Variances beyond this have no scale."""
        return float(1 / self.scale_min**2)


class Work(NamedTuple):
    """Whole batches of samples, and what stays the same while they are learned."""

    samples: Samples
    filters: Filters
    bounds: Bounds
    tally: Tally | None = None  # of steps of single rows


class Prior(NamedTuple):
    """[E24] A prior on variances.

    ``rows`` (4, D), in the layout of the kind, are the variance that the prior expects of each feature, the number of
    samples it counts like, what is added to a variance, and the smallest variance. ``evidence`` (K,) is the weight that
    each component has received in all: the prior fades with it.
    """

    rows: Floats
    evidence: npt.NDArray[np.float64]


class Statistics(NamedTuple):
    """Running statistics of all components: means in the layout of the kernel, and moments about them."""

    means: Floats
    moments: Tensors
