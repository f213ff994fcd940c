"""Samples and reports of steps, in the form that native models of every covariance kind take."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from streamgmm.native import Rows, Samples, Steps, _native, adjacent


class NativeModel(Protocol):
    """What the models of all covariance kinds have in common."""

    @property
    def components(self) -> int:
        """Number of components."""

    @property
    def n_features(self) -> int:
        """Width of a sample."""

    @property
    def dtype(self) -> Any:
        """Float type of the parameters."""


def batches(model: NativeModel, samples: Samples, received: npt.NDArray[np.float64] | None = None) -> tuple[Any, Steps]:
    """Convert samples to the native struct, and make an empty report."""
    rows = rows_of(model, samples.rows)
    steps, rest = divmod(len(rows), samples.batch_size)
    if rest:
        raise ValueError(f"{len(rows)} samples are not whole batches of {samples.batch_size}.")
    size = model.components
    received = np.zeros(size) if received is None else received
    report = Steps(np.empty(steps), np.empty(steps), np.zeros(size, np.int64), received, np.zeros(1, np.int64))
    shares = None if samples.shares is None else np.ascontiguousarray(samples.shares, dtype=np.float64)
    make = samples_type(model)
    return make(rows, samples.factor, samples.batch_size, samples.gaps, shares, samples.frame, *samples.turn), report


def rows_of(model: NativeModel, x: npt.ArrayLike) -> Rows:
    """Return rows (N, D) that the kernel can read: bytes, or floats of the model's type with adjacent features."""
    rows = np.asarray(x)
    if rows.ndim != 2 or rows.shape[1] != model.n_features:
        raise ValueError(f"samples have shape {rows.shape}; expected (samples, {model.n_features}).")
    return adjacent(rows, rows.dtype if rows.dtype == np.uint8 else model.dtype)


def samples_type(model: NativeModel) -> Any:
    """Return the struct of samples that fits the float type of a model."""
    return _native.Samples32 if model.dtype == np.float32 else _native.Samples64
