"""The native kernel behind typed functions that check shape, dtype and layout.

This module holds what every covariance kind shares; each kind has a module of its own. Only this package writes into
its arguments; each one is tagged IN, OUT or INOUT.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.native import _native
from streamgmm.native._native import average_usage, move_weights, upper_median, use_width, width, widths

__all__ = [
    "FRAME_ROWS",
    "FRAME_SUMS",
    "PACK_BYTES",
    "TYPICAL_NUMBERS",
    "AnswerStep",
    "EMStep",
    "Filters",
    "Floats",
    "NaturalStep",
    "Rows",
    "SGDStep",
    "Samples",
    "Scores",
    "Steps",
    "Tally",
    "Turn",
    "adjacent",
    "aligned_copy",
    "average_usage",
    "copy_rows",
    "first_unfit_row",
    "move_weights",
    "padded",
    "rows_of_columns",
    "smooth_losses",
    "sum_above",
    "to_responsibilities",
    "upper_median",
    "use_width",
    "width",
    "widths",
]

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[Any]
"""Samples (N, D): floats, or bytes."""
PACK_BYTES = 128
"""Rows of parameters are padded to a multiple of this, and aligned to it."""
FRAME_ROWS = 12
"""Rows of a frame; see `Samples`."""
FRAME_SUMS = 5
"""Number of the first row of a frame that the kernel writes."""
TYPICAL_NUMBERS = 5
"""Numbers of a typical loss; see `Samples`."""


def padded(values: npt.ArrayLike, dtype: np.dtype[Any], filler: float) -> Floats:
    """Copy arrays (..., D) into the layout of the kernel: (..., stride), aligned, with ``filler`` in the padding.

    >>> padded([[1.0, 2.0]], np.dtype(np.float32), 0).shape
    (1, 32)
    """
    rows = np.asarray(values, dtype=dtype)
    lanes = PACK_BYTES // dtype.itemsize
    stride = -(-rows.shape[-1] // lanes) * lanes
    buffer: Floats = _aligned((*rows.shape[:-1], stride), dtype)
    buffer[:] = filler
    buffer[..., : rows.shape[-1]] = rows
    return buffer


def aligned_copy(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to an aligned address: vectors that straddle cache lines halve the speed of the kernel."""
    copy = _aligned(values.shape, values.dtype)
    copy[...] = values
    return copy


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.empty(size + PACK_BYTES, np.uint8)
    skip = -room.ctypes.data % PACK_BYTES
    return room[skip : skip + size].view(dtype).reshape(shape)


