"""Covariance kinds without a kernel: the steps of the natural rule in plain NumPy, one batch at a time."""

from __future__ import annotations

from abc import abstractmethod

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.base import Covariance
from streamgmm.core.covariance.work import Bounds, Prior, Work
from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Tensors
from streamgmm.native import NaturalStep, Scores, Steps


class PlainCovariance(Covariance):
    """Base of kinds that give scores and updates in NumPy; a subclass adds ``component_scores`` and ``move``."""

    @abstractmethod
    def move(
        self,
        parameters: Parameters,
        moments: Tensors,
        x: npt.NDArray[np.float64],
        weights: npt.NDArray[np.float64],
        rates: npt.NDArray[np.float64],
        bounds: Bounds,
        hold_scales: bool,
    ) -> None:
        """[E14] Move means and moments of each component by ``rates`` (K,) towards x (N, D), weighted (N, K).

        Then set the covariances from the moments, unless ``hold_scales``.
        """

    def score(self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
        scores = self.component_scores(parameters, x, factor)
        winner = scores.argmax(1)
        top = scores[np.arange(len(scores)), winner]
        return Scores(top + np.log(np.exp(scores - top[:, None]).sum(1)), top, winner)

    def natural_steps(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        received: npt.NDArray[np.float64],
        work: Work,
        step: NaturalStep,
        prior: Prior | None = None,
    ) -> Steps:
        samples, size = work.samples, len(parameters)
        smoothing = np.kron(*work.filters)
        shares = np.ones(len(samples.rows)) if samples.shares is None else samples.shares
        losses, tops, wins = [], [], np.zeros(size, np.int64)
        for start in range(0, len(samples.rows), samples.batch_size):
            part = slice(start, start + samples.batch_size)
            x = np.asarray(samples.rows[part], np.float64) * samples.factor
            scores = self.component_scores(parameters, x)
            smoothed = scores @ smoothing.T
            winner = smoothed.argmax(1)
            weights = shares[part, None] * smoothing[winner]
            total = weights.sum(0)
            counts[total > 0] = np.minimum(counts + step.growth * total, step.count_max)[total > 0]
            rates = np.minimum(total / counts, 1)
            self.move(parameters, moments, x, weights, rates, Bounds(*step.scale_bounds), step.hold_scales)
            received += total
            wins += np.bincount(winner, minlength=size)
            losses.append(smoothed.max(1).mean())
            tops.append(scores.max(1).mean())
        return Steps(np.array(losses), np.array(tops), wins, received, np.zeros(1, np.int64))
