"""Native loops behind typed functions that check shape, dtype and layout.

Only this package writes into its arguments; each one is tagged IN, OUT or INOUT.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from streamgmm.grid import Filters
from streamgmm.kernels import _native
from streamgmm.kernels._native import use_width, width, widths

__all__ = [
    "Pair",
    "Parameters",
    "Reading",
    "Rows",
    "Scores",
    "Steps",
    "aligned_copy",
    "component_scores",
    "em_steps",
    "first_unfit_row",
    "join",
    "merge_rows",
    "natural_steps",
    "padded",
    "rescale",
    "score",
    "sgd_steps",
    "smooth_losses",
    "use_width",
    "width",
    "widths",
]

Floats = npt.NDArray[np.floating[Any]]
Rows = npt.NDArray[Any]
"""Samples (N, D): floats, or bytes."""
PACK_BYTES = 128
_steps: Any = _native  # its overloads cannot be checked through groups of arguments


def padded(values: npt.ArrayLike, dtype: np.dtype[Any], filler: float) -> Floats:
    """Rows (K, D) in the layout of the loops: (K, stride), aligned, with ``filler`` in the padding."""
    rows = np.asarray(values, dtype=dtype)
    lanes = PACK_BYTES // dtype.itemsize
    stride = -(-rows.shape[1] // lanes) * lanes
    buffer: Floats = _aligned((len(rows), stride), dtype)
    buffer[:] = filler
    buffer[:, : rows.shape[1]] = rows
    return buffer


def aligned_copy(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same numbers at an address that suits the loops: vectors that straddle cache lines halve their speed."""
    copy = _aligned(values.shape, values.dtype)
    copy[...] = values
    return copy


def _aligned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    size = int(np.prod(shape)) * dtype.itemsize
    room = np.empty(size + PACK_BYTES, np.uint8)
    skip = -room.ctypes.data % PACK_BYTES
    return room[skip : skip + size].view(dtype).reshape(shape)


class Parameters:
    """Means, scales and logits of a diagonal mixture in the layout that the loops want.

    Rows are padded to whole packs and aligned; means and scales are float32 or float64, logits always float64.
    ``log_dets`` is Σ_d log s_kd: call ``refresh`` after writing scales by hand.

    >>> p = Parameters([[0.0, 1.0]], [[1.0, 2.0]], [0.0])
    >>> p.means.shape, p.means_buffer.shape, p.log_dets.round(3).tolist()
    ((1, 2), (1, 16), [0.693])
    """

    def __init__(self, means: npt.ArrayLike, scales: npt.ArrayLike, logits: npt.ArrayLike) -> None:
        means = np.asarray(means)
        dtype = np.dtype(np.float32 if means.dtype == np.float32 else np.float64)
        if means.ndim != 2 or 0 in means.shape:
            raise ValueError(f"means have shape {means.shape}; expected (components, features), both at least 1.")
        if np.shape(scales) != means.shape or np.shape(logits) != means.shape[:1]:
            raise ValueError(
                f"scales have shape {np.shape(scales)} and logits {np.shape(logits)}; "
                f"means of shape {means.shape} want {means.shape} and {means.shape[:1]}."
            )
        self.n_features: int = means.shape[1]
        self.means_buffer = padded(means, dtype, 0)
        self.scales_buffer = padded(scales, dtype, 1)
        self.logits = np.array(logits, dtype=np.float64)
        self.log_dets = np.empty(len(means))
        self.refresh()

    @property
    def means(self) -> Floats:
        """(K, D) view."""
        return self.means_buffer[:, : self.n_features]

    @property
    def scales(self) -> Floats:
        """(K, D) view."""
        return self.scales_buffer[:, : self.n_features]

    @property
    def weights(self) -> npt.NDArray[np.float64]:
        """[E1] softmax of the logits, (K,)."""
        e = np.exp(self.logits - self.logits.max())
        return e / e.sum()

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.means_buffer.dtype

    def __len__(self) -> int:
        return len(self.logits)

    def refresh(self, rows: range | None = None) -> None:
        """Computes ``log_dets`` anew from the scales, of all components or of some."""
        rows = range(len(self)) if rows is None else rows
        _native.refresh_log_dets(*self.native, self.n_features, rows.start, rows.stop)

    def copy(self) -> Parameters:
        return Parameters(self.means, self.scales, self.logits)

    @classmethod
    def over(cls, arrays: tuple[Any, Any, Any, Any], n_features: int) -> Parameters:
        """Parameters that live in the given arrays, which are like those of ``native``."""
        self = cls.__new__(cls)
        self.means_buffer, self.scales_buffer, self.logits, self.log_dets = arrays
        self.n_features = n_features
        return self

    def __reduce__(self) -> tuple[type[Parameters], tuple[Floats, Floats, Floats]]:
        return Parameters, (self.means.copy(), self.scales.copy(), self.logits)

    @property
    def native(self) -> tuple[Any, Any, Any, Any]:
        """The four arrays, as the native functions take them first."""
        return self.means_buffer, self.scales_buffer, self.logits, self.log_dets


