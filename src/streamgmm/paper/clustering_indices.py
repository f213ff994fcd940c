"""How well labels separate samples."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

BLOCK = 1024


def dunn_index(x: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """Smallest distance between samples of two clusters ÷ largest distance within one; more is better.

    Exact, over all pairs, a block of 1024 × 1024 distances at a time: memory does not grow with the square of N.

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
        return float("nan")  # one cluster, or nothing but single points
    smallest, largest = (
        _distance(x, *pair) for pair in (between[1], within[1])
    )  # without the rounding of the products
    return smallest / largest


def _distance(x: npt.NDArray[np.float32], i: int, j: int) -> float:
    return float(np.linalg.norm(x[i].astype(np.float64) - x[j].astype(np.float64)))


def davies_bouldin(x: npt.NDArray[np.float32], labels: npt.NDArray[np.int64]) -> float:
    """scikit-learn's score; less is better."""
    from sklearn.metrics import davies_bouldin_score

    return float(davies_bouldin_score(x, labels)) if len(np.unique(labels)) > 1 else float("nan")
