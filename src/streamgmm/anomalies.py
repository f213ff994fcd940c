"""Anomalies: rows that are less likely than nearly all that came before. The threshold sets itself."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin, _fit_context, clone
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.recent import RecentQuantiles

BLOCK = 256  # rows are scored, then learned, in blocks of this size: nobody is judged by a model that knows it


class StreamingAnomalyDetector(OutlierMixin, BaseEstimator):
    """Flags rows whose log-likelihood under a streaming mixture is lower than that of nearly all recent rows.

    Parameters
    ----------
    mixture : the `StreamingGaussianMixture` to learn with; None is one as it comes.
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

    def __init__(self, mixture: StreamingGaussianMixture | None = None, contamination: float = 0.01) -> None:
        self.mixture = mixture
        self.contamination = contamination

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Learns from X (N, D) and sets the threshold so that ``contamination`` of it is flagged."""
        mixture = self._fresh().fit(X)
        scores = mixture.score_samples(X)
        self._take(mixture, RecentQuantiles())
        self._quantiles.add(scores)
        self.offset_ = float(np.quantile(scores, self.contamination))
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def partial_fit(self, X: npt.ArrayLike, y: object = None) -> Self:
        """Scores the rows of X (N, D), then learns them, block by block; the threshold follows the latest scores."""
        if not hasattr(self, "mixture_"):
            mixture = self._fresh()
            rows = mixture._start(X)
            self._take(mixture, RecentQuantiles())
            self.offset_ = -np.inf  # nothing is unusual yet
        else:
            rows = self.mixture_._valid(X)
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            annealing = self.mixture_.sigma_ > self.mixture_.sigma_min
            if not annealing:
                self._quantiles.add(self.mixture_._ask_valid(block, "log_prob"))
            self.mixture_._learn(block)
        if len(self._quantiles) >= 1 / self.contamination:
            self.offset_ = self._quantiles.quantile(self.contamination)
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

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.mixture is not None and bool(self.mixture.allow_nan)
        return tags

    def _fresh(self) -> StreamingGaussianMixture:
        return StreamingGaussianMixture() if self.mixture is None else clone(self.mixture)

    def _take(self, mixture: StreamingGaussianMixture, quantiles: RecentQuantiles) -> None:
        self.mixture_, self._quantiles = mixture, quantiles
        self.n_features_in_ = mixture.n_features_in_
        if hasattr(mixture, "feature_names_in_"):
            self.feature_names_in_ = mixture.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_