class Steps(NamedTuple):
    """What steps report.

    Of each step the mean objective and the mean L̂; of each component samples won and weight received; of all of them
    the terms of distances that were looked at (batch size 1), one number.
    """

    losses: npt.NDArray[np.float64]
    max_components: npt.NDArray[np.float64]
    wins: npt.NDArray[np.int64]
    received: npt.NDArray[np.float64]
    looked: npt.NDArray[np.int64]


def _samples(x: npt.ArrayLike, parameters: Parameters) -> Floats:
    rows = np.asarray(x)
    if rows.ndim != 2 or rows.shape[1] != parameters.n_features:
        raise ValueError(f"samples have shape {rows.shape}; expected (samples, {parameters.n_features}).")
    return _side_by_side(rows, rows.dtype if rows.dtype == np.uint8 else parameters.dtype)


def _side_by_side(rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> Floats:
    """Rows of ``dtype`` whose features are adjacent; rows themselves may be any distance apart."""
    rows = rows.astype(dtype, copy=False)
    side_by_side = rows.strides[1] == rows.itemsize and rows.strides[0] > 0 and rows.strides[0] % rows.itemsize == 0
    if rows.flags.aligned and (rows.flags.c_contiguous or side_by_side):
        return rows
    return np.ascontiguousarray(rows)


class Reading(TypedDict, total=False):
    """How the rows of steps are read.

    batch_size : samples a step. factor : bytes are read as they are, times this. gaps : NaN marks features that a row
    does not have, so that it says nothing about them. shares (N,) : how much each row counts, within (0, 1].
    usual (3,) : INOUT number of samples, level and deviation of losses, so that [E20] strange samples count less.
    """

    batch_size: int
    factor: float
    gaps: bool
    shares: npt.NDArray[np.float64] | None
    usual: npt.NDArray[np.float64] | None


def sgd_steps(
    parameters: Parameters,
    x: npt.ArrayLike,
    filters: Filters,
    *,
    rate: float,
    scale_bounds: tuple[float, float],
    scan_all: bool = False,
    **reading: Unpack[Reading],
) -> Steps:
    """[E6]-[E9] gradient steps over whole batches of consecutive rows.

    INOUT parameters, IN x (N, D) with N a multiple of the batch size, IN filters of the component grid. ``scan_all``
    scores every component in full for every sample, which changes nothing but the time.
    """
    read, report, usual = _batches(parameters, x, **reading)
    _steps.sgd_steps(*parameters.native, *read, *filters, rate, *scale_bounds, scan_all, *report, usual)
    return report


def natural_steps(
    parameters: Parameters,
    variances: Floats,
    counts: npt.NDArray[np.float64],
    received: npt.NDArray[np.float64],
    x: npt.ArrayLike,
    filters: Filters,
    *,
    growth: float,
    count_max: float,
    scale_bounds: tuple[float, float],
    hold_scales: bool = False,
    scan_all: bool = False,
    **reading: Unpack[Reading],
) -> Steps:
    """[E13]-[E15] natural-gradient steps over whole batches of consecutive rows; logits stay.

    INOUT parameters, INOUT variances (as ``padded`` makes them), INOUT counts (K,), INOUT received (K,), IN x
    (N, D), IN filters. ``received`` is added to sample by sample: a sum of sums would depend on the chunks.
    """
    read, report, usual = _batches(parameters, x, **reading)
    report = report._replace(received=received)
    settings = (growth, count_max, *scale_bounds, hold_scales, scan_all)
    _steps.natural_steps(*parameters.native, *read, variances, counts, *filters, *settings, *report, usual)
    return report


def em_steps(
    parameters: Parameters,
    means: Floats,
    variances: Floats,
    masses: npt.NDArray[np.float64],
    x: npt.ArrayLike,
    *,
    rate: float,
    exponent: float,
    rate_min: float,
    first_step: int,
    scale_bounds: tuple[float, float],
    accumulate: bool = False,
    **reading: Unpack[Reading],
) -> Steps:
    """[E16] [E17] stochastic-EM steps over whole batches of consecutive rows.

    INOUT parameters, INOUT means and variances (as ``padded`` makes them; ``parameters.means_buffer`` itself unless
    accumulating), INOUT masses (K,), IN x (N, D).
    """
    read, report, usual = _batches(parameters, x, **reading)
    settings = (rate, exponent, rate_min, first_step, *scale_bounds, accumulate)
    _steps.em_steps(*parameters.native, *read, means, variances, masses, *settings, *report, usual)
    return report


def _batches(
    parameters: Parameters,
    x: npt.ArrayLike,
    batch_size: int = 1,
    factor: float = 1.0,
    gaps: bool = False,
    shares: npt.NDArray[np.float64] | None = None,
    usual: npt.NDArray[np.float64] | None = None,
) -> tuple[Any, Any, Any]:
    """What the native functions take of the rows, an empty report, and the usual losses."""
    rows = _samples(x, parameters)
    steps, rest = divmod(len(rows), batch_size)
    if rest:
        raise ValueError(f"{len(rows)} samples are not whole batches of {batch_size}.")
    size = len(parameters)
    report = Steps(np.empty(steps), np.empty(steps), np.zeros(size, np.int64), np.zeros(size), np.zeros(1, np.int64))
    shares = None if shares is None else np.ascontiguousarray(shares, dtype=np.float64)
    return (rows, factor, batch_size, gaps, shares), report, usual


class Scores(NamedTuple):
    """Answers for N rows: exact log-likelihood, max-component value and winner, each (N,)."""

    log_likelihood: npt.NDArray[np.float64]
    max_component: npt.NDArray[np.float64]
    winner: npt.NDArray[np.int64]


def score(parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
    """[E3] [E4] per row; the value for a row does not depend on the rows beside it.

    IN parameters, IN x (N, D); bytes are read as they are, times ``factor``. [E21] a row with NaN is scored on the
    features that it has.
    """
    rows = _samples(x, parameters)
    out = Scores(np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), np.int64))
    _native.score(*parameters.native, rows, factor, None, *out)
    return out


