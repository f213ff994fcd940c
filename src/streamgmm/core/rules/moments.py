"""States of rules that learn running moments, and how the moments of replicas are merged."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from streamgmm.core.batch_em import Fit, Sheet
from streamgmm.core.covariance import Bounds, Prior, Statistics
from streamgmm.core.engine import Replica, Round
from streamgmm.core.parameters import Parameters
from streamgmm.core.refinement import PARTS, cross_validated
from streamgmm.core.state import BUFFER, SUMS, State, require_range
from streamgmm.core.tensors import Tensors

LEAST_COUNT = 1e-100
LARGEST_PRIOR = 1e60  # number in a prior


@dataclass(kw_only=True)
class RegularisedState(State):
    """State of a rule that knows a prior on variances, where samples are standardised; see `Prior`."""

    evidence: npt.NDArray[np.float64] | None = field(default=None, metadata=SUMS)
    prior_rows: npt.NDArray[Any] | None = field(default=None, metadata=BUFFER)

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        if (self.evidence is None) != (self.prior_rows is None):
            raise ValueError("the state of the rule has a prior without evidence, or evidence without a prior")
        if self.evidence is None or self.prior_rows is None:
            return
        require_range("evidence", self.evidence, 0.0)
        like = parameters.kind.start_prior(parameters.n_features, parameters.dtype, 1.0)
        found = self.prior_rows
        if like is not None and (found.shape != like.shape or found.dtype != like.dtype):
            raise ValueError(f"tensor 'prior_rows' is {found.dtype} {found.shape}; expected {like.dtype} {like.shape}")
        require_range("prior_rows", found, 0.0, LARGEST_PRIOR)

    @property
    def prior(self) -> Prior | None:
        """The prior, if there is one."""
        if self.prior_rows is None or self.evidence is None:
            return None
        return Prior(self.prior_rows, self.evidence)

    def start_prior(self, parameters: Parameters) -> None:
        """Begin without evidence."""
        self.evidence = np.zeros(len(parameters))
        self.prior_rows = parameters.kind.start_prior(parameters.n_features, parameters.dtype, 1.0)


def cross_validated_losses(
    state: RegularisedState, parameters: Parameters, sheet: Sheet, bounds: Bounds, parts: int = PARTS
) -> Any:
    """[E31] Return what each of all samples loses if a fifth of them is left out, (N,); None if that is not known."""
    prior, moments = state.prior, getattr(state, "moments", None)
    if prior is None or moments is None or not parameters.kind.leaves_out:
        return None
    fit = Fit(parameters, moments, prior, bounds)
    return parameters.kind.score(parameters, sheet.samples).log_likelihood - cross_validated(sheet, fit, parts)


def with_prior(prior: Prior | None) -> tuple[Prior, ...]:
    """Return the prior as arguments: covariance kinds need not know of priors."""
    return () if prior is None else (prior,)


@dataclass
class MomentState(State):
    """Moments about the means of the parameters, counts (K,), and weight received since the last check (K,)."""

    moments: Tensors
    counts: npt.NDArray[np.float64]
    received: npt.NDArray[np.float64] = field(metadata=SUMS)

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        parameters.kind.validate_moments(self.moments, parameters.means)
        require_range("counts", self.counts, LEAST_COUNT)
        require_range("received", self.received, 0.0)

    @classmethod
    def of(cls, parameters: Parameters, count: float, **others: Any) -> Self:
        """Return moments that agree with the parameters, and the same count for every component."""
        size = len(parameters)
        return cls(parameters.kind.start_moments(parameters), np.full(size, float(count)), np.zeros(size), **others)


def merge_moments(
    done: Round, out: Replica, rows: range, shares: npt.NDArray[np.float64], prior: Prior | None = None
) -> None:
    """Merge means and moments by shares (K, R), and set the covariances that follow from them."""
    moments, kind = merge_statistics(done, out, rows, shares), out.parameters.kind
    for part in _moved(done, rows) if kind.couples_features else [rows]:
        kind.set_from_moments(out.parameters, moments, done.bounds, part, *with_prior(prior))


def _moved(done: Round, rows: range) -> list[range]:
    """Return the components that any replica has moved; factors of the others are costly, and stay as they are."""
    before = done.start.parameters.means
    return [range(k, k + 1) for k in rows if any((r.parameters.means[k] != before[k]).any() for r in done.replicas)]


def merge_statistics(done: Round, out: Replica, rows: range, shares: npt.NDArray[np.float64]) -> Tensors:
    """Merge means and moments by shares (K, R), and return the moments; covariances stay."""
    to, of, *parts = (_statistics(replica) for replica in (out, done.start, *done.replicas))
    out.parameters.kind.merge_statistics(to, of, parts, shares, rows, done.bounds)
    return to.moments


def _statistics(replica: Replica) -> Statistics:
    moments: Any = getattr(replica.state, "moments", None)
    return Statistics(replica.parameters.buffers["means"], moments)
