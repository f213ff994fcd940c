"""States of rules that learn running moments, and how the moments of replicas are merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import Prior, Statistics
from streamgmm.core.engine import Replica, Round
from streamgmm.core.parameters import Parameters
from streamgmm.core.state import SUMS, State
from streamgmm.core.tensors import Tensors


@dataclass
class MomentState(State):
    """Moments about the means of the parameters, counts (K,), and weight received since the last check (K,)."""

    moments: Tensors
    counts: npt.NDArray[np.float64]
    received: npt.NDArray[np.float64] = field(metadata=SUMS)

    @classmethod
    def of(cls, parameters: Parameters, count: float, **others: Any) -> Self:
        """Return moments that agree with the parameters, and the same count for every component."""
        size = len(parameters)
        return cls(parameters.kind.start_moments(parameters), np.full(size, float(count)), np.zeros(size), **others)


def merge_moments(
    done: Round, out: Replica, rows: range, shares: npt.NDArray[np.float64], prior: Prior | None = None
) -> None:
    """Merge means and moments by shares (K, R), and set the covariances that follow from them."""
    moments = merge_statistics(done, out, rows, shares)
    with_prior = () if prior is None else (prior,)  # kinds need not know of priors
    out.parameters.kind.set_from_moments(out.parameters, moments, done.bounds, rows, *with_prior)


def merge_statistics(done: Round, out: Replica, rows: range, shares: npt.NDArray[np.float64]) -> Tensors:
    """Merge means and moments by shares (K, R), and return the moments; covariances stay."""
    to, of, *parts = (_statistics(replica) for replica in (out, done.start, *done.replicas))
    out.parameters.kind.merge_statistics(to, of, parts, shares, rows, done.bounds)
    return to.moments


def _statistics(replica: Replica) -> Statistics:
    moments: Any = getattr(replica.state, "moments", None)
    return Statistics(replica.parameters.buffers["means"], moments)
