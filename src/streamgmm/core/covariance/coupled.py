"""What covariance kinds have in common that couple features: their kernels take steps of the same form."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.base import Covariance
from streamgmm.core.covariance.dense import Numbers
from streamgmm.core.covariance.work import Bounds, Prior, Statistics, Work
from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Tensors
from streamgmm.native import EMStep, Floats, NaturalStep, Scores, Steps, coupled, padded


class Coupled(Covariance):
    """Base of kinds with a kernel in which features may be correlated; a subclass adds ``wrapped`` and its tensors."""

    supports_gaps: ClassVar[bool] = True
    bounds_influence: ClassVar[bool] = True
    couples_features: ClassVar[bool] = True
    patience: ClassVar[int] = 8

    @abstractmethod
    def wrapped(self, means: Floats, moments: Tensors, learned: coupled.Learned) -> Any:
        """Wrap statistics for the kernel."""

    def _statistics(self, means: Floats, moments: Tensors, masses: Numbers, prior: Prior | None) -> Any:
        rows, evidence = (None, None) if prior is None else prior
        return self.wrapped(means, moments, coupled.Learned(masses, moments.buffers["pending"], evidence, rows))

    def refresh(self, parameters: Parameters, rows: range) -> None:
        coupled.refresh(parameters.native, rows)

    def score(self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
        return coupled.score(parameters.native, x, factor)

    def component_scores(self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> Numbers:
        return coupled.component_scores(parameters.native, x, factor)

    def natural_steps(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: Numbers,
        received: Numbers,
        work: Work,
        step: NaturalStep,
        prior: Prior | None = None,
    ) -> Steps:
        own = self._statistics(parameters.buffers["means"], moments, counts, prior)
        return coupled.natural_steps(parameters.native, own, work.samples, work.filters, step, received)

    def em_steps(
        self,
        parameters: Parameters,
        statistics: Statistics,
        masses: Numbers,
        work: Work,
        step: EMStep,
        prior: Prior | None = None,
    ) -> Steps:
        own = self._statistics(statistics.means, statistics.moments, masses, prior)
        return coupled.em_steps(parameters.native, own, work.samples, step)

    def set_from_moments(
        self, parameters: Parameters, moments: Tensors, bounds: Bounds, rows: range, prior: Prior | None = None
    ) -> None:
        own = self._statistics(parameters.buffers["means"], moments, parameters.log_dets, prior)
        coupled.settle(parameters.native, own, bounds, rows)

    def set_components(
        self, parameters: Parameters, statistics: Statistics, components: npt.NDArray[np.int64], bounds: Bounds
    ) -> None:
        parameters.buffers["means"][components] = statistics.means[components]
        for k in components.tolist():
            self.set_from_moments(parameters, statistics.moments, bounds, range(k, k + 1))

    def start_prior(self, n_features: int, dtype: np.dtype[Any], expected: float) -> Floats:
        return padded(np.repeat([[expected], [1.0], [0.0], [0.0]], n_features, axis=1), dtype, 1)

    def set_prior(self, prior: Prior, rows: list[Any]) -> None:
        for row, values in zip(prior.rows, rows, strict=True):
            row[: len(rows[0])] = values
