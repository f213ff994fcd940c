"""
Loops over samples, components and features. Call them through streamgmm.native, which checks arguments.
"""

from collections.abc import Sequence
from typing import Annotated, overload

import numpy
import numpy.dtypes
from numpy.typing import NDArray


class Filter:
    """The two factors of a smoothing matrix."""

    def __init__(self, along_rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], along_columns: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> None: ...

class Report:
    """Arrays into which steps report."""

    def __init__(self, losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], terms_read: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], typical_loss: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

class Samples32:
    """Whole batches of consecutive rows."""

    def __init__(self, rows: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, frame: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None, first: int = 0, apart: int = 1, every: int = 1) -> None: ...

@overload
def first_unfit_row(x: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], limit: float, gaps: bool) -> int: ...

@overload
def first_unfit_row(x: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], limit: float, gaps: bool) -> int:
    """
    Index of the first row with a magnitude beyond the limit, or with NaN unless gaps are allowed; else -1.
    """

@overload
def copy_columns(columns: list, out: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def copy_columns(columns: list, out: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

@overload
def read_all(values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], times: int) -> float: ...

@overload
def read_all(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], times: int) -> float:
    """For benchmarks: read an array."""

@overload
def rewrite_all(values: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], times: int) -> None: ...

@overload
def rewrite_all(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], times: int) -> None:
    """For benchmarks: read and write an array."""

class Samples64:
    """Whole batches of consecutive rows."""

    def __init__(self, rows: Annotated[NDArray, dict(shape=(None, None), device='cpu', writable=False)], factor: float, batch_size: int, gaps: bool, shares: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, frame: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, first: int = 0, apart: int = 1, every: int = 1) -> None: ...

class SGDStep:
    """Settings of gradient steps."""

    def __init__(self, rate: float, scale_min: float, scale_max: float, scan_all: bool) -> None: ...

class NaturalStep:
    """Settings of natural-gradient steps."""

    def __init__(self, growth: float, count_max: float, scale_min: float, scale_max: float, hold_scales: bool, scan_all: bool, soft: bool) -> None: ...

class AnswerStep:
    """Settings of answers in the units of the rows."""

    def __init__(self, growth: float, pooled: float, fewest: float, scale_min: float, scale_max: float) -> None: ...

class EMStep:
    """Settings of stochastic-EM steps."""

    def __init__(self, rate: float, exponent: float, rate_min: float, first_step: int, scale_min: float, scale_max: float, accumulate: bool) -> None: ...

class DiagonalModel32:
    """Parameters of a diagonal mixture, in the layout of the loops."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], n_features: int) -> None: ...

    @property
    def n_features(self) -> int: ...

    @property
    def components(self) -> int: ...

    def sgd_steps(self, samples: Samples32, filter: Filter, step: SGDStep, report: Report) -> None: ...

    def natural_steps(self, moments: Moments32, samples: Samples32, filter: Filter, step: NaturalStep, report: Report) -> None: ...

    def em_steps(self, moments: Moments32, samples: Samples32, step: EMStep, report: Report) -> None: ...

    def score(self, samples: Samples32, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

    @overload
    def score_row(self, row: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], limit: float, gaps: bool) -> tuple[float, float, int] | None: ...

    @overload
    def score_row(self, row: object, limit: float, gaps: bool) -> tuple[float, float, int] | None:
        """Anything else is not plain."""

    def answer(self, moments: Moments32, frame: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)], step: AnswerStep, out: DiagonalModel32) -> None: ...

    def refresh_log_dets(self, first: int, last: int) -> None: ...

    def rescale(self, moments: Moments32, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

    dtype: numpy.dtypes.Float32DType = ...

class Moments32:
    """Running moments of every component."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], evidence: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, prior: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None) -> None: ...

