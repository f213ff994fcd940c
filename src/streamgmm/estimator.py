"""The scikit-learn face: ``StreamingGaussianMixture``."""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from numbers import Integral, Real
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, DensityMixin, _fit_context
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_array, validate_data

from streamgmm import engines, files, inputs, rules, training
from streamgmm.annealing import Schedule
from streamgmm.attributes import Learned
from streamgmm.grid import LAYOUTS, Grid
from streamgmm.inputs import pieces
from streamgmm.kernels import Floats, Parameters
from streamgmm.mixture import Mixture, logits
from streamgmm.progress import live_line
from streamgmm.training import Check, TrainingState

CHECKS_TO_ANNEAL = 100  # and to learn what is fine after that, with some to spare
CHECKS_AFTER = 5  # where annealing is over, or never was


class StreamingGaussianMixture(DensityMixin, Learned, BaseEstimator):
    """Gaussian mixture that learns one sample at a time, from a random start, in constant memory.

    It exists for data that does not fit into memory, does not end or does not stand still, and for thousands of
    features. Scale features to [0, 1] first, or give a ``precision_max`` that suits their variance.

    Parameters
    ----------
    n_components : number of Gaussians; they live on a grid, so numbers like 64 = 8×8 are natural.
    covariance_type : "diag".
    rule : "natural", "sgd" (the paper's), "sem", or a rule object (`Natural`, `SGD`, `StochasticEM`) with its own
        settings.
    grid : "torus" or "ring", the neighbourhood that annealing uses.
    batch_size : samples per step.
    learning_rate_init, learning_rate_min : rate of "sgd"; it falls together with the width of the annealing.
    sigma_init, sigma_min : width of the annealing; None starts at a quarter of the longer grid side.
    tol : relative gain below which the objective counts as stationary; None leaves it to the rule (0.05 for "sgd";
        "natural" infers it from the noise of the objective).
    period : samples between two looks at the objective; None leaves it to the rule (1000, or 2.5 per component for
        "natural").
    annealing : False fixes the width and the rate at their minimum.
    mean_range : means start uniformly in ±mean_range.
    precision_max : largest precision of a feature; its inverse is the smallest variance.
    weights_init, means_init, precisions_init : given start, shapes (K,), (K, D), (K, D); annealing spreads it over the
        grid again, so give ``annealing=False`` with one that is good already.
    half_life : in samples, for streams that change: what was learned so long ago counts half ("natural" and "sem").
    reheat : True widens the annealing again, and lets the rule learn fast, when the objective suddenly falls.
    allow_nan : True takes NaN for a feature that a row does not have: it is learned and scored on the others.
    n_epochs, shuffle : passes of ``fit`` over its data, each in random order; ``partial_fit`` takes rows as they come.
    n_jobs : threads; None is one, -1 all cores. So many replicas learn side by side and are merged at every check, so
        the result depends on this number (and on nothing else); answers do not.
    random_state : int, RandomState, Generator or None.
    verbose : 1 shows a live line during ``fit``.

    Attributes
    ----------
    weights_, means_, precisions_, covariances_ : parameters, shapes (K,), (K, D), (K, D), (K, D).
    mixture_ : the `Mixture` of this moment, for scores and samples without the training.
    sigma_, learning_rate_ : how far the annealing has come; it is over when ``sigma_`` is ``sigma_min``.
    n_samples_seen_, n_rows_skipped_ : samples learned, and rows left out because they held nothing but NaN.
    n_features_in_, feature_names_in_ : as everywhere in scikit-learn.

    Sample weights are counts: 2 learns a row twice, 0.5 takes half a step. Do not divide them by their sum.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal([[[0.0]], [[1.0]]], 0.25, (2, 20_000, 5)).reshape(-1, 5)
    >>> model = StreamingGaussianMixture(2, random_state=0).fit(x)
    >>> abs(model.means_.round(1)).tolist()
    [[0.0, 0.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0, 1.0]]
    """

    _parameter_constraints = {  # noqa: RUF012 (scikit-learn's form)
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "covariance_type": [StrOptions({"diag"})],
        "rule": [StrOptions(set(rules.RULES)), rules.Rule],
        "grid": [StrOptions(set(LAYOUTS))],
        "batch_size": [Interval(Integral, 1, None, closed="left")],
        "learning_rate_init": [Interval(Real, 0, None, closed="neither")],
        "learning_rate_min": [Interval(Real, 0, None, closed="neither")],
        "sigma_init": [Interval(Real, 0, None, closed="neither"), None],
        "sigma_min": [Interval(Real, 0, None, closed="neither")],
        "tol": [Interval(Real, 0, None, closed="neither"), None],
        "period": [Interval(Integral, 1, None, closed="left"), None],
        "annealing": ["boolean"],
        "mean_range": [Interval(Real, 0, None, closed="left")],
        "precision_max": [Interval(Real, 1e-20, 1e30, closed="both")],
        "weights_init": ["array-like", None],
        "means_init": ["array-like", None],
        "precisions_init": ["array-like", None],
        "half_life": [Interval(Real, 1, None, closed="left"), None],
        "reheat": ["boolean"],
        "allow_nan": ["boolean"],
        "n_epochs": [Interval(Integral, 1, None, closed="left")],
        "shuffle": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_components: int = 64,
        *,
        covariance_type: str = "diag",
        rule: str | rules.Rule = "natural",
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
        precision_max: float = 20.0,
        weights_init: npt.ArrayLike | None = None,
        means_init: npt.ArrayLike | None = None,
        precisions_init: npt.ArrayLike | None = None,
        half_life: float | None = None,
        reheat: bool = False,
        allow_nan: bool = False,
        n_epochs: int = 1,
        shuffle: bool = True,
        n_jobs: int | None = None,
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
        self.n_epochs = n_epochs
        self.shuffle = shuffle
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # Learning

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Forgets what was learned and makes ``n_epochs`` passes over X (N, D); see ``partial_fit`` for weights."""
        rows = self._fresh_rows(X)
        weights = inputs.sample_weights(sample_weight, rows)
        state = self._begin(rows)
        length = len(rows) if weights is None else len(inputs.Repeats(weights))
        with live_line("fit", length * self.n_epochs, enabled=bool(self.verbose)) as show:
            for epoch in range(self.n_epochs):
                rng = state.rng if self.shuffle else None
                for done, piece, shares in inputs.portions(rows, state.parameters.dtype, weights, rng):
                    checks = training.feed(state, piece, shares=shares, more=True)
                    show(epoch * length + done, checks[-1] if checks else None)
                if epoch == 0 and self.n_epochs > 1:
                    training.end_pass(state)
            training.flush(state)
            show(length * self.n_epochs, training.current(state))
        self._remember_features(X)
        self._take(state)
        if self.annealing and not training.finished(state):
            annealed = state.annealing.sigma <= self.sigma_min
            enough = -(-(CHECKS_AFTER if annealed else CHECKS_TO_ANNEAL) * state.schedule.period // length)
            warnings.warn(
                f"{'learning has only begun' if annealed else 'annealing has not finished'}: sigma is "
                f"{state.annealing.sigma:.3g} after {state.n_samples} samples. "
                f"Raise n_epochs (now {self.n_epochs}) to about {max(enough, 2 * self.n_epochs)}, "
                f"lower period (now {state.schedule.period}), or give more data.",
                ConvergenceWarning,
                stacklevel=3,  # past scikit-learn's wrapper of fit
            )
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> Self:
        """Learns from the rows of X (N, D) in their order and keeps all that was learned before.

        A row of weight 3 is learned three times, one of weight 2.5 twice and once more by a step half as long.
        """
        self._learn(X, sample_weight)
        return self

    def _learn(self, X: npt.ArrayLike, sample_weight: npt.ArrayLike | None = None) -> list[Check]:
        fitted = self.__sklearn_is_fitted__()
        if fitted:
            self._refuse_changes()
        rows = self._valid(X) if fitted else self._fresh_rows(X)
        weights = inputs.sample_weights(sample_weight, rows)
        if not fitted:
            self._start(X, rows)
        return self._feed(rows, weights)

    def _feed(self, rows: npt.NDArray[Any], weights: npt.NDArray[np.float64] | None) -> list[Check]:
        """Learns from rows that were looked at."""
        state, checks = self._training, []
        for _, piece, shares in inputs.portions(rows, state.parameters.dtype, weights):
            checks += training.feed(state, piece, shares=shares, more=True)
        training.settle(state)
        return checks

    def _start(self, X: npt.ArrayLike, rows: npt.NDArray[Any] | None = None) -> npt.NDArray[Any]:
        """Makes ready to learn from data like X, and gives its rows."""
        rows = self._fresh_rows(X) if rows is None else rows
        state = self._begin(rows)
        self._remember_features(X)
        self._take(state)
        return rows

    def _begin(self, rows: npt.NDArray[Any]) -> TrainingState:
        """A training state for data like ``rows``."""
        dtype = inputs.float_type(rows)
        grid: Grid = LAYOUTS[self.grid](self.n_components)
        rng = np.random.default_rng(inputs.seed(self.random_state))
        rule, threads = self._rule(), inputs.threads(self.n_jobs)
        engine = rule if threads == 1 else engines.Replicated(rule, threads)
        sigma = grid.widest if self.sigma_init is None else self.sigma_init
        if self.sigma_init is not None and sigma < self.sigma_min:
            raise ValueError(f"sigma_init is {sigma}, below sigma_min, {self.sigma_min}; expected at least as much.")
        schedule = Schedule(
            sigma_init=rule.first_sigma(sigma, self.sigma_min) if self.annealing else self.sigma_min,
            sigma_min=self.sigma_min,
            tol=rule.tol if self.tol is None else self.tol,
            period=engine.period(self.n_components) if self.period is None else self.period,
            drop_below=rule.drop_below,
        )
        return training.begin(
            self._initial_parameters(rows.shape[1], dtype, rng),
            grid,
            schedule,
            engine,
            rng,
            batch_size=int(self.batch_size),
            precision_max=float(self.precision_max),
            reheats=bool(self.reheat),
            allow_nan=bool(self.allow_nan),
        )

    def _rule(self) -> rules.Rule:
        if isinstance(self.rule, rules.Rule):
            rule = self.rule
        elif self.rule == "sgd":
            rule = rules.SGD(self.learning_rate_init, self.learning_rate_min)
        else:
            rule = rules.RULES[self.rule]()
        if self.allow_nan and getattr(rule, "start_from", None) == "kmeans":
            raise ValueError(
                "a k-means start cannot do with missing values; use start_from='random', or drop allow_nan."
            )
        if self.half_life is None:
            return rule
        if isinstance(rule, rules.SGD):
            raise ValueError("half_life has no meaning for rule='sgd'; use rule='natural', or raise learning_rate_min.")
        return replace(rule, half_life=self.half_life)  # type: ignore[type-var]

    def _initial_parameters(self, n_features: int, dtype: np.dtype[Any], rng: np.random.Generator) -> Parameters:
        shape = (self.n_components, n_features)
        means = rng.uniform(-self.mean_range, self.mean_range, shape)
        scales = np.full(shape, self.precision_max**0.5, dtype)
        weights = np.full(self.n_components, 1 / self.n_components)
        if self.means_init is not None:
            means = inputs.given("means_init", self.means_init, shape)
        if self.precisions_init is not None:
            precisions = inputs.given("precisions_init", self.precisions_init, shape)
            inputs.warn_of_cap(precisions, self.precision_max)
            scales = Mixture.covariance.scales(precisions)
        if self.weights_init is not None:
            weights = inputs.given("weights_init", self.weights_init, shape[:1])
        return Parameters(means.astype(dtype), scales, logits(weights))

    # Questions

    def score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Exact log-likelihood of each row of X (N, D): (N,)."""
        return self._ask(X, "log_prob")

    def max_component_score_samples(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Score of the best component for each row, the quantity that training raises: (N,)."""
        return self._ask(X, "max_component")

    def score(self, X: npt.ArrayLike, y: object = None, sample_weight: npt.ArrayLike | None = None) -> float:
        """Mean exact log-likelihood of the rows of X, weighted by ``sample_weight`` (N,) if given."""
        values = self.score_samples(X)
        return float(np.average(values, weights=inputs.sample_weights(sample_weight, values, counts=False)))

    def predict(self, X: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of the best component for each row: (N,)."""
        return self._ask(X, "predict")

    def predict_proba(self, X: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Probability of each component for each row: (N, K)."""
        return self._ask(X, "responsibilities")

    def fit_predict(self, X: npt.ArrayLike, y: object = None) -> npt.NDArray[np.int64]:
        """``fit(X)``, then ``predict(X)``."""
        return self.fit(X).predict(X)

    def sample(self, n_samples: int = 1) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draws samples (n, D) and gives the component of each (n,); ``random_state`` decides which."""
        return Mixture.view(self._state.parameters).sample(
            n_samples, np.random.default_rng(inputs.seed(self.random_state))
        )

    def bic(self, X: npt.ArrayLike) -> float:
        """Bayesian information criterion on X; lower is better."""
        values = self.score_samples(X)
        return float(-2 * values.sum() + self.mixture_.n_parameters * np.log(len(values)))

    def aic(self, X: npt.ArrayLike) -> float:
        """Akaike information criterion on X; lower is better."""
        return float(-2 * self.score_samples(X).sum() + 2 * self.mixture_.n_parameters)

    def _ask(self, X: npt.ArrayLike, question: str) -> Any:
        return self._ask_valid(self._valid(X), question)

    def _ask_valid(self, rows: npt.NDArray[Any], question: str) -> Any:
        ask = getattr(Mixture.view(self._state.parameters), question)
        threads = inputs.threads(self.n_jobs)
        answers: list[Any] = []
        for _, piece in pieces(rows, self._state.parameters.dtype):
            parts = np.array_split(piece, threads) if len(piece) >= 64 * threads else [piece]
            answers += engines.together(threads, ask, parts)
        return np.concatenate(answers)

    # Files

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the model and its training state to one safetensors file."""
        files.save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Reads a model; ``partial_fit`` goes on from it as if nothing had happened."""
        model, facts, _ = files.load(cls, path)
        files.warn_of_scaling(facts)
        return model

    def to_sklearn(self) -> Any:
        """A fitted float64 ``sklearn.mixture.GaussianMixture`` with the same parameters."""
        model = self.mixture_.to_sklearn()
        if hasattr(self, "feature_names_in_"):
            model.feature_names_in_ = self.feature_names_in_
        return model

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = bool(self.allow_nan)
        return tags

    # What comes in

    def _valid(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Rows like those of training."""
        rows: npt.NDArray[Any] = validate_data(self, X, reset=False, dtype="numeric", ensure_all_finite=False)
        threads, gaps = inputs.threads(self.n_jobs), self._state.allow_nan
        inputs.refuse_unfit(rows, self._state.parameters.dtype, threads=threads, gaps=gaps)
        return rows

    def _fresh_rows(self, X: npt.ArrayLike) -> npt.NDArray[Any]:
        """Rows to start from; raises before anything of an earlier training has changed."""
        rows: npt.NDArray[Any] = check_array(
            X, dtype="numeric", ensure_all_finite=False, input_name="X", estimator=self
        )
        threads, gaps = inputs.threads(self.n_jobs), bool(self.allow_nan)
        inputs.refuse_unfit(rows, inputs.float_type(rows), threads=threads, gaps=gaps)
        inputs.warn_of_scale(rows, self.precision_max)
        return rows

    def _remember_features(self, X: npt.ArrayLike) -> None:
        validate_data(self, X, reset=True, skip_check_array=True)
