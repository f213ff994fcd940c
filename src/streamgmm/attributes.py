"""What an estimator shows of its training: the attributes that end in an underscore."""

from __future__ import annotations

from sklearn.exceptions import NotFittedError

from streamgmm.kernels import Floats
from streamgmm.mixture import Mixture
from streamgmm.training import TrainingState


class Learned:
    """Attributes of a model that keeps its training in ``_training``; arrays are read-only copies."""

    _training: TrainingState

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
