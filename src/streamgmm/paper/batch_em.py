"""Batch EM from k-means: the yardstick of quality."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.rules import StochasticEM


def batch_em(
    x: npt.NDArray[np.float32], seed: int, iterations: int, components: int = 64, precision_max: float = 20.0
) -> StreamingGaussianMixture:
    """Batch EM from k-means, same precision cap, for comparison only: stochastic EM with one batch and rate 1."""
    from sklearn.cluster import MiniBatchKMeans

    found = MiniBatchKMeans(components, random_state=seed, n_init=3, batch_size=2048).fit(x)
    labels = found.labels_
    shares = np.maximum(np.bincount(labels, minlength=components), 1).astype(np.float64)
    variances = [x[labels == k].var(axis=0) if (labels == k).any() else x.var(axis=0) for k in range(components)]
    model = StreamingGaussianMixture(
        components,
        rule=StochasticEM(step_init=1.0, step_min=1.0, accumulate=0),
        batch_size=len(x),
        weights_init=shares / shares.sum(),
        means_init=found.cluster_centers_,
        precisions_init=1 / np.maximum(variances, 1 / precision_max),
        random_state=seed,
    )
    for _ in range(iterations):
        model.partial_fit(x)
    return model
