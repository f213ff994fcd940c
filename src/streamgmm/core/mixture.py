"""Mixture: frozen parameters, and the questions one can ask them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.conditioning import Explainer, impute
from streamgmm.core.covariance import covariance_kind
from streamgmm.core.explanation import Reason
from streamgmm.core.mixture_view import MixtureView
from streamgmm.core.onnx_graph import Density, onnx_model
from streamgmm.core.parameters import Parameters, logits_of
from streamgmm.native import Floats, Scores, to_responsibilities

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

FloatArray = npt.NDArray[np.float64]
NEVER_SEEN = 1e6  # nats that a row loses for each feature that never varied, and is different now


class Mixture(MixtureView):
    """A Gaussian mixture that no longer changes.

    Use it to score, predict and sample without the training state: from a trained model (``model.mixture_``) or from
    parameters of your own (`Mixture.from_parameters`).

    Parameters
    ----------
    parameters : Parameters
        Parameters to copy.
    constants : array-like of shape (D,) or None, default=None
        The value of each feature that never varied, and NaN for all others. Such a feature adds nothing to a
        log-likelihood, but a row with another value loses a million nats: it is stranger than any other. Infinity
        stands for a feature of which no value was learned: it counts as missing in every row.

    Examples
    --------
    >>> m = Mixture.from_parameters(weights=[0.5, 0.5], means=[[0.0], [4.0]], precisions=[[1.0], [1.0]])
    >>> m.predict([[0.3], [3.0]]).tolist()
    [0, 1]
    >>> m.log_prob([[0.0]]).round(4).tolist()
    [-1.6118]
    """

    def __init__(self, parameters: Parameters, constants: npt.ArrayLike | None = None) -> None:
        self._parameters = parameters.copy()
        self._take_constants(constants)

    @classmethod
    def view(cls, parameters: Parameters, constants: npt.ArrayLike | None = None) -> Mixture:
        """Wrap live parameters without copying them. Use the result immediately: training changes it.

        Parameters
        ----------
        parameters : Parameters
            Parameters that may still change.
        constants : array-like of shape (D,) or None, default=None
            See the class.
        """
        mixture = cls.__new__(cls)
        mixture._parameters = parameters
        mixture._take_constants(constants)
        return mixture

    @classmethod
    def from_parameters(
        cls,
        weights: npt.ArrayLike,
        means: npt.ArrayLike,
        precisions: npt.ArrayLike,
        covariance_type: str = "diag",
    ) -> Mixture:
        """Build a mixture from parameters.

        Parameters
        ----------
        weights : array-like of shape (K,)
            Weights, which sum to 1.
        means : array-like of shape (K, D)
            Means; their float type is that of the mixture.
        precisions : array-like of shape (K, D), or (K, D, D) for ``"full"``
            Precisions in the form of ``covariance_type``.
        covariance_type : str, default="diag"
            The covariance kind.
        """
        means = np.asarray(means)
        if not np.isfinite(means).all():
            raise ValueError("means must be finite.")
        kind = covariance_kind(covariance_type)
        parameters = Parameters(kind, kind.initial(means, precisions, np.inf), logits_of(weights))
        if not all(np.isfinite(tensor).all() for tensor in parameters.tensors.named().values()):
            raise ValueError(f"means or precisions are too large for {parameters.dtype}; give means as float64.")
        return cls(parameters)

    @classmethod
    def from_sklearn(cls, model: GaussianMixture) -> Mixture:
        """Build a mixture from a fitted ``sklearn.mixture.GaussianMixture``.

        Parameters
        ----------
        model : GaussianMixture
            A fitted model, with covariances of any form.
        """
        kind, precisions = model.covariance_type, model.precisions_
        if kind == "tied":
            precisions = np.broadcast_to(precisions, (len(model.means_), *precisions.shape))
        if kind == "spherical":
            precisions = np.repeat(precisions[:, None], model.means_.shape[1], axis=1)
        form = "full" if kind in ("full", "tied") else "diag"
        return cls.from_parameters(model.weights_, model.means_, precisions, form)

    def to_sklearn(self) -> GaussianMixture:
        """Return a fitted float64 ``sklearn.mixture.GaussianMixture`` with the same parameters."""
        from sklearn.mixture import GaussianMixture

        form = self._parameters.kind.to_sklearn(self._parameters)
        if form is None:
            raise ValueError(f"covariance_type={self.covariance_type!r} has no counterpart in scikit-learn.")
        model = GaussianMixture(self.n_components, covariance_type=form.pop("covariance_type"))
        weights = np.maximum(self._parameters.weights, np.finfo(np.float64).tiny)  # scikit-learn takes their logarithm
        model.weights_ = weights / weights.sum()
        model.means_ = np.array(self.means, dtype=np.float64)
        for name, value in form.items():
            setattr(model, name, value)
        model.n_features_in_ = self.n_features
        model.converged_, model.n_iter_, model.lower_bound_ = True, 0, -np.inf
        return model

    def to_onnx(
        self,
        threshold: float | None = None,
        dtype: npt.DTypeLike | None = None,
        feature_names: Sequence[str] | None = None,
    ) -> Any:
        """Return an ``onnx.ModelProto`` that scores rows, for use without Python.

        It takes ``rows`` (N, D), in the units of the data and with NaN for missing values, and returns
        ``log_likelihood`` (N,), float64, and ``component`` (N,). It holds parameters only, no rows.

        Parameters
        ----------
        threshold : float or None, default=None
            With a threshold on the log-likelihood the graph also returns ``anomaly`` (N,): whether a row is below it.
        dtype : dtype or None, default=None
            Type of the rows, float32 or float64; None for that of the mixture. The graph computes in float64.
        feature_names : sequence of str or None, default=None
            Names of the features, for the metadata.

        Examples
        --------
        >>> m = Mixture.from_parameters([0.5, 0.5], [[0.0], [4.0]], [[1.0], [1.0]])
        >>> [output.name for output in m.to_onnx(threshold=-9.0).graph.output]
        ['log_likelihood', 'component', 'anomaly']
        """
        if self.covariance_type != "diag":
            raise ValueError(f"covariance_type={self.covariance_type!r} is not supported by to_onnx; use 'diag'.")
        own = self._parameters
        weights = np.log(np.maximum(own.weights, np.finfo(np.float64).tiny))
        means, scales = own.means.astype(np.float64), own["scales"].astype(np.float64)
        if len(self._unknown):
            raise ValueError(
                f"no value of feature {self._unknown[0]} was learned; select the others by marginal first."
            )
        density = Density(weights, means, scales, own.dtype, self.constants, NEVER_SEEN)
        notes = {"feature_names": None if feature_names is None else [str(name) for name in feature_names]}
        return onnx_model(density, threshold, own.dtype if dtype is None else dtype, notes)

    def copy(self) -> Mixture:
        """Return a mixture with parameters of its own."""
        return Mixture(self._parameters, self.constants)

    def __repr__(self) -> str:
        return f"Mixture({self.n_components} components, {self.n_features} features, {self._parameters.dtype})"

    def scores(self, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
        """Return log-likelihood, score of the best component and its number, each (N,), in one go.

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        factor : float, default=1.0
            Bytes are read as they are, times this.
        """
        found = self._parameters.kind.score(self._parameters, self._without_unknown(x), factor)
        if len(self._constant):
            lost = NEVER_SEEN * self._differing(x, factor).sum(1)
            found = found._replace(log_likelihood=found.log_likelihood - lost, max_component=found.max_component - lost)
        return found

    def score_row(self, row: npt.NDArray[Any], gaps: bool = False) -> tuple[float, float, int] | None:
        """Return what ``scores`` does for one plain row (1, D), as numbers; None if ``scores`` must.

        Parameters
        ----------
        row : array of shape (1, D)
            The row, in the float type of the mixture.
        gaps : bool, default=False
            Whether NaN may mark a feature that the row does not have.
        """
        if len(self._constant) or len(self._unknown):
            return None
        return self._parameters.kind.score_row(self._parameters, row, gaps)

    def log_prob(self, x: npt.ArrayLike) -> FloatArray:
        """[E3] Return the exact log-likelihood of each row: (N,).

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        """
        return self.scores(x).log_likelihood

    score_samples = log_prob

    def max_component(self, x: npt.ArrayLike) -> FloatArray:
        """[E4] Return the score of the best component for each row, a lower bound of ``log_prob``: (N,).

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        """
        return self.scores(x).max_component

    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the number of the best component for each row: (N,).

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        """
        return self.scores(x).winner

    def component_scores(self, x: npt.ArrayLike) -> FloatArray:
        """[E2] Return the score of every component for each row, log π_k + log N_k(x): (N, K).

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        """
        return self._parameters.kind.component_scores(self._parameters, self._without_unknown(x))

    def responsibilities(self, x: npt.ArrayLike) -> FloatArray:
        """Return the probability of each component given each row; rows sum to one: (N, K).

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        """
        f = self.component_scores(x)
        to_responsibilities(f)
        return f

    def explain(
        self, x: npt.ArrayLike, names: Sequence[str] | None = None, most: int | None = None
    ) -> list[list[Reason]]:
        """Return, for each row, the features that make it strange, most important first.

        Each feature is compared with the value expected from the other features of the row ([E29]).

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks features that a row does not have.
        names : sequence of str or None, default=None
            Names of the features; None calls them by number.
        most : int or None, default=None
            Largest number of features per row; None for all.

        Examples
        --------
        >>> m = Mixture.from_parameters([0.5, 0.5], [[0.0, 0.0], [9.0, 9.0]], [[1.0, 1.0], [1.0, 1.0]])
        >>> (first,) = m.explain([[9.0, 0.5]], names=["flow", "pressure"], most=1)[0]
        >>> first.feature, first.value, round(first.expected, 3)
        ('flow', 9.0, 0.0)
        """
        return self.explainer().explain(x, names, most)

    def explainer(self) -> Explainer:
        """Return what explains rows one after another, faster than ``explain`` does, as long as nothing changes."""
        return Explainer(self._parameters, self._constant, self._differing, self._unknown)

    def marginal(self, features: Sequence[int]) -> Mixture:
        """Return the mixture of some features alone.

        Parameters
        ----------
        features : sequence of int
            Numbers of the features to keep, in this order.
        """
        chosen = list(features)
        if len(set(chosen)) < len(chosen) or not set(chosen) <= set(range(self.n_features)):
            raise ValueError(f"features are {chosen}; expected different numbers from 0 to {self.n_features - 1}.")
        return Mixture.view(self._parameters.kind.marginal(self._parameters, chosen), self.constants[chosen])

    def condition(self, x: npt.ArrayLike) -> list[Mixture]:
        """[E42] Return, for each row, the mixture of the features that it lacks, given those that it has.

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks what is not known. Each row must lack something.

        Examples
        --------
        >>> m = Mixture.from_parameters([1.0], [[0.0, 0.0]], [[[2.0, -1.0], [-1.0, 2.0]]], covariance_type="full")
        >>> (given,) = m.condition([[1.0, float("nan")]])
        >>> given.means.round(3).tolist(), given.covariances.round(3).tolist()
        ([[0.5]], [[[0.5]]])
        """
        rows = self._rows(x)
        if not np.isnan(rows).any(1).all():
            number = int((~np.isnan(rows).any(1)).argmax())
            raise ValueError(f"row {number} has no missing value; expected NaN where a value is not known.")
        kind, constants = self._parameters.kind, self.constants
        return [Mixture.view(kind.condition(self._parameters, row), constants[np.isnan(row)]) for row in rows]

    def impute(
        self, x: npt.ArrayLike, n_draws: int | None = None, rng: np.random.Generator | int | None = None
    ) -> FloatArray:
        """[E42] Return rows (N, D) in which each NaN is replaced by the value expected from the other features.

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows; NaN marks what is not known.
        n_draws : int or None, default=None
            Draw values at random instead, so many times: the result is then (n_draws, N, D).
        rng : Generator, int or None, default=None
            Randomness of draws, or its seed.

        Examples
        --------
        >>> m = Mixture.from_parameters([0.5, 0.5], [[0.0, 0.0], [9.0, 5.0]], [[1.0, 1.0], [1.0, 1.0]])
        >>> m.impute([[8.0, float("nan")]]).round(3).tolist()
        [[8.0, 5.0]]
        """
        rows = self._rows(x)
        if n_draws is not None and n_draws < 1:
            raise ValueError(f"n_draws is {n_draws}; expected at least one, or None for means.")
        filled = impute(self._parameters, rows, n_draws, np.random.default_rng(rng))
        gaps = np.isnan(rows[:, self._constant])
        filled[..., self._constant] = np.where(gaps, self._constants, filled[..., self._constant])
        filled[..., self._unknown] = np.asarray(x, np.float64)[:, self._unknown]
        return filled

    def _rows(self, x: npt.ArrayLike) -> FloatArray:
        rows = np.asarray(x, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(f"samples have shape {rows.shape}; expected (samples, {self.n_features}).")
        return np.asarray(self._without_unknown(rows))

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draw samples (n, D), in random order, and return them with the component of each (n,).

        Parameters
        ----------
        n : int
            Number of samples.
        rng : Generator, int or None, default=None
            Randomness, or its seed.
        """
        if n < 1:
            raise ValueError(f"n is {n}; expected at least one sample.")
        generator = np.random.default_rng(rng)
        components = generator.choice(self.n_components, size=n, p=self._parameters.weights)
        return self.draw(components, generator), components

    def draw(self, components: npt.ArrayLike, rng: np.random.Generator | int | None = None) -> Floats:
        """Draw one sample from each of the given components: (n, D).

        Parameters
        ----------
        components : array-like of int, of shape (n,)
            Numbers of the components.
        rng : Generator, int or None, default=None
            Randomness, or its seed.
        """
        chosen = np.asarray(components, dtype=np.int64)
        drawn = self._parameters.kind.draw(self._parameters, chosen, np.random.default_rng(rng))
        drawn[:, self._constant], drawn[:, self._unknown] = self._constants, np.nan
        return drawn