class Pair32:
    """Two arrays to merge: means, and variances or scales."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], second: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

class RowSteps32:
    """Natural-gradient steps of one row each."""

    def __init__(self, model: DiagonalModel32, moments: Moments32, samples: Samples32, filter: Filter, step: NaturalStep, report: Report, tally: Tally, limit: float) -> None: ...

    def adapt(self, growth: float, count_max: float, hold_scales: bool) -> None: ...

    def learn_rows(self, rows: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)], first: int) -> tuple[int, bool]: ...

    @overload
    def learn(self, row: Annotated[NDArray[numpy.float32], dict(shape=(None, None), device='cpu', writable=False)]) -> int: ...

    @overload
    def learn(self, row: object) -> int:
        """Anything else is not plain."""

@overload
def merge_rows(out: Pair32, start: Pair32, replicas: Sequence[Pair32], shares: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], variance_max: float | None, first: int, last: int) -> None: ...

@overload
def merge_rows(out: Pair64, start: Pair64, replicas: Sequence[Pair64], shares: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], variance_max: float | None, first: int, last: int) -> None: ...

class DiagonalModel64:
    """Parameters of a diagonal mixture, in the layout of the loops."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], n_features: int) -> None: ...

    @property
    def n_features(self) -> int: ...

    @property
    def components(self) -> int: ...

    def sgd_steps(self, samples: Samples64, filter: Filter, step: SGDStep, report: Report) -> None: ...

    def natural_steps(self, moments: Moments64, samples: Samples64, filter: Filter, step: NaturalStep, report: Report) -> None: ...

    def em_steps(self, moments: Moments64, samples: Samples64, step: EMStep, report: Report) -> None: ...

    def score(self, samples: Samples64, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

    @overload
    def score_row(self, row: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], limit: float, gaps: bool) -> tuple[float, float, int] | None: ...

    @overload
    def score_row(self, row: object, limit: float, gaps: bool) -> tuple[float, float, int] | None:
        """Anything else is not plain."""

    def answer(self, moments: Moments64, frame: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu', writable=False)], step: AnswerStep, out: DiagonalModel64) -> None: ...

    def refresh_log_dets(self, first: int, last: int) -> None: ...

    def rescale(self, moments: Moments64, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

    dtype: numpy.dtypes.Float64DType = ...

class Moments64:
    """Running moments of every component."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], evidence: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, prior: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None) -> None: ...

class Pair64:
    """Two arrays to merge: means, and variances or scales."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], second: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

class RowSteps64:
    """Natural-gradient steps of one row each."""

    def __init__(self, model: DiagonalModel64, moments: Moments64, samples: Samples64, filter: Filter, step: NaturalStep, report: Report, tally: Tally, limit: float) -> None: ...

    def adapt(self, growth: float, count_max: float, hold_scales: bool) -> None: ...

    def learn_rows(self, rows: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)], first: int) -> tuple[int, bool]: ...

    @overload
    def learn(self, row: Annotated[NDArray[numpy.float64], dict(shape=(None, None), device='cpu', writable=False)]) -> int: ...

    @overload
    def learn(self, row: object) -> int:
        """Anything else is not plain."""

class FullModel32:
    """Parameters of a mixture with full covariances."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def sgd_steps(self, samples: Samples32, filter: Filter, step: SGDStep, report: Report) -> None: ...

    @property
    def n_features(self) -> int: ...

    @property
    def components(self) -> int: ...

    def natural_steps(self, moments: FullMoments32, samples: Samples32, filter: Filter, step: NaturalStep, report: Report) -> None: ...

    def em_steps(self, moments: FullMoments32, samples: Samples32, step: EMStep, report: Report) -> None: ...

    def score(self, samples: Samples32, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

    def refresh(self, first: int, last: int) -> None: ...

    def settle(self, moments: FullMoments32, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

    dtype: numpy.dtypes.Float32DType = ...

class FullMoments32:
    """Running means and covariances of every component."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], covariances: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], pending: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], evidence: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, prior: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None) -> None: ...

