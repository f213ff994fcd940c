"""Level: one stage of a stack with its trainers, shared or one for each position."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.core.passes import PERIODS
from streamgmm.core.trainer import Trainer
from streamgmm.layers.fold import Images
from streamgmm.layers.stages import Stage
from streamgmm.native import Floats

NEGLIGIBLE = 1e-6  # smaller responsibilities count as zero: subnormal numbers are slow and carry nothing


class Level:
    """What a stage has learned.

    Parameters
    ----------
    stage : Stage
        Which rows it sees.
    trainers : list of Trainer
        One, or one for each position.
    """

    def __init__(self, stage: Stage, trainers: list[Trainer]) -> None:
        self.stage, self.trainers = stage, trainers

    @property
    def begun(self) -> bool:
        """Whether anything was learned."""
        return self.trainers[0].n_samples > 0

    @property
    def annealed(self) -> bool:
        """Whether the level above may begin: annealing is over, or has taken its largest number of samples."""
        return self.begun and all(
            trainer.annealed or trainer.n_samples >= PERIODS * trainer.schedule.period for trainer in self.trainers
        )

    def learn(self, images: Images) -> None:
        """Learn from images, position by position."""
        rows = self.stage.rows(images)
        for trainer, part in zip(self.trainers, self._parts(rows), strict=True):
            trainer.feed(part, more=True)

    def settle(self) -> None:
        """Make the parameters show everything learned so far."""
        for trainer in self.trainers:
            trainer.settle()

    def mixtures(self) -> list[Mixture]:
        """Return views of the current mixtures."""
        return [trainer.mixture for trainer in self.trainers]

    def log_joint(self, rows: Images) -> npt.NDArray[np.float64]:
        """[E2] Return log π_k + log N_k of the known features of rows (N, down, across, features), for every k."""
        return self._ask(rows, Mixture.component_scores, self.stage.n_components)

    def responsibilities(self, images: Images) -> Images:
        """Return the image (N, down, across, K) for the level above; positions without a known pixel are NaN."""
        rows = self.stage.rows(images)
        found = self._ask(rows, Mixture.responsibilities, self.stage.n_components).astype(np.float32)
        found[found < NEGLIGIBLE] = 0.0
        if rows.dtype.kind == "f" and np.isnan(rows).any():
            found[np.isnan(rows).all(-1)] = np.nan
        return found

    def log_likelihood(self, images: Images) -> npt.NDArray[np.float64]:
        """[E3] Return the log-likelihood of the patches of each image, summed: (N,)."""
        rows = self.stage.rows(images)
        return self._ask(rows, lambda mixture, part: mixture.log_prob(part)[:, None], 1).sum((1, 2, 3))

    def weights(self) -> npt.NDArray[np.float64]:
        """Return the weights of the components at each position, (down, across, K), or (1, 1, K) if they are shared."""
        weights = np.stack([mixture.weights for mixture in self.mixtures()]).astype(np.float64)
        weights /= weights.sum(1, keepdims=True)
        return weights.reshape(*(self.stage.positions if len(weights) > 1 else (1, 1)), -1)

    def means(self) -> Floats:
        """Return the means, (positions or 1, K, features)."""
        return np.stack([mixture.means for mixture in self.mixtures()])

    def variances(self) -> Floats:
        """Return the variances, (positions or 1, K, features)."""
        return np.stack([mixture.variances for mixture in self.mixtures()])

    def expected(self, shares: Images, values: Floats) -> Images:
        """Average ``values`` (positions or 1, K, features) by shares (N, down, across, K) of the components."""
        flat = shares.reshape(len(shares), self.stage.n_positions, -1)
        found = flat @ values[0] if len(values) == 1 else np.einsum("npk,pkf->npf", flat, values)
        return np.asarray(found).reshape(*shares.shape[:3], -1)

    def means_of(self, components: npt.NDArray[np.int64]) -> Images:
        """Return the means (N, down, across, features) of components (N, down, across)."""
        means = self.means()
        places = np.arange(len(means)).reshape(self.stage.positions) if len(means) > 1 else np.int64(0)
        return means[places, components]

    def draw(self, components: npt.NDArray[np.int64], rng: np.random.Generator) -> Images:
        """Draw rows (N, down, across, features) from components (N, down, across)."""

        def of(mixture: Mixture, part: Images) -> Images:
            return mixture.draw(part[:, 0], rng)

        return self._ask(components[..., None], of, self.stage.n_features)

    def _parts(self, rows: Images) -> list[Images]:
        """Rows of each trainer: all positions of an image in turn, or one position of all images."""
        features = rows.shape[-1]
        if self.stage.fold.shared:
            return [rows.reshape(-1, features)]
        flat = rows.reshape(len(rows), -1, features)
        return [np.ascontiguousarray(flat[:, p]) for p in range(flat.shape[1])]

    def _ask(self, rows: Images, question: Callable[[Mixture, Any], npt.NDArray[Any]], width: int) -> Images:
        """Ask the mixture of each position about its rows: (N, down, across, width)."""
        answers = [question(m, part) for m, part in zip(self.mixtures(), self._parts(rows), strict=True)]
        if self.stage.fold.shared:
            return answers[0].reshape(*rows.shape[:3], width)
        return np.stack(answers, 1).reshape(*rows.shape[:3], width)
