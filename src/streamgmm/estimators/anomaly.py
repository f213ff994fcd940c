"""Anomalies: rows that are less likely than nearly all recent ones. The threshold sets itself."""

from __future__ import annotations

import os
from math import inf
from numbers import Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, OutlierMixin, clone
from sklearn.utils.validation import check_is_fitted

from streamgmm.core.explanation import Reason
from streamgmm.core.rows import rows_with_values
from streamgmm.errors import ModelFileError
from streamgmm.estimators.mixture import FIXED, StreamingGaussianMixture
from streamgmm.estimators.validation import ANOMALY_RULE, COUPLED_ANOMALY_RULE, refuse_changes, warn_of_scaling
from streamgmm.estimators.weights import Weights, check_counts, check_weights
from streamgmm.monitoring import Monitor, RecentQuantiles
from streamgmm.storage import load_model, save_model

REPEATED = 1e7  # total of integer weights up to which rows are repeated to find a quantile
BLOCK = 256  # rows are scored, then learned, in blocks of this size: no row is scored by a model that has learned it


class StreamingAnomalyDetector(OutlierMixin, BaseEstimator):
    """Flag rows whose log-likelihood under a streaming mixture is lower than that of nearly all recent rows.

    ``fit`` sets the threshold ``offset_`` on its data. ``partial_fit`` follows the stream: each block of rows is scored
    before it is learned, and a sketch of the latest scores decides what is typical.

    Parameters
    ----------
    mixture : StreamingGaussianMixture or None, default=None
        The mixture to learn with; None uses the defaults. A clone of it is fitted, as ``mixture_``: of a mixture that
        is fitted already only the parameters count. Instead of ``rule="natural"`` a detector learns with
        ``Natural(reg_covar=0.05)`` (0.001 where covariances couple features): narrow components make good densities,
        but rank anomalies poorly. To choose
        yourself, give the mixture a rule object.
    contamination : float, default=0.01
        Share of the data to flag, within (0, 0.5).

    Attributes
    ----------
    mixture_ : StreamingGaussianMixture
        The fitted mixture.
    offset_ : float
        Threshold on the log-likelihood.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (D,)
        Names of the features, if the data had some.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
    >>> x = np.random.default_rng(0).normal(0.5, 0.25, (5000, 8))
    >>> detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0), contamination=0.02).fit(x)
    >>> detector.predict([[0.5] * 8, [3.0] * 8]).tolist()
    [1, -1]
    """

    _doc_link_module = "streamgmm"
    _doc_link_template = "https://streamgmm.readthedocs.io/en/stable/api/{estimator_name}.html"
    _rest: float  # fraction of weights that is not yet a whole row

    def __init__(self, mixture: StreamingGaussianMixture | None = None, contamination: float = 0.01) -> None:
        self.mixture = mixture
        self.contamination = contamination

    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn from rows and set the threshold so that ``contamination`` of them is flagged.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to learn from.
        y : None
            Ignored.
        sample_weight : array-like of shape (N,) or None, default=None
            How often each row counts, as in the mixture.

        Returns
        -------
        self : StreamingAnomalyDetector
            The fitted detector.
        """
        self._check_parameters()
        mixture = self._new_mixture().fit(X, sample_weight=sample_weight)
        rows = mixture._check_rows(X)
        scores, known = mixture._ask(rows, "log_prob"), rows_with_values(rows)
        weights = check_weights(sample_weight, len(scores))
        if not known.any():
            raise ValueError(f"none of the {len(rows)} rows of X contains a number; there is nothing to learn from.")
        scores, weights = scores[known], None if weights is None else weights[known]
        self._take(mixture, RecentQuantiles())
        for start in range(0, len(scores), BLOCK):
            part = slice(start, start + BLOCK)
            self._quantiles.fill(self._repeat(scores[part], None if weights is None else weights[part]))
        self.offset_ = _quantile(scores, weights, self.contamination)
        return self

    def partial_fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Score rows, then learn them, block by block; the threshold follows the latest scores.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to learn from.
        y : None
            Ignored.
        sample_weight : array-like of shape (N,) or None, default=None
            How often each row counts, as in the mixture.

        Returns
        -------
        self : StreamingAnomalyDetector
            The fitted detector.
        """
        self._check_parameters()
        begun = hasattr(self, "mixture_")
        mixture = self.mixture_ if begun else self._new_mixture()
        if begun:
            self._refuse_changes()
        rows = mixture._check_rows(X) if begun else mixture._check_first_rows(X)
        weights = check_counts(sample_weight, len(rows))
        if not begun:
            mixture._begin(X, rows)
            self._take(mixture, RecentQuantiles())
            self.offset_ = -inf  # nothing is unusual yet
        for start in range(0, len(rows), BLOCK):
            block = rows[start : start + BLOCK]
            counts = None if weights is None else weights[start : start + BLOCK]
            if counts is not None and not counts.any():
                continue
            if mixture.trainer_.annealed:
                known = rows_with_values(block)
                scores = mixture._ask(block[known], "log_prob") if known.any() else np.empty(0)
                self._quantiles.add(self._repeat(scores, None if counts is None else counts[known]))
            mixture._learn(block, counts)
        self._set_offset()
        return self

    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the exact log-likelihood of each row: (N,). Low is anomalous.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        check_is_fitted(self)
        return self.mixture_.score_samples(X)

    def decision_function(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return ``score_samples(X) − offset_``, negative for anomalies: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        scores = self.score_samples(X)
        return scores - self.offset_

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return -1 for anomalies and 1 for all others: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to judge.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    def p_values(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the probability that a typical row is as unlikely as each row: (N,), never zero.

        It is 1 while nothing is known yet.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to judge.
        """
        scores = self.score_samples(X)
        return self._quantiles.p_values(scores)

    def explain(self, X: npt.ArrayLike, most: int | None = None) -> list[list[Reason]]:
        """Return, for each row, the features that make it strange, most important first; see `Mixture.explain`.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to explain.
        most : int or None, default=None
            Largest number of features per row; None for all.
        """
        check_is_fitted(self)
        rows = self.mixture_._check_rows(X)
        names = getattr(self, "feature_names_in_", None)
        return self.mixture_.mixture_.explain(rows, None if names is None else list(names), most)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the detector, its mixture and its sketch of scores to one file; ``streamgmm score`` reads it.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        check_is_fitted(self)
        offset = None if self.offset_ == -inf else self.offset_
        saved = self.mixture_._saved()
        saved.monitor = Monitor(scores=self._quantiles)
        saved.detector = {"contamination": float(self.contamination), "offset": offset, "rest": self._rest}
        save_model(path, saved)

    @classmethod
    def load(cls, path: str | os.PathLike[str], contamination: float | None = None) -> Self:
        """Read a detector.

        Parameters
        ----------
        path : str or path-like
            A file written by ``save`` or by ``streamgmm train``.
        contamination : float or None, default=None
            Share of the data to flag; None keeps the one that was saved, or 0.01.
        """
        saved = load_model(path)
        if saved.monitor is None:
            raise ModelFileError(f"{path} holds only a mixture; a detector needs scores, as a run saves them.")
        mixture = StreamingGaussianMixture._from_saved(saved, path)
        warn_of_scaling(saved.scaling)
        if contamination is not None:
            cls(mixture, contamination)._check_parameters()
        try:
            known = dict(saved.detector or {})
            share = float(known.get("contamination", 0.01)) if contamination is None else contamination
            self = cls(clone(mixture), share)
            self._check_parameters()
            self._take(mixture, saved.monitor.scores)
            self.offset_ = -inf if known.get("offset") is None else float(known["offset"])
            self._rest = float(known.get("rest", 0.0))
        except (KeyError, TypeError, ValueError) as problem:
            raise ModelFileError(f"{path} is damaged: {problem!s:.200}. Use another copy, or train again.") from problem
        if share != known.get("contamination"):
            self._set_offset()
        return self

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.mixture is not None and bool(self.mixture.allow_nan)
        return tags

    def _check_parameters(self) -> None:
        if self.mixture is not None and not isinstance(self.mixture, StreamingGaussianMixture):
            raise ValueError(f"mixture is {self.mixture!r}; expected a StreamingGaussianMixture or None.")
        if not isinstance(self.contamination, Real) or not 0 < self.contamination < 0.5:
            raise ValueError(f"contamination is {self.contamination!r}; expected a share within (0, 0.5).")

    def _refuse_changes(self) -> None:
        """Raise if a parameter of ``mixture`` has changed since training began."""
        wanted, fitted = self._new_mixture(), self.mixture_
        now, begun = ({name: getattr(m, name) for name in FIXED} for m in (wanted, fitted))
        refuse_changes(now, begun, prefix="mixture.")

    def _repeat(self, scores: npt.NDArray[np.float64], weights: Weights | None) -> npt.NDArray[np.float64]:
        """Repeat each score as often as its weight says; fractions add up until they are a whole one."""
        if weights is None or not len(weights):
            return scores
        ends = self._rest + np.cumsum(weights)
        counts = np.diff(np.floor(ends), prepend=0.0)
        self._rest = float(ends[-1] % 1)
        return np.repeat(scores, np.minimum(counts, self._quantiles.window).astype(np.int64))

    def _set_offset(self) -> None:
        """Move the threshold to the latest scores, once there are enough of them."""
        if len(self._quantiles) >= 1 / self.contamination:
            self.offset_ = self._quantiles.quantile(self.contamination)

    def _new_mixture(self) -> StreamingGaussianMixture:
        mixture = StreamingGaussianMixture() if self.mixture is None else clone(self.mixture)
        if mixture.rule == "natural" and mixture.scale == "auto":
            coupled = mixture.covariance_type in ("full", "low_rank")
            mixture.set_params(rule=COUPLED_ANOMALY_RULE if coupled else ANOMALY_RULE)
        return mixture

    def _take(self, mixture: StreamingGaussianMixture, quantiles: RecentQuantiles) -> None:
        self.mixture_, self._quantiles = mixture, quantiles
        self._rest = 0.0
        self.n_features_in_ = mixture.n_features_in_
        if hasattr(mixture, "feature_names_in_"):
            self.feature_names_in_ = mixture.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _quantile(scores: npt.NDArray[np.float64], weights: Weights | None, share: float) -> float:
    """Return the score below which this share of all weight lies."""
    if weights is None:
        return float(np.quantile(scores, share))
    if weights.sum() < REPEATED and (weights == np.floor(weights)).all():
        return float(np.quantile(np.repeat(scores, weights.astype(np.int64)), share))
    order = np.argsort(scores)
    below = np.cumsum(weights[order])
    return float(scores[order[np.searchsorted(below, share * below[-1])]])