def adjacent(rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> Rows:
    """Convert rows to ``dtype`` with adjacent features; copy only if needed. Rows may be any distance apart."""
    rows = rows.astype(dtype, copy=False)
    if rows.flags.aligned and (rows.flags.c_contiguous or _has_adjacent_features(rows)):
        return rows
    return np.ascontiguousarray(rows)


def _has_adjacent_features(rows: Rows) -> bool:
    between_rows, between_features = rows.strides
    return between_features == rows.itemsize and between_rows > 0 and between_rows % rows.itemsize == 0


class Filters(NamedTuple):
    """The two circulant factors of a smoothing matrix: (rows, rows) and (columns, columns)."""

    along_rows: npt.NDArray[np.float64]
    along_columns: npt.NDArray[np.float64]


class Turn(NamedTuple):
    """Which steps are summed in a frame: step t if ``every`` divides ``first + t·apart``."""

    first: int = 0
    apart: int = 1
    every: int = 1


class Samples(NamedTuple):
    """Whole batches of consecutive rows, and how to read them.

    Attributes
    ----------
    rows : array of shape (N, D)
        IN. Floats, or bytes.
    batch_size : int, default=1
        Samples per step; N is a multiple of it.
    factor : float, default=1.0
        Multiplies bytes; floats need 1.
    gaps : bool, default=False
        Whether NaN marks missing values. Otherwise rows must not contain any.
    shares : array of shape (N,), optional
        IN. How much each row counts, within (0, 1].
    typical_loss : array of shape (5,), optional
        INOUT. [E20] Extreme samples then have less influence: number of samples, level and deviation of losses, room
        (0 keeps the bound fixed), and number of samples outside.
    frame : array of shape (12, D), optional
        INOUT. [E23] Shift, unit and activity of each feature: a sample is (row − shift)·unit, or 0 where a feature is
        not active. Behind them the usual value (or NaN) and the clip; then how many values were summed, how many of
        them were not the usual one, or beyond the clip, and the sum of the latter; then the sums of the first, second
        and fourth power. Values beyond the clip are left out of these where a feature has the activity 1, else clipped.
        Rows that count less than 1e-8 by [E20] are not summed.
    turn : Turn, default=Turn(0, 1, 1)
        Which steps are summed in the frame.
    """

    rows: Rows
    batch_size: int = 1
    factor: float = 1.0
    gaps: bool = False
    shares: npt.NDArray[np.float64] | None = None
    typical_loss: npt.NDArray[np.float64] | None = None
    frame: Floats | None = None
    turn: Turn = Turn()


class Steps(NamedTuple):
    """Report of S steps.

    Attributes
    ----------
    losses : array of shape (S,)
        Mean objective of each step.
    max_components : array of shape (S,)
        Mean max-component value of each step.
    wins : array of shape (K,)
        Samples that each component has won.
    received : array of shape (K,)
        Weight that each component has received.
    terms_read : array of shape (1,)
        Terms of distances that were computed; for full and low-rank covariances only with batches of one sample.
    """

    losses: npt.NDArray[np.float64]
    max_components: npt.NDArray[np.float64]
    wins: npt.NDArray[np.int64]
    received: npt.NDArray[np.float64]
    terms_read: npt.NDArray[np.int64]


class SGDStep(NamedTuple):
    """Settings of gradient steps. ``scan_all`` turns early abandoning off, which changes only the time."""

    rate: float
    scale_bounds: tuple[float, float]
    scan_all: bool = False


class NaturalStep(NamedTuple):
    """Settings of natural-gradient steps.

    ``hold_scales`` moves means only, and with a prior also the variances. ``soft`` shares samples out by
    responsibilities ([E25]) once nothing reaches a neighbour.
    """

    growth: float
    count_max: float
    scale_bounds: tuple[float, float]
    hold_scales: bool = False
    scan_all: bool = False
    soft: bool = False


class EMStep(NamedTuple):
    """Settings of stochastic-EM steps: step t has the rate ``max(rate_min, rate * (t + 1) ** -exponent)``.

    A ``rate`` of 0 stands for 1 / (t + 1), a plain mean. ``accumulate`` moves moments and leaves the model as it is.
    """

    rate: float
    exponent: float
    rate_min: float
    first_step: int
    scale_bounds: tuple[float, float]
    accumulate: bool = False


class AnswerStep(NamedTuple):
    """[E28] Settings of the model that answers.

    Growth of counts, samples from which a component's own variances tell more than those of all, and samples that a
    mean counts like at least.
    """

    growth: float
    pooled: float
    fewest: float
    scale_bounds: tuple[float, float]


class Tally(NamedTuple):
    """What the control of a training keeps of single steps: INOUT level (5,), above (4,) and wins (K,).

    See ``smooth_losses`` and ``sum_above``; the other fields are settings of the former.
    """

    level: npt.NDArray[np.float64]
    above: npt.NDArray[np.float64]
    wins: npt.NDArray[np.int64]
    period: float
    opening: float
    robust: bool
    farthest: float


class Scores(NamedTuple):
    """Scores of N rows: exact log-likelihood, max-component value and winner, each (N,)."""

    log_likelihood: npt.NDArray[np.float64]
    max_component: npt.NDArray[np.float64]
    winner: npt.NDArray[np.int64]


def smooth_losses(
    state: npt.NDArray[np.float64], report: tuple[npt.ArrayLike, npt.ArrayLike], batch_size: float, *settings: Any
) -> None:
    """[E11] Smooth losses and max-component values of consecutive steps over time.

    INOUT state (5,): samples, loss, max_component, variance, baseline; NaN while unknown. IN report: losses and
    max-component values. Settings: period, opening, robust, farthest; see ``core.annealing.Smoothing``.
    """
    losses, tops = report
    _native.smooth_losses(
        state, np.ascontiguousarray(losses, np.float64), np.ascontiguousarray(tops, np.float64), batch_size, *settings
    )


def sum_above(state: npt.NDArray[np.float64], losses: npt.ArrayLike) -> None:
    """[E22] Sum losses of consecutive steps, as far as they are above a floor.

    INOUT state (4,): floor (NaN while nothing is summed), steps, sum, and sum of squares. IN losses.
    """
    _native.sum_above(state, np.ascontiguousarray(losses, dtype=np.float64))


def first_unfit_row(x: Floats, limit: float, gaps: bool = False) -> int | None:
    """Find the first row with a magnitude beyond ``limit``, or with NaN unless ``gaps`` allows it.  IN x (N, D)."""
    row = _native.first_unfit_row(adjacent(x, x.dtype), limit, gaps)
    return None if row < 0 else row


def copy_rows(values: list[bytes], out: npt.NDArray[np.uint8]) -> None:
    """Copy one value into each row. Unlike ``b"".join``, it lets other threads run.

    IN values, each as long as a row; OUT out (N, width).
    """
    _native.copy_rows(values, out)


def to_responsibilities(scores: npt.NDArray[np.float64]) -> None:
    """Turn scores into the probabilities of components, row by row.  INOUT scores (N, K).

    >>> scores = np.log([[0.1, 0.3]])
    >>> to_responsibilities(scores)
    >>> scores.round(3)
    array([[0.25, 0.75]])
    """
    _native.to_responsibilities(scores)


def rows_of_columns(columns: list[npt.NDArray[Any]]) -> npt.NDArray[Any]:
    """Return columns of numbers (N,) as rows (N, D), in a type that holds all.  IN columns.

    >>> rows_of_columns([np.array([1.0, 2.0]), np.array([3.0, 4.0])])
    array([[1., 3.],
           [2., 4.]])
    """
    dtype = np.result_type(*{column.dtype for column in columns})
    if dtype not in (np.float32, np.float64):
        return np.stack(columns, axis=1)
    rows = np.empty((len(columns[0]), len(columns)), dtype)
    _native.copy_columns([np.ascontiguousarray(column, dtype) for column in columns], rows)
    return rows