class FullModel64:
    """Parameters of a mixture with full covariances."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], factors: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def sgd_steps(self, samples: Samples64, filter: Filter, step: SGDStep, report: Report) -> None: ...

    @property
    def n_features(self) -> int: ...

    @property
    def components(self) -> int: ...

    def natural_steps(self, moments: FullMoments64, samples: Samples64, filter: Filter, step: NaturalStep, report: Report) -> None: ...

    def em_steps(self, moments: FullMoments64, samples: Samples64, step: EMStep, report: Report) -> None: ...

    def score(self, samples: Samples64, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

    def refresh(self, first: int, last: int) -> None: ...

    def settle(self, moments: FullMoments64, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

    dtype: numpy.dtypes.Float64DType = ...

class FullMoments64:
    """Running means and covariances of every component."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], covariances: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], pending: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], evidence: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, prior: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None) -> None: ...

class LowRankModel32:
    """Parameters of a mixture of factor analysers."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], factors: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], projections: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], spreads: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], gains: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], n_features: int) -> None: ...

    @property
    def n_features(self) -> int: ...

    @property
    def components(self) -> int: ...

    def natural_steps(self, moments: LowRankMoments32, samples: Samples32, filter: Filter, step: NaturalStep, report: Report) -> None: ...

    def em_steps(self, moments: LowRankMoments32, samples: Samples32, step: EMStep, report: Report) -> None: ...

    def score(self, samples: Samples32, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

    def refresh(self, first: int, last: int) -> None: ...

    def settle(self, moments: LowRankMoments32, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

    dtype: numpy.dtypes.Float32DType = ...

class LowRankMoments32:
    """Running statistics of every component."""

    def __init__(self, means: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], cross: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], inner: Annotated[NDArray[numpy.float32], dict(shape=(None, None, None), order='C', device='cpu')], shifts: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], pending: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], evidence: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, prior: Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu')] | None) -> None: ...

class LowRankModel64:
    """Parameters of a mixture of factor analysers."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], scales: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], factors: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], projections: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], spreads: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], gains: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], logits: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], log_dets: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], n_features: int) -> None: ...

    @property
    def n_features(self) -> int: ...

    @property
    def components(self) -> int: ...

    def natural_steps(self, moments: LowRankMoments64, samples: Samples64, filter: Filter, step: NaturalStep, report: Report) -> None: ...

    def em_steps(self, moments: LowRankMoments64, samples: Samples64, step: EMStep, report: Report) -> None: ...

    def score(self, samples: Samples64, scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None, log_likelihood: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, max_component: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, winner: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')] | None) -> None: ...

    def refresh(self, first: int, last: int) -> None: ...

    def settle(self, moments: LowRankMoments64, scale_min: float, scale_max: float, first: int, last: int) -> None: ...

    dtype: numpy.dtypes.Float64DType = ...

class LowRankMoments64:
    """Running statistics of every component."""

    def __init__(self, means: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], variances: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], cross: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], inner: Annotated[NDArray[numpy.float64], dict(shape=(None, None, None), order='C', device='cpu')], shifts: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')], masses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], pending: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], evidence: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')] | None, prior: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')] | None) -> None: ...

def smooth_losses(state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], max_components: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], batch_size: float, period: float, opening: float, robust: bool, farthest: float) -> None: ...

def sum_above(state: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], losses: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

def average_usage(usage: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], wins: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], memory: float, live: float) -> int: ...

def move_weights(weights: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], received: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], since: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], total: float, rate: float) -> None: ...

def upper_median(values: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')]) -> float: ...

class Tally:
    """What the control of a training keeps of losses."""

    def __init__(self, level: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], above: Annotated[NDArray[numpy.float64], dict(shape=(None,), order='C', device='cpu')], period: float, opening: float, robust: bool, farthest: float) -> None: ...

def copy_rows(values: list, out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def to_responsibilities(scores: Annotated[NDArray[numpy.float64], dict(shape=(None, None), order='C', device='cpu')]) -> None: ...

def widths() -> list[str]:
    """Vector widths that this machine can run, narrowest first."""

def width() -> str:
    """The vector width in use."""

def use_width(name: str) -> None:
    """Choose a vector width; for tests."""
