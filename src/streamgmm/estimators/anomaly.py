"""Anomalies: rows that are less likely than nearly all typical ones. The threshold sets itself."""

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
from streamgmm.core.rules.natural import anomaly_rule
from streamgmm.errors import ModelFileError
from streamgmm.estimators.locks import lock_of, one_at_a_time
from streamgmm.estimators.mixture import StreamingGaussianMixture
from streamgmm.estimators.validation import FIXED, fixed_values, refuse_changes, warn_of_scaling
from streamgmm.estimators.weights import Weights, check_counts, check_weights
from streamgmm.monitoring import Judge, Monitor, Verdict, calibrate_on_usual
from streamgmm.storage import load_model, save_model


class StreamingAnomalyDetector(OutlierMixin, BaseEstimator):
    """Flag rows whose log-likelihood under a streaming mixture is lower than that of nearly all typical rows.

    The threshold ``offset_`` belongs to the model as it is. ``fit`` takes it from all its rows, each scored as if it
    had not been learned, and does not learn the strangest rows, a share ``contamination`` of all (at most 5 %).
    ``partial_fit`` keeps a uniform sample of at most 2000 rows, which is scored by the current model as the stream
    grows and whenever it changes.

    Parameters
    ----------
    mixture : StreamingGaussianMixture or None, default=None
        The mixture to learn with; None uses the defaults. A clone of it is fitted, as ``mixture_``: of a mixture that
        is fitted already only the parameters count. Instead of ``rule="natural"`` a detector learns with
        ``Natural(reg_covar=0.1)`` (0.001 where covariances couple features): narrow components make good densities,
        but rank anomalies poorly. To choose yourself, give the mixture a rule object.
    contamination : float, default=0.01
        Share of typical rows to flag, within (0, 0.5). If at least half of that share are evident outliers, the
        threshold separates these from the others, and flags no more.

    Attributes
    ----------
    mixture_ : StreamingGaussianMixture
        The fitted mixture.
    offset_ : float
        Threshold on the log-likelihood of rows without gaps.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (D,)
        Names of the features, if the data had some.
    novelty : bool
        Always True, as in ``LocalOutlierFactor``: ``predict`` is meant for rows that were not learned. ``fit_predict``
        judges the rows of ``fit``.

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
    novelty = True
    _monitor: Monitor
    _checked: tuple[Any, ...]  # parameters with which partial_fit has learned before

    def __init__(self, mixture: StreamingGaussianMixture | None = None, contamination: float = 0.01) -> None:
        self.mixture = mixture
        self.contamination = contamination

    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn from rows and set the threshold so that ``contamination`` of rows like these is flagged.

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
        self._fit(X, sample_weight)
        return self

    def fit_predict(
        self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None
    ) -> npt.NDArray[np.int64]:
        """Fit, and judge each row by a model that has not learned it: -1 for anomalies, 1 for all others, (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to learn from and to judge.
        y : None
            Ignored.
        sample_weight : array-like of shape (N,) or None, default=None
            How often each row counts, as in the mixture.
        """
        return self._fit(X, sample_weight)

    def _fit(self, X: npt.ArrayLike, sample_weight: npt.ArrayLike | None) -> npt.NDArray[np.int64]:
        """Fit, and judge the rows of X."""
        self._check_parameters()
        mixture = self._new_mixture().fit(X, sample_weight=sample_weight)
        rows, trainer = mixture._check_rows(X).astype(mixture.trainer_.dtype, copy=False), mixture.trainer_
        weights, known = check_weights(sample_weight, len(rows)), rows_with_values(rows)
        if not known.any():
            raise ValueError(f"none of the {len(rows)} rows of X contains a number; there is nothing to learn from.")
        monitor, counts = Monitor(), None if weights is None else weights[known]
        monitor.sample(rows[known], trainer, counts)
        scores = calibrate_on_usual(monitor, trainer, rows[known], counts, self.contamination)
        self._take(mixture, monitor)
        self._set_offset()
        verdicts = np.ones(len(rows), np.int64)
        verdicts[known] = np.where(scores < self._judge(rows[known], scores).thresholds, -1, 1)
        return verdicts

    @one_at_a_time
    def partial_fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn from rows in their order; the threshold follows the stream.

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
        if sample_weight is None and self._learn_row(X):
            return self
        self._check_parameters()
        begun = hasattr(self, "mixture_")
        mixture = self.mixture_ if begun else self._new_mixture()
        if begun:
            self._refuse_changes()
        rows = mixture._check_rows(X) if begun else mixture._check_first_rows(X)
        weights = check_counts(sample_weight, len(rows), callers=3)
        if not begun:
            mixture._begin(X, rows)
            self._take(mixture, Monitor())
        self._learn(rows, weights)
        self._set_offset()
        self._checked = self._parameters
        return self

    def _learn(self, rows: npt.NDArray[Any], weights: Weights | None) -> None:
        trainer, start = self.mixture_.trainer_, 0
        while start < len(rows):
            together = len(rows) if self.mixture_.engine is not None else self._monitor.until_step
            part = slice(start, start + together)
            counts = None if weights is None else weights[part]
            if counts is None or counts.any():
                with lock_of(self.mixture_):
                    drifts = self.mixture_._learn(rows[part], counts)
                self._monitor.add(rows[part].astype(trainer.dtype, copy=False), trainer, counts, drift=drifts > 0)
            start = part.stop

    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the exact log-likelihood of each row: (N,). Low is anomalous.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        if "mixture_" not in vars(self):
            check_is_fitted(self)
        return self.mixture_.score_samples(X)

    @one_at_a_time
    def decision_function(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return ``score_samples(X) − offset_``, negative for anomalies: (N,).

        For a row with gaps the threshold is that of rows with the same gaps instead of ``offset_``.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        scores = self.score_samples(X)
        if not self.mixture_.trainer_.settings.allow_nan:
            return scores - self.offset_
        rows = self.mixture_._check_rows(X)
        if rows.dtype.kind != "f" or not np.isnan(rows).any():
            return scores - self.offset_
        return scores - self._judge(rows, scores).thresholds

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return -1 for anomalies and 1 for all others: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to judge.
        """
        return np.where(self.decision_function(X) < 0, -1, 1)

    @one_at_a_time
    def p_values(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the probability that a typical row is as unlikely as each row: (N,), never zero.

        It is 1 while nothing is known yet. Below the rarest typical row that is known, it comes from a fitted tail.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to judge.
        """
        scores = self.score_samples(X)
        return self._judge(self.mixture_._check_rows(X), scores).p_values

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
        return self.mixture_.explain(X, most)

    def to_onnx(self, dtype: npt.DTypeLike | None = None) -> Any:
        """Return an ``onnx.ModelProto`` that scores and judges rows, for use without Python; see `Mixture.to_onnx`.

        Its threshold is ``offset_``, which is meant for rows without missing values. While nothing is known yet, no row
        is an anomaly.

        Parameters
        ----------
        dtype : dtype or None, default=None
            Type of the rows, float32 or float64; None for that of the mixture.
        """
        check_is_fitted(self)
        names = getattr(self, "feature_names_in_", None)
        return self.mixture_.mixture_.to_onnx(self.offset_, dtype, None if names is None else list(names))

    @one_at_a_time
    def save(self, path: str | os.PathLike[str], rows: bool = True) -> None:
        """Write the detector to one file; ``streamgmm score`` reads it.

        The file holds rows of the stream, at most 2000, which a detector that is loaded needs to keep its threshold up
        to date.

        Parameters
        ----------
        path : str or path-like
            File to write.
        rows : bool, default=True
            False leaves these rows out, and the file holds nothing but statistics. The threshold stays; rows with gaps
            are then judged against samples of the model.
        """
        check_is_fitted(self)
        offset = None if self.offset_ == -inf else self.offset_
        saved = self.mixture_._saved()
        saved.monitor, saved.detector = self._monitor, {"contamination": float(self.contamination), "offset": offset}
        save_model(path, saved, rows=rows)

    @classmethod
    def load(cls, path: str | os.PathLike[str], contamination: float | None = None) -> Self:
        """Read a detector.

        Parameters
        ----------
        path : str or path-like
            A file written by ``save`` or by ``streamgmm train``.
        contamination : float or None, default=None
            Share of typical rows to flag; None keeps the one that was saved, or 0.01.
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
            self._take(mixture, saved.monitor)
            self.offset_ = -inf if known.get("offset") is None else float(known["offset"])
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
        wanted = StreamingGaussianMixture() if self.mixture is None else self.mixture
        now, begun = fixed_values(wanted), fixed_values(self.mixture_)
        if wanted.rule != self.mixture_.rule:  # unless a run has chosen it
            rule, named = _rule_for(wanted), zip(FIXED, now, strict=True)
            now = tuple(rule if name == "rule" else value for name, value in named)
        refuse_changes(now, begun, prefix="mixture.")

    @property
    def _parameters(self) -> tuple[Any, ...]:
        """All that ``_check_parameters`` and ``_refuse_changes`` look at, except ``mixture_``."""
        return (self.contamination, self.mixture, None if self.mixture is None else fixed_values(self.mixture))

    def _learn_row(self, X: Any) -> bool:
        """Learn one plain row as usual; return False for everything else, which needs all checks."""
        if vars(self).get("_checked") != self._parameters:
            return False
        with lock_of(self.mixture_):
            checks = self.mixture_._learn_row(X)
        if checks is None:
            return False
        drift = any(check.drift for check in checks)
        row = np.ascontiguousarray(X)
        if self._monitor.add_row(row, self.mixture_.trainer_, drift=drift):
            self._set_offset()
        return True

    def _judge(self, rows: npt.NDArray[Any], scores: npt.NDArray[np.float64]) -> Verdict:
        return Judge(self.mixture_.trainer_, self._monitor).judge(rows, scores, self.contamination)

    def _set_offset(self) -> None:
        """Move the threshold to the scores of typical rows, once there are enough of them."""
        self.offset_ = self._monitor.reference.threshold(self.contamination)

    def _new_mixture(self) -> StreamingGaussianMixture:
        mixture = StreamingGaussianMixture() if self.mixture is None else clone(self.mixture)
        return mixture.set_params(rule=_rule_for(mixture))

    def _take(self, mixture: StreamingGaussianMixture, monitor: Monitor) -> None:
        self.mixture_, self._monitor, self.offset_ = mixture, monitor, -inf  # nothing is unusual yet
        self.n_features_in_ = mixture.n_features_in_
        if hasattr(mixture, "feature_names_in_"):
            self.feature_names_in_ = mixture.feature_names_in_
        elif hasattr(self, "feature_names_in_"):
            del self.feature_names_in_


def _rule_for(mixture: StreamingGaussianMixture) -> Any:
    """Return the rule that a detector learns a mixture with."""
    natural = mixture.rule == "natural" and mixture.scale == "auto"
    return anomaly_rule(mixture.covariance_type) if natural else mixture.rule
