"""What a fitted mixture shows and answers: attributes that end in an underscore, scores, predictions, samples."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted, validate_data

from streamgmm.core.control import Check
from streamgmm.core.explanation import Reason
from streamgmm.core.mixture import Mixture
from streamgmm.core.rows import pieces
from streamgmm.core.scaling import Scaling
from streamgmm.core.trainer import Trainer
from streamgmm.engines import run_all, thread_count
from streamgmm.estimators.locks import lock_of
from streamgmm.estimators.validation import fixed_values, refuse_unfit, seed_of
from streamgmm.estimators.weights import check_weights
from streamgmm.native import Floats
from streamgmm.storage import SavedModel

ROWS_PER_THREAD = 64  # below this a second thread costs more than it saves


class FittedMixture:
    """Attributes and answers of an estimator that keeps its training in ``_trainer``; arrays are read-only copies."""

    n_jobs: int | None
    engine: Any
    random_state: Any
    _trainer: Trainer
    _scaling: Scaling | None  # of the run that trained it, passed on when it is saved again
    _begun_with: tuple[Any, ...]  # what cannot change any more

    @property
    def trainer_(self) -> Trainer:
        """The ``Trainer`` underneath, with its grid, schedule and checks."""
        return self._attribute

    @property
    def mixture_(self) -> Mixture:
        """The current `Mixture`: a copy that later training does not change; see its ``condition`` and ``marginal``."""
        with lock_of(self):
            return self._attribute.mixture.copy()

    @property
    def weights_(self) -> Floats:
        """Weights of the components, (K,)."""
        return self.mixture_.weights

    @property
    def means_(self) -> Floats:
        """Means, (K, D)."""
        return self.mixture_.means

    @property
    def precisions_(self) -> Floats:
        """Precisions, in the form of the covariance kind: (K, D) for ``"diag"``, else (K, D, D)."""
        return self.mixture_.precisions

    @property
    def covariances_(self) -> Floats:
        """Variances (K, D) for ``"diag"``, else covariances (K, D, D)."""
        return self.mixture_.covariances

    @property
    def factors_(self) -> Floats:
        """Factors of ``"low_rank"`` covariances, (K, D, L)."""
        return self.mixture_.factors

    @property
    def noise_variances_(self) -> Floats:
        """Variances of the noise of ``"low_rank"`` covariances, (K, D)."""
        return self.mixture_.noise_variances

    @property
    def sigma_(self) -> float:
        """Width of the annealing; ``sigma_min`` once it is over."""
        return self._attribute.sigma

    @property
    def learning_rate_(self) -> float:
        """The rule's current learning rate."""
        return self._attribute.learning_rate

    @property
    def n_samples_seen_(self) -> int:
        """Samples learned so far."""
        return self._attribute.n_samples

    @property
    def n_rows_skipped_(self) -> int:
        """Rows skipped because they held nothing but NaN."""
        return self._attribute.n_skipped

    @property
    def n_rows_damped_(self) -> int:
        """Samples whose influence was reduced because they were extreme; each pass counts them again."""
        return self._attribute.n_damped

    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the exact log-likelihood of each row: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        if (found := self._score_row(X)) is not None:
            return np.array([found[0]])
        return self._ask(self._check_rows(X), "log_prob")

    def max_component_score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the score of the best component for each row, which training maximises: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        return self._ask(self._check_rows(X), "max_component")

    def score(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> float:
        """Return the mean exact log-likelihood of the rows.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        y : None
            Ignored.
        sample_weight : array-like of shape (N,) or None, default=None
            Weights of the mean.
        """
        values = self.score_samples(X)
        return float(np.average(values, weights=check_weights(sample_weight, len(values))))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the number of the best component for each row: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to assign.
        """
        if (found := self._score_row(X)) is not None:
            return np.array([found[2]])
        return self._ask(self._check_rows(X), "predict")

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the probability of each component for each row: (N, K).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to assign.
        """
        return self._ask(self._check_rows(X), "responsibilities")

    def sample(self, n_samples: int = 1) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw samples (n, D) and return them with the component of each (n,); ``random_state`` decides which.

        Parameters
        ----------
        n_samples : int, default=1
            Number of samples.
        """
        check_is_fitted(self)
        if n_samples < 1:
            raise ValueError(f"n_samples is {n_samples}; expected at least one sample.")
        return self.mixture_.sample(n_samples, np.random.default_rng(seed_of(self.random_state)))

    def impute(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return rows in which each NaN is replaced by the value expected from the other features: (N, D).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows; NaN marks what is not known.
        """
        return self._ask(self._check_rows(X, gaps=True), "impute")

    def conditional_sample(self, X: npt.ArrayLike, n_samples: int = 1) -> npt.NDArray[np.float64]:
        """Draw values for what rows lack, given what they have: (n_samples, N, D); ``random_state`` decides which.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows; NaN marks what is not known.
        n_samples : int, default=1
            Number of draws for each row.
        """
        rows = self._check_rows(X, gaps=True)
        return self.mixture_.impute(rows, n_samples, np.random.default_rng(seed_of(self.random_state)))

    def explain(self, X: npt.ArrayLike, most: int | None = None) -> list[list[Reason]]:
        """Return, for each row, the features that make it strange, most important first; see `Mixture.explain`.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to explain.
        most : int or None, default=None
            Largest number of features per row; None for all.
        """
        rows = self._check_rows(X)
        names = getattr(self, "feature_names_in_", None)
        return self.mixture_.explain(rows, None if names is None else list(names), most)

    def bic(self, X: npt.ArrayLike) -> float:
        """Return the Bayesian information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        values = self.score_samples(X)
        return float(-2 * values.sum() + self.mixture_.n_parameters * np.log(len(values)))

    def aic(self, X: npt.ArrayLike) -> float:
        """Return the Akaike information criterion; lower is better.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to score.
        """
        return float(-2 * self.score_samples(X).sum() + 2 * self.mixture_.n_parameters)

    def to_sklearn(self) -> Any:
        """Return a fitted float64 ``sklearn.mixture.GaussianMixture`` with the same parameters."""
        model = self.mixture_.to_sklearn()
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    def to_onnx(self, dtype: npt.DTypeLike | None = None) -> Any:
        """Return an ``onnx.ModelProto`` that scores rows, for use without Python; see `Mixture.to_onnx`.

        Parameters
        ----------
        dtype : dtype or None, default=None
            Type of the rows, float32 or float64; None for that of the mixture.
        """
        names = getattr(self, "feature_names_in_", None)
        return self.mixture_.to_onnx(dtype=dtype, feature_names=None if names is None else list(names))

    def __sklearn_is_fitted__(self) -> bool:
        return "_trainer" in vars(self)

    @property
    def _fitted(self) -> Trainer:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet; call fit or partial_fit with data first."
            )
        return self._trainer

    @property
    def _attribute(self) -> Trainer:
        """The trainer for an attribute: before training there is none, as everywhere in scikit-learn."""
        try:
            return self._fitted
        except NotFittedError as problem:
            raise AttributeError(str(problem)) from None

    def _check_rows(self, X: Any, gaps: bool = False) -> npt.NDArray[Any]:
        """Validate rows that must resemble those of training; ``gaps`` allows NaN anyway."""
        trainer = self._fitted
        rows: npt.NDArray[Any]
        # validate_data takes longer than learning a row, and has nothing to say about such arrays
        plain = type(X) is np.ndarray and X.dtype in (np.float32, np.float64) and not hasattr(self, "feature_names_in_")
        if plain and X.ndim == 2 and len(X) and X.shape[1] == trainer.n_features:
            rows = X
        else:
            rows = validate_data(self, X, reset=False, dtype="numeric", ensure_all_finite=False)
        threads, gaps = thread_count(self.n_jobs), gaps or bool(trainer.settings.allow_nan)
        refuse_unfit(rows, trainer.dtype, threads=threads, gaps=gaps, table=X)
        return rows

    def _plain_row(self, X: Any) -> tuple[Trainer, npt.NDArray[Any]] | None:
        """Return the trainer, and what may be a plain row: an array (1, D) that validation has nothing to say about."""
        own = vars(self)
        trainer, names = own.get("_trainer"), own.get("feature_names_in_")
        if trainer is None or own["n_jobs"] not in (None, 1):
            return None
        if names is None:
            return (trainer, X) if type(X) is np.ndarray else None
        if type(X).__name__ == "DataFrame" and len(X) == 1 and list(X.columns) == names.tolist():
            return trainer, np.ascontiguousarray(X.to_numpy())
        return None

    def _score_row(self, X: Any) -> tuple[float, float, int] | None:
        """Return log-likelihood, max-component value and winner of one plain row; None for everything else."""
        found = self._plain_row(X)
        if found is None:
            return None
        trainer, row = found
        with lock_of(self):
            return trainer.score_row(row)

    def _learn_row(self, X: Any) -> Sequence[Check] | None:
        """Learn one plain row as usual, and return the check that fell due, if any; None for everything else."""
        found = self._plain_row(X)
        if found is None or self.engine is not None or fixed_values(self) != self._begun_with:
            return None
        trainer, row = found
        return trainer.feed_row(row)

    def _saved(self) -> SavedModel:
        """Everything that goes into a file."""
        names = getattr(self, "feature_names_in_", None)
        seed = self.random_state if isinstance(self.random_state, Integral) else None
        others = {name: getattr(self, name) for name in ("n_epochs", "shuffle", "n_jobs", "verbose")}
        return SavedModel(
            trainer=self._fitted,
            feature_names=None if names is None else [str(name) for name in names],
            estimator={**others, "random_state": seed},  # a generator in use is part of the training state
            scaling=self._scaling,
        )

    def _ask(self, rows: npt.NDArray[Any], question: str) -> Any:
        """Answer a question about validated rows, on threads."""
        trainer, threads = self._fitted, thread_count(self.n_jobs)
        with lock_of(self):
            ask = getattr(trainer.frozen, question)  # of one moment, also while another thread learns
        parts = np.array_split(rows, threads) if len(rows) >= ROWS_PER_THREAD * threads else [rows]

        def answer(part: npt.NDArray[Any]) -> Any:
            return _joined([ask(piece) for _, piece in pieces(part, trainer.dtype)])

        return _joined(run_all(threads, answer, parts))


def _joined(parts: list[Any]) -> Any:
    return parts[0] if len(parts) == 1 else np.concatenate(parts)
