"""What an estimator shows of its training: the attributes that end in an underscore."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sklearn.exceptions import NotFittedError

from streamgmm.kernels import Floats
from streamgmm.mixture import Mixture
from streamgmm.training import TrainingState

SETTLED = (
    *("n_components", "covariance_type", "rule", "grid", "batch_size", "learning_rate_init", "learning_rate_min"),
    *("sigma_init", "sigma_min", "tol", "period", "annealing", "precision_max", "half_life", "reheat", "allow_nan"),
)
"""Settings that cannot change once training has begun."""


class Learned:
    """Attributes of a model that keeps its training in ``_training``; arrays are read-only copies."""

    _training: TrainingState
    _begun_with: dict[str, Any]
    get_params: Callable[..., dict[str, Any]]

    @property
    def mixture_(self) -> Mixture:
        """The mixture as it is now: a copy that later training does not change."""
        return Mixture(self._attribute.parameters)

    @property
    def weights_(self) -> Floats:
        """Weights of the components, (K,)."""
        return Mixture.view(self._attribute.parameters).weights

    @property
    def means_(self) -> Floats:
        """Means, (K, D)."""
        return Mixture.view(self._attribute.parameters).means

    @property
    def precisions_(self) -> Floats:
        """Precisions, (K, D)."""
        return Mixture.view(self._attribute.parameters).precisions

    @property
    def covariances_(self) -> Floats:
        """Variances, (K, D)."""
        return Mixture.view(self._attribute.parameters).covariances

    @property
    def sigma_(self) -> float:
        """Width of the annealing; ``sigma_min`` once it is over."""
        return self._attribute.annealing.sigma

    @property
    def learning_rate_(self) -> float:
        """The rule's present learning rate."""
        return self._attribute.rule.learning_rate(self._attribute.rule_state)

    @property
    def n_samples_seen_(self) -> int:
        """Samples learned so far."""
        return self._attribute.n_samples

    @property
    def n_rows_skipped_(self) -> int:
        """Rows without a single known feature (``allow_nan``)."""
        return self._attribute.skipped

    def __sklearn_is_fitted__(self) -> bool:
        return "_training" in vars(self)

    @property
    def _state(self) -> TrainingState:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet; call fit or partial_fit with data first."
            )
        return self._training

    @property
    def _attribute(self) -> TrainingState:
        """The state for an attribute: before training there is none, as everywhere in scikit-learn."""
        try:
            return self._state
        except NotFittedError as problem:
            raise AttributeError(str(problem)) from None

    def _take(self, state: TrainingState) -> None:
        """Forgets what was learned before, and goes on from ``state`` with the settings of this moment."""
        self._training, self._scaled = state, None
        self._begun_with = {name: value for name, value in self.get_params(deep=False).items() if name in SETTLED}

    def _refuse_changes(self) -> None:
        """Raises if a setting has been changed that training cannot change any more."""
        for name, value in self._begun_with.items():
            if getattr(self, name) != value:
                raise ValueError(
                    f"{name} is {getattr(self, name)!r}, but training began with {value!r} and goes on with that. "
                    "Set it back, or begin anew with fit or a clone."
                )
