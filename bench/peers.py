"""Alternatives that a user might write or choose. Each function returns one that learns a row, or None if missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from streamgmm.core.grid import Grid, smoothing_matrix

Step = Callable[[np.ndarray], None]


class NumpySgd:
    """The same algorithm, one sample at a time, as a careful NumPy user would write it.

    Parameters
    ----------
    means : array of shape (K, D)
        Initial means.
    scales : array of shape (K, D)
        Initial scales.
    grid : Grid
        Layout of the components.
    sigma : float
        Width of the annealing.
    rate : float
        Learning rate.
    """

    def __init__(self, means: np.ndarray, scales: np.ndarray, grid: Grid, sigma: float, rate: float) -> None:
        self.means, self.scales, self.logits = means.copy(), scales.copy(), np.zeros(len(means), means.dtype)
        self.g = smoothing_matrix(grid, sigma).astype(means.dtype)
        self.narrow = bool((self.g == np.eye(len(means))).all())
        self.rate = np.asarray(rate, means.dtype)
        self.log_dets = np.log(self.scales).sum(1)
        self.bounds = (means.dtype.type(1e-3), means.dtype.type(20**0.5))

    def step(self, x: np.ndarray) -> None:
        """Learn one sample.

        Parameters
        ----------
        x : array of shape (D,)
            The sample.
        """
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


def torch_sgd(means: np.ndarray, scales: np.ndarray, rate: float) -> Step | None:
    """Return the objective at a narrow σ in PyTorch: autograd and SGD, one sample at a time, one thread.

    Parameters
    ----------
    means : array of shape (K, D)
        Initial means.
    scales : array of shape (K, D)
        Initial scales.
    rate : float
        Learning rate.
    """
    try:
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    parameters = [torch.tensor(v, requires_grad=True) for v in (means, scales, np.zeros(len(means), np.float32))]
    mu, s, logits = parameters
    optimiser = torch.optim.SGD(parameters, lr=rate)

    def step(row: np.ndarray) -> None:
        x = torch.from_numpy(row)
        scores = torch.log_softmax(logits, 0) + torch.log(s).sum(1) - 0.5 * ((x - mu) * s).square().sum(1)
        optimiser.zero_grad()
        (-scores.max()).backward()
        optimiser.step()
        with torch.no_grad():
            s.clamp_(1e-3, 20**0.5)

    return step


def river_kmeans(components: int) -> Step | None:
    """Return river's online k-means.

    Parameters
    ----------
    components : int
        Number of clusters.
    """
    try:
        from river import cluster
    except ImportError:
        return None
    return _learning_one(cluster.KMeans(n_clusters=components, halflife=0.1, seed=0))


def river_mixture(components: int) -> Step:
    """Return our estimator for river.

    Parameters
    ----------
    components : int
        Number of components.
    """
    from streamgmm import OnlineMixture

    return _learning_one(OnlineMixture(n_components=components, rule="sgd", seed=0))


def _learning_one(model: Any) -> Step:
    """Learn rows as dictionaries, which are made beforehand because users of river have them at hand."""
    known: dict[int, dict[int, float]] = {}

    def step(row: np.ndarray) -> None:
        key = row.ctypes.data
        if key not in known:
            known[key] = dict(enumerate(row.tolist()))
        model.learn_one(known[key])

    return step


def minibatch_kmeans(start: np.ndarray) -> Step:
    """Return scikit-learn's mini-batch k-means, sample by sample.

    Parameters
    ----------
    start : array of shape (K, D)
        Initial centres.
    """
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(len(start), init=start, n_init=1, random_state=0, compute_labels=False)
    model.partial_fit(start)
    return lambda row: model.partial_fit(row[None])


def gmmx_score(means: np.ndarray, precisions: np.ndarray) -> Callable[[np.ndarray], None] | None:
    """Return the scoring of gmmx (JAX) for a diagonal mixture with equal weights.

    Parameters
    ----------
    means : array of shape (K, D)
        Means.
    precisions : array of shape (K, D)
        Precisions.
    """
    try:
        from gmmx import GaussianMixtureModelJax
    except ImportError:
        return None
    weights = np.full(len(means), 1 / len(means), np.float32)
    model = GaussianMixtureModelJax.from_squeezed(means, 1 / precisions, weights, covariance_type="diag")
    return lambda rows: model.score_samples(rows).block_until_ready()
