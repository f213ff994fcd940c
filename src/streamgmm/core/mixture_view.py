"""Parameters of a mixture as arrays."""

from __future__ import annotations

from abc import ABC
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.low_rank import LowRank
from streamgmm.core.parameters import Parameters
from streamgmm.native import Floats

FloatArray = npt.NDArray[np.float64]


class MixtureView(ABC):
    """What a `Mixture` consists of."""

    _parameters: Parameters
    _constant: npt.NDArray[np.int64]  # features that never varied
    _constants: FloatArray  # their values
    _unknown: npt.NDArray[np.int64]  # features of which no value was learned

    @property
    def covariance_type(self) -> str:
        """Name of the covariance kind."""
        return self._parameters.kind.name

    @property
    def n_components(self) -> int:
        """Number of components, K."""
        return len(self._parameters)

    @property
    def n_features(self) -> int:
        """Number of features, D."""
        return self._parameters.n_features

    @property
    def n_parameters(self) -> int:
        """Free numbers: means, covariances, and weights that sum to one."""
        return self._parameters.kind.n_parameters(self.n_components, self.n_features) + self.n_components - 1

    @property
    def constants(self) -> FloatArray:
        """The value of each feature that never varied, inf where no value was learned, NaN for all others: (D,)."""
        values = np.full(self.n_features, np.nan)
        values[self._constant], values[self._unknown] = self._constants, np.inf
        return values

    @property
    def weights(self) -> Floats:
        """[E1] Weights (K,), in the float type of the means."""
        return _frozen(self._parameters.weights.astype(self._parameters.dtype))

    @property
    def means(self) -> Floats:
        """Means (K, D)."""
        return _frozen(self._parameters.means)

    @property
    def variances(self) -> Floats:
        """Variance of every feature in every component (K, D), whatever the covariance kind."""
        return _frozen(self._parameters.kind.feature_variances(self._parameters))

    @property
    def precisions(self) -> Floats:
        """Precisions, in the form of the covariance kind: (K, D) for ``"diag"``, else (K, D, D)."""
        return _frozen(self._parameters.kind.precisions(self._parameters))

    @property
    def covariances(self) -> Floats:
        """Covariances, in the form of the covariance kind: (K, D) for ``"diag"``, else (K, D, D)."""
        return _frozen(self._parameters.kind.covariances(self._parameters))

    @property
    def factors(self) -> Floats:
        """Factors of ``"low_rank"`` covariances, (K, D, L): the covariance is A A' plus the variances of the noise."""
        return _frozen(self._low_rank.factors(self._parameters))

    @property
    def noise_variances(self) -> Floats:
        """Variances of the noise of ``"low_rank"`` covariances, (K, D)."""
        return _frozen(self._low_rank.noise_variances(self._parameters))

    @property
    def _low_rank(self) -> LowRank:
        if not isinstance(kind := self._parameters.kind, LowRank):
            raise AttributeError(f"covariance_type={self.covariance_type!r} has no factors; 'low_rank' does.")
        return kind

    def _take_constants(self, constants: npt.ArrayLike | None) -> None:
        values = np.full(self.n_features, np.nan) if constants is None else np.asarray(constants, np.float64)
        self._constant, self._unknown = np.flatnonzero(np.isfinite(values)), np.flatnonzero(np.isinf(values))
        self._constants = values[self._constant]

    def _without_unknown(self, x: npt.ArrayLike) -> npt.ArrayLike:
        """Return rows (N, D) with gaps in place of all values of which nothing is known."""
        if not len(self._unknown):
            return x
        rows = np.array(x, self._parameters.dtype)
        rows[:, self._unknown] = np.nan
        return rows

    def _differing(self, x: npt.ArrayLike, factor: float) -> npt.NDArray[np.bool_]:
        """Tell where rows differ in features that never varied: (N, number of such features)."""
        values = np.asarray(x)[:, self._constant]
        if values.dtype == np.uint8:
            values = values * self._parameters.dtype.type(factor)
        values = values.astype(self._parameters.dtype)
        return np.asarray((values != self._constants.astype(self._parameters.dtype)) & (values == values))


def _frozen(values: npt.ArrayLike) -> Any:
    copy = np.array(values)
    copy.flags.writeable = False
    return copy
