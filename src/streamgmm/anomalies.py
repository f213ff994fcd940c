"""Anomalies: rows that are less likely than nearly all that came before. The threshold sets itself."""

from __future__ import annotations

import os
from math import inf
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from streamgmm import files, inputs, training
from streamgmm.checkpoint import ModelFileError
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.recent import Recent, RecentQuantiles

REPEATED = 1e7  # rows in all that weights may stand for before we stop to write them out
BLOCK = 256  # rows are scored, then learned, in blocks of this size: nobody is judged by a model that knows it


class StreamingAnomalyDetector(OutlierMixin, BaseEstimator):
    """Flags rows whose log-likelihood under a streaming mixture is lower than that of nearly all recent rows.

    Parameters
    ----------
    mixture : the `StreamingGaussianMixture` to learn with; None is one as it comes. A clone of it learns, as
        ``mixture_``: of one that is fitted already only the settings count.
    contamination : share of the data that is to be flagged.

    ``fit`` sets the threshold ``offset_`` on its data; ``partial_fit`` follows the stream: each block is scored before
    it is learned, and a sketch of the latest scores says what is usual.

    Examples
    --------
    >>> x = np.random.default_rng(0).normal(0.5, 0.25, (5000, 8))
    >>> detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0), contamination=0.02).fit(x)
    >>> detector.predict([[0.5] * 8, [3.0] * 8]).tolist()
    [1, -1]
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's form)
        "mixture": [StreamingGaussianMixture, None],
        "contamination": [Interval(Real, 0, 0.5, closed="neither")],
    }

    _rest: float  # of weights, not yet a whole one

    def __init__(self, mixture: StreamingGaussianMixture | None = None, contamination: float = 0.01) -> None:
        self.mixture = mixture
        self.contamination = contamination

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learns from X (N, D) and sets the threshold so that ``contamination`` of it is flagged.

        Weights (N,) are counts, as in the mixture: a row of weight 3 is there three times.
        """
        mixture = self._fresh().fit(X, sample_weight=sample_weight)
        rows = mixture._valid(X)
        scores, known = mixture._ask_valid(rows, "log_prob"), training.rows_with_values(rows)
        weights = inputs.sample_weights(sample_weight, scores, counts=False)
        if not known.any():
            raise ValueError(f"none of the {len(rows)} rows of X holds a number; there is nothing to learn from.")
        scores, weights = scores[known], None if weights is None else weights[known]
        self._take(mixture, RecentQuantiles())
        for start in range(0, len(scores), BLOCK):
            part = slice(start, start + BLOCK)
            self._quantiles.fill(self._counted(scores[part], None if weights is None else weights[part]))
        self.offset_ = _quantile(scores, weights, self.contamination)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Scores the rows of X (N, D), then learns them, block by block; the threshold follows the latest scores."""
        begun = hasattr(self, "mixture_")
        mixture = self.mixture_ if begun else self._fresh()
        rows = mixture._valid(X) if begun else mixture._fresh_rows(X)
        weights = inputs.sample_weights(sample_weight, rows)
        if not begun:
            mixture._start(X, rows)
            self._take(mixture, RecentQuantiles())
            self.offset_ = -inf  # nothing is unusual yet
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            counts = None if weights is None else weights[start : start + BLOCK]
            if counts is not None and not counts.any():
                continue
            annealing = mixture.sigma_ > mixture.sigma_min
            if not annealing:
                known = training.rows_with_values(block)
                scores = mixture._ask_valid(block[known], "log_prob") if known.any() else np.empty(0)
                self._quantiles.add(self._counted(scores, None if counts is None else counts[known]))
            mixture._feed(block, counts)
        self._set_offset()
        return self

    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Exact log-likelihood of each row: (N,). Low is anomalous."""
        check_is_fitted(self)
        return self.mixture_.score_samples(X)

    def decision_function(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """``score_samples − offset_``: negative for anomalies, (N,)."""
        scores = self.score_samples(X)
        return scores - self.offset_

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """-1 for anomalies, 1 for all others: (N,)."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Chance that a usual row is as unlikely as each row of X: (N,), never zero; 1 while nothing is known yet."""
        scores = self.score_samples(X)
        return self._quantiles.p_values(scores)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the detector, its mixture and what is usual to one safetensors file; ``streamgmm score`` reads it."""
        check_is_fitted(self)
        recent = Recent()
        recent.scores = self._quantiles
        offset = None if self.offset_ == -inf else self.offset_
        facts = {"detector": {"contamination": float(self.contamination), "offset": offset, "rest": self._rest}}
        files.save(self.mixture_, path, facts, recent.arrays())

    @classmethod
    def load(cls, path: str | os.PathLike[str], contamination: float | None = None) -> Self:
        """Reads what ``save`` or ``streamgmm train`` wrote.

        The share to be flagged is the one that was saved, or 0.01, unless ``contamination`` says otherwise.
        """
        mixture, facts, arrays = files.load(StreamingGaussianMixture, path)
        if "scores" not in arrays:
            raise ModelFileError(f"{path} holds a mixture alone; a detector needs scores, as a run saves them.")
        files.warn_of_scaling(facts)
        if contamination is not None:
            cls(mixture, contamination)._validate_params()
        try:
            saved = dict(facts.get("detector") or {})
            share = float(saved.get("contamination", 0.01)) if contamination is None else contamination
            self = cls(clone(mixture), share)
            self._validate_params()
            self._take(mixture, Recent.from_arrays(arrays).scores)
            self.offset_ = -inf if saved.get("offset") is None else float(saved["offset"])
            self._rest = float(saved.get("rest", 0.0))
        except (KeyError, TypeError, ValueError) as problem:
            raise ModelFileError(f"{path} is damaged: {problem!s:.200}. Use another copy, or train anew.") from problem
        if share != saved.get("contamination"):
            self._set_offset()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.mixture is not None and bool(self.mixture.allow_nan)
        return tags

    def _counted(
        self, scores: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None
    ) -> npt.NDArray[np.float64]:
        """Each score as often as its weight says; fractions add up until they are a whole one."""
        if weights is None or not len(weights):
            return scores
        ends = self._rest + np.cumsum(weights)
        counts = np.diff(np.floor(ends), prepend=0.0)
        self._rest = float(ends[-1] % 1)
        return np.repeat(scores, np.minimum(counts, self._quantiles.window).astype(np.int64))

    def _set_offset(self) -> None:
        """The threshold follows the latest scores, once there are enough of them."""
        if len(self._quantiles) >= 1 / self.contamination:
            self.offset_ = self._quantiles.quantile(self.contamination)

    def _fresh(self) -> StreamingGaussianMixture:
        return StreamingGaussianMixture() if self.mixture is None else clone(self.mixture)

    def _take(self, mixture: StreamingGaussianMixture, quantiles: RecentQuantiles) -> None:
        self.mixture_, self._quantiles = mixture, quantiles
        self._rest = 0.0
        self.n_features_in_ = mixture.n_features_in_
        if hasattr(mixture, "feature_names_in_"):
            self.feature_names_in_ = mixture.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _quantile(scores: npt.NDArray[np.float64], weights: npt.NDArray[np.float64] | None, share: float) -> float:
    """The score below which such a share of all weight lies."""
    if weights is None:
        return float(np.quantile(scores, share))
    if weights.sum() < REPEATED and (weights == np.floor(weights)).all():
        return float(np.quantile(np.repeat(scores, weights.astype(np.int64)), share))
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    return float(scores[order[np.searchsorted(below, share * below[-1])]])
