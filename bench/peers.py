"""What a user would write or pick instead."""

from __future__ import annotations

import numpy as np

from streamgmm.grid import Grid, smoothing_matrix


class NumpySgd:
    """The same algorithm, one sample at a time, as a careful NumPy user would write it."""

    def __init__(self, means: np.ndarray, scales: np.ndarray, grid: Grid, sigma: float, rate: float) -> None:
        self.means, self.scales, self.logits = means.copy(), scales.copy(), np.zeros(len(means), means.dtype)
        self.g = smoothing_matrix(grid, sigma).astype(means.dtype)
        self.narrow = bool((self.g == np.eye(len(means))).all())
        self.rate = np.asarray(rate, means.dtype)
        self.log_dets = np.log(self.scales).sum(1)
        self.bounds = (means.dtype.type(1e-3), means.dtype.type(20**0.5))

    def step(self, x: np.ndarray) -> None:
        e = np.exp(self.logits - self.logits.max())
        weights = e / e.sum()
        z = (x - self.means) * self.scales
        scores = np.log(weights) + self.log_dets - 0.5 * np.einsum("kd,kd->k", z, z)
        if self.narrow:
            self._update(slice(k := int(scores.argmax()), k + 1), np.ones((1, 1), x.dtype), x)
            received = np.zeros_like(weights)
            received[k] = 1
        else:
            received = self.g[int((self.g @ scores).argmax())]
            self._update(slice(None), received[:, None], x)
        self.logits += self.rate * (received - weights)

    def _update(self, rows: slice, w: np.ndarray, x: np.ndarray) -> None:
        s, away = self.scales[rows], x - self.means[rows]
        self.means[rows] += np.minimum(self.rate * w * s * s, 1) * away
        moved = np.clip(s + self.rate * w * (1 / s - s * away * away), s / 2, s * 2)
        self.scales[rows] = np.clip(moved, *self.bounds)
        self.log_dets[rows] = np.log(self.scales[rows]).sum(1)
