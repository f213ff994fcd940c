"""The scikit-learn face: ``StreamingGaussianMixture``."""

from __future__ import annotations

import os
from dataclasses import fields
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils.validation import check_array, validate_data

from streamgmm.core.rows import float_type
from streamgmm.core.rules import Rule
from streamgmm.core.scaling import warn_of_scale
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import engine_for, thread_count
from streamgmm.engines.workers import ClusterEngine
from streamgmm.errors import ModelFileError
from streamgmm.estimators.fitted import FittedMixture
from streamgmm.estimators.fitting import FitOptions, fit_rows
from streamgmm.estimators.locks import one_at_a_time
from streamgmm.estimators.passes import learner
from streamgmm.estimators.validation import (
    check_fit_options,
    fixed_values,
    refuse_changes,
    refuse_unfit,
    seed_of,
    warn_of_scaling,
)
from streamgmm.estimators.weights import Weights, check_counts
from streamgmm.storage import SavedModel, load_model, save_model


class StreamingGaussianMixture(FittedMixture, DensityMixin, BaseEstimator):
    """Gaussian mixture that learns one sample at a time, from a random start, in constant memory.

    Use it for data that does not fit into memory, does not end or changes, and for thousands of features. Features may
    have any units: the model learns their location and scale, and answers in the units of the data.

    Parameters
    ----------
    n_components : int, default=64
        Number of components. They live on a grid, so numbers like 64 = 8×8 are natural.
    covariance_type : str, default="diag"
        ``"diag"``; ``"full"``, for tens of correlated features; ``"low_rank"``, for thousands; or one of your own.
    rule : {"natural", "sgd", "sem"} or Rule, default="natural"
        The update rule by name (``"sgd"`` is the paper's, ``"sem"`` is stochastic EM), or a rule object such as
        `Natural`, `SGD`, `StochasticEM` with settings of its own.
    grid : {"torus", "ring"}, default="torus"
        The neighbourhood of components during annealing.
    batch_size : int, default=1
        Samples per step.
    learning_rate_init : float, default=0.1
        Learning rate of ``"sgd"`` at the start; it shrinks together with the width of the annealing.
    learning_rate_min : float, default=0.001
        Smallest learning rate of ``"sgd"``.
    sigma_init : float or None, default=None
        Width of the annealing at the start; None is a quarter of the longer side of the grid.
    sigma_min : float, default=0.01
        Width at which the annealing ends.
    tol : float or None, default=None
        Relative gain below which the objective counts as stationary. None infers it from the noise of the objective.
    period : int or None, default=None
        Samples between two checks. None leaves it to the rule: 1000, or 2.5 per component for ``"natural"``.
    annealing : bool, default=True
        False fixes the width and the learning rate at their minimum, ``sigma_min`` and ``learning_rate_min``.
    mean_range : float, default=0.1
        Means start uniformly in ±mean_range, in deviations of a feature, or in its units with ``scale="none"``.
    precision_max : float or None, default=None
        Largest precision of a feature, in the units of the data; its inverse is the smallest variance. None sets no
        limit: a prior tied to the variance of each feature keeps variances from vanishing (20 with ``scale="none"``).
    weights_init : array-like of shape (K,) or None, default=None
        Weights to start from.
    means_init : array-like of shape (K, D) or None, default=None
        Means to start from. Annealing spreads them over the grid again, so set ``annealing=False`` if they are good.
    precisions_init : array-like of shape (K, D) or None, default=None
        Precisions to start from; (K, D, D) for ``"full"``.
    half_life : float or None, default=None
        Half-life of past data, in samples, for streams that change (``"natural"`` and ``"sem"``).
    reheat : bool, default=False
        True widens the annealing again, and raises the rates, when the objective suddenly falls.
    scale : {"auto", "none"}, default="auto"
        ``"auto"`` learns raw data: features are standardised inside the model, and everything that the model shows is
        in the units of the data. ``"none"`` learns numbers as they are, without a prior: for features in [0, 1].
    allow_nan : bool, default=False
        True takes NaN for a missing value: a row is learned and scored on the features it has.
    rank : int, default=8
        Number of factors of each component (``covariance_type="low_rank"``).
    n_epochs : int or "auto", default="auto"
        Passes of ``fit`` over its data. ``"auto"`` makes as many as the data need: hundreds for a hundred rows, up to
        ten for a hundred thousand, one for a million. If there are few rows, batch EM then refines the result
        (``"natural"`` with ``scale="auto"``). Where features are correlated and a further pass follows, batch EM
        improves the first pass on a sample of the rows; ``partial_fit`` does without.
    shuffle : bool, default=True
        Whether each pass of ``fit`` takes the rows in random order. ``partial_fit`` keeps their order.
    n_jobs : int or None, default=None
        Number of threads; None is one, -1 all cores. That many replicas learn in parallel and are merged at checks,
        so the result of training depends on this number (and on nothing else); answers do not. The number of replicas
        is fixed when training begins: a later change affects answers only.
    engine : RayEngine or None, default=None
        The cluster to learn on; None for this machine, with ``n_jobs`` threads. Giving both is an error.
    random_state : int, RandomState, Generator or None, default=None
        Randomness of the start, of shuffling and of samples.
    verbose : int, default=0
        1 shows a progress line during ``fit``.

    Attributes
    ----------
    weights_ : array of shape (K,)
        Weights of the components.
    means_ : array of shape (K, D)
        Means.
    precisions_ : array of shape (K, D)
        Precisions; (K, D, D) unless ``"diag"``.
    covariances_ : array of shape (K, D)
        Variances; covariances (K, D, D) unless ``"diag"``.
    factors_, noise_variances_ : arrays of shape (K, D, L) and (K, D)
        What ``"low_rank"`` covariances consist of.
    mixture_ : Mixture
        A copy of the current mixture, without the training state. It has ``condition`` and ``marginal``, too.
    sigma_ : float
        Width of the annealing; it is over when this is ``sigma_min``.
    learning_rate_ : float
        Current learning rate of the rule.
    n_samples_seen_ : int
        Samples learned.
    n_rows_skipped_ : int
        Rows skipped because they held nothing but NaN.
    n_rows_damped_ : int
        Samples whose influence was reduced because they were extreme; each pass counts them again.
    trainer_ : Trainer
        The trainer underneath.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : array of shape (D,)
        Names of the features, if the data had some.

    Notes
    -----
    Sample weights are counts: 2 learns a row twice, 0.5 takes half a step. Do not divide them by their sum.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgmm import StreamingGaussianMixture
    >>> x = np.random.default_rng(0).normal([[[0.0]], [[1.0]]], 0.25, (2, 20_000, 5)).reshape(-1, 5)
    >>> model = StreamingGaussianMixture(2, random_state=0).fit(x)
    >>> abs(model.means_.round(1)).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    """

    _doc_link_module = "streamgmm"
    _doc_link_template = "https://streamgmm.readthedocs.io/en/stable/api/{estimator_name}.html"

    def __init__(
        self,
        n_components: int = 64,
        *,
        covariance_type: str = "diag",
        rule: str | Rule[Any] = "natural",
        grid: str = "torus",
        batch_size: int = 1,
        learning_rate_init: float = 0.1,
        learning_rate_min: float = 0.001,
        sigma_init: float | None = None,
        sigma_min: float = 0.01,
        tol: float | None = None,
        period: int | None = None,
        annealing: bool = True,
        mean_range: float = 0.1,
        precision_max: float | None = None,
        weights_init: npt.ArrayLike | None = None,
        means_init: npt.ArrayLike | None = None,
        precisions_init: npt.ArrayLike | None = None,
        half_life: float | None = None,
        reheat: bool = False,
        allow_nan: bool = False,
        scale: str = "auto",
        rank: int = 8,
        n_epochs: int | str = "auto",
        shuffle: bool = True,
        n_jobs: int | None = None,
        engine: ClusterEngine | None = None,
        random_state: int | np.random.RandomState | np.random.Generator | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.rule = rule
        self.grid = grid
        self.batch_size = batch_size
        self.learning_rate_init = learning_rate_init
        self.learning_rate_min = learning_rate_min
        self.sigma_init = sigma_init
        self.sigma_min = sigma_min
        self.tol = tol
        self.period = period
        self.annealing = annealing
        self.mean_range = mean_range
        self.precision_max = precision_max
        self.weights_init = weights_init
        self.means_init = means_init
        self.precisions_init = precisions_init
        self.half_life = half_life
        self.reheat = reheat
        self.allow_nan = allow_nan
        self.scale = scale
        self.rank = rank
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.engine = engine
        self.random_state = random_state
        self.verbose = verbose

    @classmethod
    def paper(cls, rule: str | Rule[Any] = "sgd", **changes: Any) -> Self:
        """Return an estimator with the settings of Gepperth & Pfülb (2021), for features in [0, 1].

        Precisions are at most 20, features are not scaled, the tolerance is 0.05, and ``fit`` makes three passes. Two
        details are settings of the rules: ``SGD(baseline="first")`` and ``StochasticEM(accumulation="paper")``.

        Parameters
        ----------
        rule : {"sgd", "natural", "sem"} or Rule, default="sgd"
            The update rule.
        **changes : dict
            Parameters that differ from these.

        Examples
        --------
        >>> model = StreamingGaussianMixture.paper(n_components=25)
        >>> model.rule, model.precision_max, model.scale, model.n_epochs
        ('sgd', 20.0, 'none', 3)
        """
        return cls(**{"rule": rule, "precision_max": 20.0, "scale": "none", "tol": 0.05, "n_epochs": 3, **changes})

    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Forget what was learned and make ``n_epochs`` passes over the rows.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to learn from.
        y : None
            Ignored.
        sample_weight : array-like of shape (N,) or None, default=None
            How often each row counts; see ``partial_fit``.

        Returns
        -------
        self : StreamingGaussianMixture
            The fitted estimator.
        """
        rows = self._check_first_rows(X)
        weights = check_counts(sample_weight, len(rows))
        trainer = self._make_trainer(rows)
        options = FitOptions(self.n_epochs, bool(self.shuffle), bool(self.verbose), self.engine)
        fit_rows(trainer, rows, weights, options)
        validate_data(self, X, reset=True, skip_check_array=True)
        self._take(trainer)
        return self

    @one_at_a_time
    def partial_fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learn from rows in their order and keep everything learned before.

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to learn from.
        y : None
            Ignored.
        sample_weight : array-like of shape (N,) or None, default=None
            How often each row counts: a row of weight 3 is learned three times, one of weight 2.5 twice and once more
            by a step half as long.

        Returns
        -------
        self : StreamingGaussianMixture
            The fitted estimator.
        """
        if sample_weight is None and self._learn_row(X) is not None:
            return self
        if self.__sklearn_is_fitted__():
            self._refuse_changes()
            rows = self._check_rows(X)
            weights = check_counts(sample_weight, len(rows), callers=3)
        else:
            rows = self._check_first_rows(X)
            weights = check_counts(sample_weight, len(rows), callers=3)
            self._begin(X, rows)
        self._learn(rows, weights)
        return self

    def fit_predict(self, X: npt.ArrayLike, y: object = None) -> npt.NDArray[np.int64]:
        """Fit, then return the number of the best component for each row: (N,).

        Parameters
        ----------
        X : array-like of shape (N, D)
            Rows to learn from and to assign.
        y : None
            Ignored.
        """
        return self.fit(X).predict(X)

    @one_at_a_time
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and its training state to one safetensors file.

        Parameters
        ----------
        path : str or path-like
            File to write.
        """
        save_model(path, self._saved())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model; ``partial_fit`` continues from it as if it had never stopped.

        Parameters
        ----------
        path : str or path-like
            A file written by ``save`` or by ``streamgmm train``.
        """
        model = cls._from_saved(saved := load_model(path), path)
        warn_of_scaling(saved.scaling)
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.allow_nan)
        return tags

    @classmethod
    def _from_saved(cls, saved: SavedModel, path: str | os.PathLike[str]) -> Self:
        settings, trainer = saved.trainer.settings, saved.trainer
        jobs = None if trainer.engine.replicas == 1 else trainer.engine.replicas
        try:
            model = cls(**{**vars(settings), "n_jobs": jobs, **saved.estimator})
            model._check_parameters()
        except (TypeError, ValueError) as problem:
            raise ModelFileError(f"{path} does not fit this estimator ({problem!s:.200}).") from problem
        model._take(trainer)
        model._scaling = saved.scaling
        model.n_features_in_ = trainer.n_features
        if saved.feature_names is not None:
            model.feature_names_in_ = np.array(saved.feature_names, dtype=object)
        return model

    def _settings(self) -> Settings:
        return Settings(**{f.name: getattr(self, f.name) for f in fields(Settings)})

    def _check_parameters(self) -> None:
        self._settings().check()
        check_fit_options(self.n_epochs, self.shuffle, self.verbose, self.n_jobs, self.engine)

    def _check_first_rows(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Validate rows to start from; raise before anything of an earlier training has changed."""
        self._check_parameters()
        rows: Any = check_array(X, dtype="numeric", ensure_all_finite=False, input_name="X", estimator=self)
        threads, gaps = thread_count(self.n_jobs), bool(self.allow_nan)
        refuse_unfit(rows, float_type(rows), threads=threads, gaps=gaps, table=X)
        if self.scale == "none":
            warn_of_scale(rows, self.precision_max or 20.0)
        return rows

    def _make_trainer(self, rows: npt.NDArray[Any]) -> Trainer:
        engine, seed = engine_for(thread_count(self.n_jobs)), seed_of(self.random_state)
        return Trainer(self._settings(), rows.shape[1], float_type(rows), engine=engine, seed=seed)

    def _begin(self, X: npt.ArrayLike, rows: npt.NDArray[Any]) -> None:
        """Get ready to learn from data like X, whose validated rows are given."""
        validate_data(self, X, reset=True, skip_check_array=True)
        self._take(self._make_trainer(rows))

    def _learn(self, rows: npt.NDArray[Any], weights: Weights | None) -> int:
        """Learn from validated rows; return how many drifts were noticed."""
        with learner(self._trainer, rows, weights, self.engine) as one_pass:
            drifts = sum(check.drift for _, checks in one_pass(0, None) for check in checks)
        self._trainer.settle()
        return drifts

    def _take(self, trainer: Trainer) -> None:
        """Continue from a trainer with the parameters of this moment."""
        self._trainer, self._scaling = trainer, None
        self._begun_with = fixed_values(self)

    def _refuse_changes(self) -> None:
        """Raise if a parameter has changed that training cannot change any more."""
        refuse_changes(fixed_values(self), self._begun_with)
