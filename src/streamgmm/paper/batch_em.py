"""Batch EM from k-means, the reference for quality."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamgmm.core.rules import StochasticEM
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial


def batch_em(
    x: npt.NDArray[np.float32], seed: int, iterations: int, components: int = 64, precision_max: float = 20.0
) -> Trainer:
    """Run batch EM from k-means, as stochastic EM with one batch and a rate of 1; for comparison only.

    Parameters
    ----------
    x : array of shape (N, D)
        Samples.
    seed : int
        Seed of k-means.
    iterations : int
        Number of EM iterations.
    components : int, default=64
        Number of components.
    precision_max : float, default=20.0
        Largest precision.

    Returns
    -------
    Trainer
        The trainer after the last iteration.
    """
    from sklearn.cluster import MiniBatchKMeans

    found = MiniBatchKMeans(components, random_state=seed, n_init=3, batch_size=2048).fit(x)
    labels = found.labels_
    sizes = np.maximum(np.bincount(labels, minlength=components), 1).astype(np.float64)
    variances = [x[labels == k].var(axis=0) if (labels == k).any() else x.var(axis=0) for k in range(components)]
    settings = Settings(
        components,
        rule=StochasticEM(step_init=1.0, step_min=1.0, accumulate=0),
        batch_size=len(x),
        precision_max=precision_max,
        scale="none",
        weights_init=sizes / sizes.sum(),
        means_init=found.cluster_centers_,
        precisions_init=1 / np.maximum(variances, 1 / precision_max),
    )
    trainer = Trainer(settings, x.shape[1], x.dtype, engine=Serial(), seed=seed)
    for _ in range(iterations):
        trainer.feed(x)
    return trainer