def component_scores(parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> npt.NDArray[np.float64]:
    """[E2] log π_k + log N_k(x), shape (N, K).  IN parameters, IN x (N, D)."""
    rows = _samples(x, parameters)
    out = np.empty((len(rows), len(parameters)))
    _native.score(*parameters.native, rows, factor, out, None, None, None)
    return out


class Pair(NamedTuple):
    """Two arrays in the layout of the loops: means, and variances or scales."""

    means: Floats
    second: Floats


def merge_rows(
    out: Pair,
    start: Pair,
    replicas: list[Pair],
    shares: npt.NDArray[np.float64],
    rows: range,
    *,
    variance_max: float | None = None,
) -> None:
    """Moves components ``rows`` of ``start`` by shares (K, R) of what each replica did to them.

    OUT out, IN start, IN replicas. With ``variance_max`` the second array holds variances, merged about the means.
    """
    firsts, seconds = [r.means for r in replicas], [r.second for r in replicas]
    merge: Any = _native.merge_rows  # its overloads cannot be checked through groups of arguments
    merge(
        *out,
        *start,
        firsts,
        seconds,
        np.ascontiguousarray(shares),
        variance_max is not None,
        variance_max or 0.0,
        rows.start,
        rows.stop,
    )


def rescale(parameters: Parameters, variances: Floats, scale_bounds: tuple[float, float], rows: range) -> None:
    """[E15] scales of components ``rows`` from their variances.  INOUT parameters, IN variances (as ``padded``)."""
    _native.rescale(*parameters.native, variances, parameters.n_features, *scale_bounds, rows.start, rows.stop)


def smooth_losses(state: npt.NDArray[np.float64], report: tuple[npt.ArrayLike, npt.ArrayLike], **settings: Any) -> None:
    """[E11] takes in losses and max-component values of consecutive steps; see ``annealing.observe``.

    INOUT state (5,): samples, loss, max_component, variance, baseline; NaN where nothing is known yet.
    """
    losses, tops = (np.ascontiguousarray(values, dtype=np.float64) for values in report)
    _native.smooth_losses(state, losses, tops, **settings)


def first_unfit_row(x: Floats, limit: float, gaps: bool = False) -> int | None:
    """Number of the first row with a magnitude beyond ``limit``, or a NaN unless ``gaps`` allows it.  IN x (N, D)."""
    row = _native.first_unfit_row(_side_by_side(x, x.dtype), limit, gaps)
    return None if row < 0 else row


def join(values: list[bytes], out: npt.NDArray[np.uint8]) -> None:
    """Puts one value into each row; unlike ``b"".join`` it keeps no other thread waiting.

    IN values, all as long as a row, OUT out (N, width).
    """
    _native.join(values, out)
