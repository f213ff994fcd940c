"""Indices of how well clusters are separated."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK = 1024


def dunn_index(x: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Return the smallest distance between clusters divided by the largest distance within one; more is better.

    It is exact, over all pairs of samples; distances are computed in blocks, so that memory does not grow with the
    square of N.

    Parameters
    ----------
    x : array of shape (N, D)
        Samples.
    labels : array of shape (N,)
        Number of the cluster of each sample.

    Returns
    -------
    float
        The index; NaN if there is only one cluster, or no cluster has two different samples.

    Examples
    --------
    >>> dunn_index(np.array([[0.0], [1.0], [5.0]], np.float32), np.array([0, 0, 1]))
    4.0
    """
    rows = x - np.mean(x, axis=0, dtype=np.float64)
    squares = np.einsum("nd,nd->n", rows, rows)
    between, within = (np.inf, (0, 0)), (0.0, (0, 0))
    for i in range(0, len(rows), BLOCK):
        for j in range(i, len(rows), BLOCK):
            a, b = slice(i, i + BLOCK), slice(j, j + BLOCK)
            d = squares[a, None] + squares[None, b] - 2 * (rows[a] @ rows[b].T)
            same = labels[a, None] == labels[None, b]
            apart, together = np.where(same, np.inf, d), np.where(same, d, -np.inf)
            low, high = int(apart.argmin()), int(together.argmax())
            if apart.flat[low] < between[0]:
                between = (float(apart.flat[low]), (i + low // d.shape[1], j + low % d.shape[1]))
            if together.flat[high] > within[0]:
                within = (float(together.flat[high]), (i + high // d.shape[1], j + high % d.shape[1]))
    if not np.isfinite(between[0]) or within[0] <= 0:
        return float("nan")
    # the products round; the distances of the two pairs found do not
    smallest, largest = (_distance(x, *pair) for pair in (between[1], within[1]))
    return smallest / largest


def _distance(x: npt.NDArray[np.float32], i: int, j: int) -> float:
    return float(np.linalg.norm(x[i].astype(np.float64) - x[j].astype(np.float64)))


def davies_bouldin(x: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Return scikit-learn's Davies-Bouldin score; less is better.

    Parameters
    ----------
    x : array of shape (N, D)
        Samples.
    labels : array of shape (N,)
        Number of the cluster of each sample.

    Returns
    -------
    float
        The score; NaN if there is only one cluster.
    """
    from sklearn.metrics import davies_bouldin_score

    return float(davies_bouldin_score(x, labels)) if len(np.unique(labels)) > 1 else float("nan")
