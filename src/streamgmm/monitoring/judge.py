"""How unusual rows are: p-values and thresholds, for rows with gaps by the features that they have."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring.gaps import by_gaps, fill_gaps
from streamgmm.monitoring.monitor import Monitor
from streamgmm.monitoring.reference import Reference

Numbers = npt.NDArray[np.float64]
DRAWN = 1000  # rows drawn from the model where no rows of the stream are known
WORK = 1 << 22  # numbers per pattern of gaps: rows times features times components
FEWEST_ROWS = 200
PATTERNS = 256  # that are remembered
SEED = 0


class Verdict(NamedTuple):
    """The p-value of each row, and the score below which it is an anomaly, each (N,)."""

    p_values: Numbers
    thresholds: Numbers


class Judge:
    """Judges rows by what a monitor knows, under a model that does not change while it judges.

    Parameters
    ----------
    trainer : Trainer
        The model.
    monitor : Monitor
        What is typical of its stream.
    mixture : Mixture or None, default=None
        The model as it was before; None for the present one.
    """

    def __init__(self, trainer: Trainer, monitor: Monitor, mixture: Mixture | None = None) -> None:
        self._trainer, self._monitor = trainer, monitor
        self.mixture = trainer.mixture if mixture is None else mixture
        reservoir = monitor.reservoir
        self._rows = None if reservoir is None or not len(reservoir) else reservoir.rows.copy()
        self._references: dict[bytes, Reference] = {}

    @property
    def known(self) -> bool:
        """Whether enough is known to judge."""
        return self._monitor.reference.known

    def judge(self, rows: npt.NDArray[Any], scores: Numbers, contamination: float) -> Verdict:
        """Judge rows (N, D) by their scores (N,).

        Parameters
        ----------
        rows : array of shape (N, D)
            Rows; NaN marks gaps.
        scores : array of shape (N,)
            Their log-likelihood.
        contamination : float
            Share of typical rows that may be flagged.
        """
        p_values, thresholds = np.ones(len(rows)), np.full(len(rows), -inf)
        if self.known:
            for gaps, some in by_gaps(rows):
                reference = self._reference(gaps)
                p_values[some] = reference.p_values(scores[some])
                thresholds[some] = reference.threshold(contamination)
        return Verdict(p_values, thresholds)

    def _reference(self, gaps: npt.NDArray[np.bool_]) -> Reference:
        """Return the reference for rows that have these gaps."""
        if not gaps.any():
            return self._monitor.reference
        key = gaps.tobytes()
        if key not in self._references:
            if len(self._references) == PATTERNS:
                self._references.clear()
            self._references[key] = self._scored_with(gaps)
        return self._references[key]

    def _scored_with(self, gaps: npt.NDArray[np.bool_]) -> Reference:
        """Score a sample of rows with these gaps.

        What the reference knows beyond that sample, from all rows and out of sample, is carried over quantile by
        quantile, in proportion to the features that are left.
        """
        mixture, whole = self.mixture, self._sample
        known = self._monitor.reference
        scores, with_gaps = (np.sort(mixture.log_prob(rows)) for rows in (whole, np.where(gaps, np.nan, whole)))
        shares = np.arange(1, len(whole) + 1) / (len(whole) + 1)
        lower = scores - np.interp(shares, known.shares, known.scores)
        return Reference.of(with_gaps - lower * (1 - gaps.mean()))

    @cached_property
    def _sample(self) -> npt.NDArray[Any]:
        """Rows of the stream without gaps, or of the model where none are known."""
        most = max(FEWEST_ROWS, WORK // (self._trainer.n_features * self._trainer.n_components))
        if self._rows is None:
            return self.mixture.sample(min(most, DRAWN), SEED)[0]
        return fill_gaps(self.mixture, self._rows[:most])
