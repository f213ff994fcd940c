"""
Loops over samples, components and features. Call them through streamgmm.kernels, which checks arguments.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
from numpy.typing import NDArray


@overload
def refresh_log_dets(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], features: int, first: int, last: int) -> None: ...

@overload
def refresh_log_dets(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], features: int, first: int, last: int) -> None: ...

@overload
def sgd_steps(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, along_rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], along_columns: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rate: float, scale_min: float, scale_max: float, scan_all: bool, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], looked: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], usual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def sgd_steps(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, along_rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], along_columns: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], rate: float, scale_min: float, scale_max: float, scan_all: bool, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], looked: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], usual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def natural_steps(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, variances: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], along_rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], along_columns: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], growth: float, count_max: float, scale_min: float, scale_max: float, hold_scales: bool, scan_all: bool, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], looked: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], usual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def natural_steps(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, variances: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], counts: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], along_rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], along_columns: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], growth: float, count_max: float, scale_min: float, scale_max: float, hold_scales: bool, scan_all: bool, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], looked: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], usual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def em_steps(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, moment_means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], rate: float, exponent: float, rate_min: float, first_step: int, scale_min: float, scale_max: float, accumulate: bool, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], looked: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], usual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def em_steps(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, moment_means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], rate: float, exponent: float, rate_min: float, first_step: int, scale_min: float, scale_max: float, accumulate: bool, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], looked: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], usual: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def score(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def score(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], x: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

@overload
def merge_rows(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], second: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], start_means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], start_second: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], replica_means: Sequence[Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]], replica_second: Sequence[Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]], shares: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], moments: bool, most: float, first: int, last: int) -> None: ...

@overload
def merge_rows(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], second: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], start_means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], start_second: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], replica_means: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]], replica_second: Sequence[Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]], shares: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], moments: bool, most: float, first: int, last: int) -> None: ...

@overload
def rescale(means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], features: int, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

@overload
def rescale(means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], features: int, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

@overload
def read_all(values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], times: int) -> float: ...

@overload
def read_all(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], times: int) -> float:
    """Yardstick: reads an array so many times."""

@overload
def rewrite_all(values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], times: int) -> None: ...

@overload
def rewrite_all(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], times: int) -> None:
    """Yardstick: reads and writes an array so many times."""

@overload
def first_unfit_row(x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], limit: float, gaps: bool) -> int: ...

@overload
def first_unfit_row(x: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], limit: float, gaps: bool) -> int: ...

def join(values: list, out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def smooth_losses(state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], batch_size: float, period: float, opening: float, robust: bool, farthest: float) -> None: ...

def widths() -> list[str]:
    """Vector widths that this machine can run, narrowest first."""

def width() -> str:
    """The vector width in use."""

def use_width(name: str) -> None:
    """Chooses a vector width; meant for tests."""
