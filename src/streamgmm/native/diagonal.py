"""The kernel of mixtures with diagonal covariances: steps of the rules, scores, and merging of replicas."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.native import (
    AnswerStep,
    EMStep,
    Filters,
    Floats,
    NaturalStep,
    Samples,
    Scores,
    SGDStep,
    Steps,
    Tally,
    _native,
)
from streamgmm.native.batches import batches, rows_of, samples_type

__all__ = [
    "Model",
    "Moments",
    "Pair",
    "answer",
    "component_scores",
    "em_steps",
    "merge_rows",
    "model",
    "natural_rows",
    "natural_steps",
    "refresh_log_dets",
    "rescale",
    "score",
    "score_row",
    "sgd_steps",
]

MOST_AT_ONCE = 4096  # steps that are reported at once; a period may be longer

Model = _native.DiagonalModel32 | _native.DiagonalModel64
"""Parameters in the layout of the kernel. Read-only properties: ``components``, ``n_features`` and ``dtype``."""

# mypy cannot tell that these have the type of the model
_MOMENTS: dict[type, Any] = {
    _native.DiagonalModel32: _native.Moments32,
    _native.DiagonalModel64: _native.Moments64,
}


_ROW_STEPS: dict[type, Any] = {
    _native.DiagonalModel32: _native.RowSteps32,
    _native.DiagonalModel64: _native.RowSteps64,
}


class Moments(NamedTuple):
    """Running moments of the components: means and variances (as ``padded`` makes them), and masses (K,).

    The natural rule needs the model's own means here, and its counts as masses. Stochastic EM needs the model's own
    means unless it accumulates. [E24] ``prior`` (4, stride) is the variance that a prior expects, its weight in
    samples, what is added to a variance, and the smallest variance; ``evidence`` (K,) is the weight that each component
    has received in all. Give both or neither.
    """

    means: Floats
    variances: Floats
    masses: npt.NDArray[np.float64]
    evidence: npt.NDArray[np.float64] | None = None
    prior: Floats | None = None


class Pair(NamedTuple):
    """Two arrays (as ``padded`` makes them) that are merged together: means, and variances or scales."""

    means: Floats
    second: Floats


def model(
    means: Floats,
    scales: Floats,
    logits: npt.NDArray[np.float64],
    log_dets: npt.NDArray[np.float64],
    n_features: int,
) -> Model:
    """Make a model that lives in the given arrays and keeps them alive.

    INOUT means and scales, made by ``padded`` with fillers 0 and 1; INOUT logits (K,); INOUT log_dets (K,), which are
    Σ_d log s_kd: call ``refresh_log_dets`` after writing scales.

    >>> from streamgmm.native import padded
    >>> dtype = np.dtype(np.float32)
    >>> log_dets = np.empty(1)
    >>> m = model(padded([[0, 1]], dtype, 0), padded([[1, 2]], dtype, 1), np.zeros(1), log_dets, 2)
    >>> refresh_log_dets(m)
    >>> m.components, m.n_features, m.dtype, log_dets.round(3).tolist()
    (1, 2, dtype('float32'), [0.693])
    """
    make: Any = _native.DiagonalModel32 if means.dtype == np.float32 else _native.DiagonalModel64
    return make(means, scales, logits, log_dets, n_features)


def sgd_steps(model: Model, samples: Samples, filters: Filters, step: SGDStep) -> Steps:
    """[E6]-[E9] Take gradient steps.  INOUT model, IN samples, IN filters of the grid."""
    rows, report = batches(model, samples)
    settings = _native.SGDStep(step.rate, *step.scale_bounds, step.scan_all)
    model.sgd_steps(rows, _native.Filter(*filters), settings, _native.Report(*report, samples.typical_loss))
    return report


def natural_steps(
    model: Model,
    moments: Moments,
    samples: Samples,
    filters: Filters,
    step: NaturalStep,
    received: npt.NDArray[np.float64],
) -> Steps:
    """[E13]-[E15] Take natural-gradient steps; logits stay.

    INOUT model, INOUT moments, IN samples, IN filters of the grid, INOUT received (K,). Weight is added to
    ``received`` sample by sample: a sum of sums would depend on how the stream is cut into chunks.
    """
    rows, report = batches(model, samples, received)
    growth, count_max, (scale_min, scale_max), hold_scales, scan_all, soft = step
    model.natural_steps(
        _MOMENTS[type(model)](*moments),
        rows,
        _native.Filter(*filters),
        _native.NaturalStep(growth, count_max, scale_min, scale_max, hold_scales, scan_all, soft),
        _native.Report(*report, samples.typical_loss),
    )
    return report


def natural_rows(
    model: Model,
    moments: Moments,
    samples: Samples,
    filters: Filters,
    step: NaturalStep,
    received: npt.NDArray[np.float64],
    tally: Tally,
    limit: float,
) -> Any:
    """Prepare natural-gradient steps of one row each. They live in the given arrays as long as nothing else changes.

    As ``natural_steps``, for ``samples`` without rows, and INOUT tally. ``learn(row)`` of the result takes one row
    (1, D) within ±limit. It returns 1 if a check is due, else 0, or -1 if it has not learned the row, because it is not
    plain: of another type or shape, with numbers that cannot be learned, or with gaps alone. ``learn_rows(rows,
    first)`` learns rows (N, D) that are known to be plain, from number ``first`` on, at most up to the next check; it
    returns the number of the next row, and whether a check is due. It abandons nothing early, which pays where there
    are many features. ``adapt(growth, count_max, hold_scales)`` changes what a check may change.
    """
    rows, _ = batches(model, samples, received)
    growth, count_max, (scale_min, scale_max), hold_scales, scan_all, soft = step
    level, above, wins, period, opening, robust, farthest = tally
    at_once = int(min(period, MOST_AT_ONCE))
    losses, max_components, terms_read = np.empty(at_once), np.empty(at_once), np.zeros(1, np.int64)
    return _ROW_STEPS[type(model)](
        model,
        _MOMENTS[type(model)](*moments),
        rows,
        _native.Filter(*filters),
        _native.NaturalStep(growth, count_max, scale_min, scale_max, hold_scales, scan_all, soft),
        _native.Report(losses, max_components, wins, received, terms_read, samples.typical_loss),
        _native.Tally(level, above, period, opening, robust, farthest),
        limit,
    )


def answer(model: Model, moments: Moments, frame: Floats, step: AnswerStep, out: Model) -> None:
    """[E28] Compute the model that answers, in the units of the rows.

    IN model, IN moments with a prior, IN frame as in `Samples`; OUT out, a model of the same shape.
    """
    native: Any = model  # mypy cannot tell that all have the type of the model
    growth, pooled, fewest, (scale_min, scale_max) = step
    settings = _native.AnswerStep(growth, pooled, fewest, scale_min, scale_max)
    native.answer(_MOMENTS[type(model)](*moments), frame, settings, out)


def em_steps(model: Model, moments: Moments, samples: Samples, step: EMStep) -> Steps:
    """[E16] [E17] Take stochastic-EM steps.  INOUT model, INOUT moments, IN samples."""
    rows, report = batches(model, samples)
    rate, exponent, rate_min, first_step, (scale_min, scale_max), accumulate = step
    settings = _native.EMStep(rate, exponent, rate_min, first_step, scale_min, scale_max, accumulate)
    state = _MOMENTS[type(model)](*moments)
    model.em_steps(state, rows, settings, _native.Report(*report, samples.typical_loss))
    return report


def score(model: Model, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
    """[E3] [E4] Score rows; the score of a row does not depend on the other rows.

    IN model, IN x (N, D); ``factor`` multiplies bytes. [E21] A row with NaN is scored on the features that it has.
    """
    rows = rows_of(model, x)
    out = Scores(np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), np.int64))
    model.score(samples_type(model)(rows, factor, 1, True, None, None), None, *out)
    return out


def score_row(model: Model, row: Floats, limit: float, gaps: bool) -> tuple[float, float, int] | None:
    """Score one row (1, D) like ``score``; None if it is not plain, see ``natural_rows``.  IN model, IN row."""
    native: Any = model  # mypy cannot tell that the row has the type of the model
    found: tuple[float, float, int] | None = native.score_row(row, limit, gaps)
    return found


def component_scores(model: Model, x: npt.ArrayLike, factor: float = 1.0) -> npt.NDArray[np.float64]:
    """[E2] Compute log π_k + log N_k(x), shape (N, K).  IN model, IN x (N, D); ``factor`` multiplies bytes."""
    rows = rows_of(model, x)
    out = np.empty((len(rows), model.components))
    model.score(samples_type(model)(rows, factor, 1, True, None, None), out, None, None, None)
    return out


def merge_rows(
    out: Pair,
    start: Pair,
    replicas: list[Pair],
    shares: npt.NDArray[np.float64],
    rows: range,
    *,
    variance_max: float | None = None,
) -> None:
    """Move components ``rows`` of ``start`` by shares (K, R) of the change of each of R replicas.

    OUT out, IN start, IN replicas, IN shares. With ``variance_max`` the second array holds variances, which are merged
    about the means; otherwise it is merged like the means.
    """
    make: Any = _native.Pair32 if out.means.dtype == np.float32 else _native.Pair64
    pairs = [make(*replica) for replica in replicas]
    merge: Any = _native.merge_rows  # mypy cannot tell that all pairs have one type
    merge(make(*out), make(*start), pairs, np.ascontiguousarray(shares), variance_max, rows.start, rows.stop)


def rescale(model: Model, moments: Moments, scale_bounds: tuple[float, float], rows: range) -> None:
    """[E15] [E24] Compute scales of components ``rows`` from their moments.  INOUT model, IN moments."""
    native: Any = model  # mypy cannot tell that the moments have the type of the model
    native.rescale(_MOMENTS[type(model)](*moments), *scale_bounds, rows.start, rows.stop)


def refresh_log_dets(model: Model, rows: range | None = None) -> None:
    """Compute ``log_dets`` from the scales, of components ``rows`` or of all.  INOUT model."""
    rows = range(model.components) if rows is None else rows
    model.refresh_log_dets(rows.start, rows.stop)
