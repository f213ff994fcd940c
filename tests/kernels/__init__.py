"""Tests of the native kernel. They depend on nothing above it: models are made of padded buffers here."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.native import Filters, Samples, SGDStep, Steps, diagonal, padded

BOUNDS = (1e-3, 20**0.5)


class Mixture:
    """Buffers of a diagonal mixture, views without the padding, and the native model that lives in them."""

    def __init__(self, means: npt.ArrayLike, scales: npt.ArrayLike, logits: npt.ArrayLike) -> None:
        means = np.asarray(means)
        self.dtype, self.n_features = means.dtype, means.shape[1]
        self.means_buffer = padded(means, self.dtype, 0)
        self.scales_buffer = padded(scales, self.dtype, 1)
        self.means = self.means_buffer[:, : self.n_features]
        self.scales = self.scales_buffer[:, : self.n_features]
        self.logits = np.array(logits, dtype=np.float64)
        self.log_dets = np.empty(len(means))
        self.model = diagonal.model(self.means_buffer, self.scales_buffer, self.logits, self.log_dets, self.n_features)
        diagonal.refresh_log_dets(self.model)

    def __len__(self) -> int:
        return len(self.logits)

    def copy(self) -> Mixture:
        return Mixture(self.means, self.scales, self.logits)

    def variances(self) -> np.ndarray:
        """Variances of all components, in the layout of the kernel."""
        return padded(1 / self.scales.astype(np.float64) ** 2, self.dtype, 1)

    def moments(self, variances: np.ndarray, masses: np.ndarray) -> diagonal.Moments:
        """Moments that share the means of the model."""
        return diagonal.Moments(self.means_buffer, variances, masses)


def random_mixture(rng: np.random.Generator, components: int, features: int, dtype: type = np.float64) -> Mixture:
    """A mixture with means in [0, 1], scales in [0.5, 4.4] and uneven weights."""
    means = rng.random((components, features)).astype(dtype)
    scales = rng.uniform(0.5, 4.4, (components, features))
    return Mixture(means, scales, rng.normal(0, 0.5, components))


def plain(p: Mixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, means and scales as float64, as the reference takes them."""
    return p.logits.copy(), p.means.astype(np.float64), p.scales.astype(np.float64)


def sgd_steps(p: Mixture, x: npt.ArrayLike, filters: Filters, rate: float, **reading: Any) -> Steps:
    """Gradient steps; ``reading`` are the fields of ``Samples``."""
    return diagonal.sgd_steps(p.model, Samples(np.asarray(x), **reading), filters, SGDStep(rate, BOUNDS))
