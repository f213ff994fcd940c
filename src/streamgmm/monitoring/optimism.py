"""How much better rows score under a model that was refined on them than new rows do."""

from __future__ import annotations

from collections.abc import Mapping
from math import exp, expm1, inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.state import require_range
from streamgmm.monitoring.reference import Reference

Numbers = npt.NDArray[np.float64]
LEVELS = np.linspace(0.02, 0.98, 49)  # shares of rows; below the first, rows are few and often outliers
LARGEST_GAP = 1e12


class Optimism(NamedTuple):
    """[E47] What rows of a sample gain because the model has learned them.

    Attributes
    ----------
    gaps : array of shape (49,)
        Nats by which their scores exceed out-of-sample ones, at quantiles 0.02 to 0.98.
    seen : int
        Rows that the stream had then.
    """

    gaps: Numbers
    seen: int

    @classmethod
    def of(cls, scores: Numbers, reference: Reference, seen: int) -> Optimism:
        """Compare scores (n,) of a sample under the model with a reference that is out of sample.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores of learned rows.
        reference : Reference
            What new rows score.
        seen : int
            Rows that the stream has had.
        """
        above = np.quantile(scores, LEVELS) - np.interp(LEVELS, reference.shares, reference.scores)
        return cls(np.clip(above, 0.0, LARGEST_GAP), seen)

    def without(self, scores: Numbers, seen: int, memory: float = inf) -> Numbers:
        """Return scores (n,) of a sample, in increasing order, as if the model had not been refined on its rows.

        Rows that came later were learned once, in passing; the correction fades as they replace the others.

        Parameters
        ----------
        scores : array of shape (n,)
            Scores of the sample under the current model.
        seen : int
            Rows that the stream has had by now.
        memory : float, default=inf
            Rows after which a row of the sample counts less by a factor e.
        """
        ordered = np.sort(scores)
        ranks = np.arange(1, len(ordered) + 1) / (len(ordered) + 1)
        return np.maximum.accumulate(ordered - self._left(seen, memory) * np.interp(ranks, LEVELS, self.gaps))

    def _left(self, seen: int, memory: float) -> float:
        """Return the share of a sample of the stream that the model was refined on."""
        if seen <= self.seen:
            return 1.0
        if memory == inf:
            return self.seen / seen
        return exp((self.seen - seen) / memory) * expm1(-self.seen / memory) / expm1(-seen / memory)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return everything as arrays, for a file."""
        return {"optimism.gaps": self.gaps, "optimism.seen": np.array(self.seen)}

    @classmethod
    def from_tensors(cls, tensors: Mapping[str, npt.NDArray[Any]]) -> Optimism:
        """Return what ``tensors`` describe, none if they do not; raise ValueError if they are damaged."""
        if "optimism.gaps" not in tensors:
            return NONE
        gaps, seen = tensors["optimism.gaps"], int(tensors["optimism.seen"])
        if gaps.shape != LEVELS.shape or gaps.dtype != np.float64:
            raise ValueError(f"tensor 'monitor.optimism.gaps' is {gaps.dtype} {gaps.shape}; expected {LEVELS.shape}")
        require_range("monitor.optimism.gaps", gaps, 0.0, LARGEST_GAP)
        require_range("monitor.optimism.seen", seen, 0)
        return cls(gaps, seen)


NONE = Optimism(np.zeros(len(LEVELS)), 0)
