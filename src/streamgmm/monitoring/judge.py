"""How unusual rows are: p-values and thresholds, for rows with gaps by the features that they have."""

from __future__ import annotations

from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.conditioning import Explainer
from streamgmm.core.mixture import Mixture
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring.gaps import by_gaps, fill_gaps, has_gaps
from streamgmm.monitoring.monitor import BULK, Monitor
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
        The model as it was before; None for the current one.
    """

    def __init__(self, trainer: Trainer, monitor: Monitor, mixture: Mixture | None = None) -> None:
        self._trainer, self._monitor = trainer, monitor
        self.mixture = trainer.mixture if mixture is None else mixture
        reservoir = monitor.reservoir
        self._rows = None if reservoir is None or not len(reservoir) else reservoir.rows.copy()
        self._references: dict[bytes, Reference] = {}

    @cached_property
    def explainer(self) -> Explainer:
        """Explains rows under the model."""
        return self.mixture.explainer()

    def prepare(self, contamination: float) -> None:
        """Compute what is the same for all rows, before the first one waits for it.

        Parameters
        ----------
        contamination : float
            As for ``judge``.
        """
        if self.known:
            known = self._monitor.reference
            known.threshold(contamination)
            known.p_value(float(known.scores[0]) - 1.0)
            _ = self.explainer

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
        if self.known and not has_gaps(rows):
            known = self._monitor.reference
            return Verdict(known.p_values(scores), np.full(len(rows), known.threshold(contamination)))
        p_values, thresholds = np.ones(len(rows)), np.full(len(rows), -inf)
        if self.known:
            for gaps, some in by_gaps(rows):
                reference = self._reference(gaps)
                p_values[some] = reference.p_values(scores[some])
                thresholds[some] = reference.threshold(contamination)
        return Verdict(p_values, thresholds)

    def judge_score(self, score: float, contamination: float) -> tuple[float, float]:
        """Return the p-value of a row without gaps, and the score below which it is an anomaly.

        Parameters
        ----------
        score : float
            Its log-likelihood.
        contamination : float
            As for ``judge``.
        """
        known = self._monitor.reference
        return known.p_value(score), known.threshold(contamination)

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
        """Score a sample of rows with these gaps, and map the reference to what it would be.

        What the reference knows beyond that sample, from all rows and out of sample, is carried over quantile by
        quantile, in proportion to the features that are left. The lowest scores of a sample are few and often
        outliers. So the tail of the reference is stretched as much as the scores above it.
        """
        known = self._monitor.reference
        shares = np.arange(1, len(self._sample) + 1) / (len(self._sample) + 1)
        whole, rest = self._scores_of_sample, np.sort(self.mixture.log_prob(np.where(gaps, np.nan, self._sample)))
        levels = np.maximum(known.shares, BULK[0])
        lower = np.interp(levels, shares, whole) - np.interp(levels, known.shares, known.scores)
        mapped = np.interp(levels, shares, rest) - lower * (1 - gaps.mean())
        spreads = [_spread(shares, scores) for scores in (whole, rest)]
        stretch = spreads[1] / spreads[0] if spreads[0] > 0 else 1.0
        start = np.interp(BULK[0], known.shares, known.scores)
        mapped -= stretch * np.maximum(start - known.scores, 0.0)
        return Reference(np.maximum.accumulate(mapped), known.shares, known.caution)

    @cached_property
    def _scores_of_sample(self) -> Numbers:
        return np.sort(self.mixture.log_prob(self._sample))

    @cached_property
    def _sample(self) -> npt.NDArray[Any]:
        """Rows of the stream without gaps, or of the model where none are known."""
        most = max(FEWEST_ROWS, WORK // (self._trainer.n_features * self._trainer.n_components))
        if self._rows is None:
            return self.mixture.sample(min(most, DRAWN), SEED)[0]
        return fill_gaps(self.mixture, self._rows[:most])


def _spread(shares: Numbers, scores: Numbers) -> float:
    """Return how far scores lie below the quantile where the tail begins, on average."""
    levels = np.linspace(*BULK, 50)
    return float((np.interp(BULK[1], shares, scores) - np.interp(levels, shares, scores)).mean())
