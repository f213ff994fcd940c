"""Diagonal covariance: one precision a feature, kept as its square root, the scale."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from streamgmm.kernels import Floats


class Diagonal:
    """What is peculiar to diagonal covariances; everything takes and gives plain arrays of shape (K, D)."""

    name = "diag"

    @staticmethod
    def scales(precisions: npt.ArrayLike) -> Floats:
        """Scales from precisions, in their own float type."""
        values = np.asarray(precisions)
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(
                f"precisions must be positive and finite; found values from {np.min(values)} to {np.max(values)}."
            )
        return np.sqrt(values)

    @staticmethod
    def precisions(scales: Floats) -> Floats:
        return scales**2

    @staticmethod
    def covariances(scales: Floats) -> Floats:
        return 1 / scales**2

    @staticmethod
    def draw(means: Floats, scales: Floats, components: npt.NDArray[np.int64], rng: np.random.Generator) -> Floats:
        """One sample from each of the given components, shape (len(components), D)."""
        noise = rng.standard_normal((len(components), means.shape[1])).astype(means.dtype)
        noise /= scales[components]
        noise += means[components]
        return noise

    @staticmethod
    def n_parameters(n_components: int, n_features: int) -> int:
        """Free numbers in means and covariances."""
        return 2 * n_components * n_features
