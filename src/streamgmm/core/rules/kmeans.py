"""k-means, for a start of stochastic EM. It uses scikit-learn, and loads it only when asked."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


def cluster(
    rows: npt.NDArray[Any], weights: npt.NDArray[np.float64], n_clusters: int, rng: np.random.Generator
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Cluster weighted rows (N, D); return centres (K, D) and the cluster of each row (N,)."""
    from sklearn.cluster import MiniBatchKMeans

    seed = int(rng.integers(2**31 - 1))
    found = MiniBatchKMeans(n_clusters, random_state=seed, n_init=3).fit(rows, sample_weight=weights)
    return found.cluster_centers_, found.labels_
