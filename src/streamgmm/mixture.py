"""Mixture: frozen parameters, and the questions one can ask them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgmm import kernels
from streamgmm.covariance import Diagonal
from streamgmm.kernels import Floats, Parameters, Scores

if TYPE_CHECKING:
    from sklearn.mixture import GaussianMixture

FloatArray = npt.NDArray[np.float64]


def _frozen(values: npt.ArrayLike) -> Any:
    copy = np.array(values)
    copy.flags.writeable = False
    return copy


class Mixture:
    """A Gaussian mixture that no longer changes.

    It exists so that questions (how likely, which component, draw samples) are answered in one place, by a trained
    model, by a loaded file or by numbers that a user has at hand.

    >>> m = Mixture.from_parameters(weights=[0.5, 0.5], means=[[0.0], [4.0]], precisions=[[1.0], [1.0]])
    >>> m.predict([[0.3], [3.0]]).tolist()
    [0, 1]
    >>> m.log_prob([[0.0]]).round(4).tolist()
    [-1.6118]
    """

    covariance = Diagonal

    def __init__(self, parameters: Parameters) -> None:
        self._parameters = parameters.copy()

    @classmethod
    def view(cls, parameters: Parameters) -> Mixture:
        """A mixture over live parameters, without a copy: for asking at once, not for keeping."""
        mixture = cls.__new__(cls)
        mixture._parameters = parameters
        return mixture

    @classmethod
    def from_parameters(cls, weights: npt.ArrayLike, means: npt.ArrayLike, precisions: npt.ArrayLike) -> Mixture:
        """Builds a mixture from weights (K,), means (K, D) and diagonal precisions (K, D)."""
        means = np.asarray(means)
        if not np.isfinite(means).all():
            raise ValueError("means must be finite.")
        parameters = Parameters(means, cls.covariance.scales(precisions), logits(weights))
        if not (np.isfinite(parameters.means).all() and np.isfinite(parameters.scales).all()):
            raise ValueError(f"means or precisions are too large for {parameters.dtype}; give means as float64.")
        return cls(parameters)

    @classmethod
    def from_sklearn(cls, model: GaussianMixture) -> Mixture:
        """Builds a mixture from a fitted ``sklearn.mixture.GaussianMixture`` with diagonal or spherical covariance."""
        if model.covariance_type not in ("diag", "spherical"):
            raise ValueError(
                f"covariance_type is {model.covariance_type!r}; only 'diag' and 'spherical' can be taken over. "
                "Fit the scikit-learn model with covariance_type='diag'."
            )
        precisions = model.precisions_
        if model.covariance_type == "spherical":
            precisions = np.repeat(precisions[:, None], model.means_.shape[1], axis=1)
        return cls.from_parameters(model.weights_, model.means_, precisions)

    def to_sklearn(self) -> GaussianMixture:
        """A fitted float64 ``sklearn.mixture.GaussianMixture`` with the same parameters, weights renormalised."""
        from sklearn.mixture import GaussianMixture

        model = GaussianMixture(self.n_components, covariance_type="diag")
        weights = np.maximum(self._parameters.weights, np.finfo(np.float64).tiny)  # scikit-learn takes their logarithm
        model.weights_ = weights / weights.sum()
        model.means_ = np.array(self.means, dtype=np.float64)
        scales = np.array(self._parameters.scales, dtype=np.float64)
        model.precisions_cholesky_ = scales
        model.precisions_ = scales**2
        model.covariances_ = 1 / scales**2
        model.n_features_in_ = self.n_features
        model.converged_, model.n_iter_, model.lower_bound_ = True, 0, -np.inf
        return model

    def __repr__(self) -> str:
        return f"Mixture({self.n_components} components, {self.n_features} features, {self._parameters.dtype})"

    @property
    def n_components(self) -> int:
        return len(self._parameters)

    @property
    def n_features(self) -> int:
        return self._parameters.n_features

    @property
    def n_parameters(self) -> int:
        """Free numbers: means, precisions, and weights that sum to one."""
        return self.covariance.n_parameters(self.n_components, self.n_features) + self.n_components - 1

    @property
    def weights(self) -> Floats:
        """(K,) [E1], in the float type of the means."""
        return _frozen(self._parameters.weights.astype(self._parameters.dtype))

    @property
    def means(self) -> Floats:
        """(K, D)"""
        return _frozen(self._parameters.means)

    @property
    def precisions(self) -> Floats:
        """(K, D)"""
        return _frozen(self.covariance.precisions(self._parameters.scales))

    @property
    def covariances(self) -> Floats:
        """(K, D)"""
        return _frozen(self.covariance.covariances(self._parameters.scales))

    def scores(self, x: npt.ArrayLike) -> Scores:
        """Log-likelihood, score of the best component and its number for each row of x, in one go: (N,) each."""
        return kernels.score(self._parameters, x)

    def log_prob(self, x: npt.ArrayLike) -> FloatArray:
        """[E3] exact log-likelihood of each row of x (N, D): (N,)."""
        return self.scores(x).log_likelihood

    score_samples = log_prob

    def max_component(self, x: npt.ArrayLike) -> FloatArray:
        """[E4] score of the best component for each row, a lower bound of ``log_prob``: (N,)."""
        return self.scores(x).max_component

    def predict(self, x: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Number of the best component for each row: (N,)."""
        return self.scores(x).winner

    def responsibilities(self, x: npt.ArrayLike) -> FloatArray:
        """Probability of each component given each row, rows sum to one: (N, K)."""
        f = kernels.component_scores(self._parameters, x)
        f -= f.max(1, keepdims=True, initial=-np.inf)
        np.exp(f, out=f)
        f /= f.sum(1, keepdims=True)
        return f

    def sample(self, n: int, rng: np.random.Generator | int | None = None) -> tuple[Floats, npt.NDArray[np.int64]]:
        """Draws ``n`` samples; gives them (n, D) with the component of each (n,), in random order."""
        if n < 1:
            raise ValueError(f"n is {n}; expected at least one sample.")
        generator = np.random.default_rng(rng)
        components = generator.choice(self.n_components, size=n, p=self._parameters.weights)
        p = self._parameters
        return self.covariance.draw(p.means, p.scales, components, generator), components


def logits(weights: npt.ArrayLike) -> FloatArray:
    """log π of weights that sum to one; a weight of zero becomes the smallest positive number."""
    values = np.asarray(weights, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all() or (values < 0).any() or abs(values.sum() - 1) > 1e-4:
        raise ValueError(
            f"weights have shape {values.shape} and sum to {values.sum():.6g}; "
            "expected a vector of non-negative numbers that sum to 1. Divide them by their sum."
        )
    return np.log(np.maximum(values, np.finfo(np.float64).tiny))
