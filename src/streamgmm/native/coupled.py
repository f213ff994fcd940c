"""The kernel of mixtures whose covariances couple features: full ones, and those of low rank plus diagonal."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.native import EMStep, Filters, Floats, NaturalStep, Samples, Scores, SGDStep, Steps, _native
from streamgmm.native.batches import batches, rows_of, samples_type

__all__ = [
    "Learned",
    "Model",
    "component_scores",
    "em_steps",
    "full_model",
    "full_moments",
    "low_rank_model",
    "low_rank_moments",
    "natural_steps",
    "refresh",
    "score",
    "settle",
    "sgd_steps",
]

FullModel = _native.FullModel32 | _native.FullModel64
LowRankModel = _native.LowRankModel32 | _native.LowRankModel64
Model = FullModel | LowRankModel
"""Parameters in the layout of the kernel. Read-only properties: ``components``, ``n_features`` and ``dtype``."""
Numbers = npt.NDArray[np.float64]


class Learned(NamedTuple):
    """What every kind learns: masses (K,) and how far statistics have moved since covariances were set, (K,).

    The natural rule needs its counts as masses. [E24] ``evidence`` (K,) and ``prior`` (4, stride) are those of
    ``diagonal.Moments``; give both or neither.
    """

    masses: Numbers
    pending: Floats
    evidence: Numbers | None = None
    prior: Floats | None = None


def full_model(means: Floats, factors: Floats, logits: Numbers, log_dets: Numbers) -> FullModel:
    """Make a model that lives in the given arrays and keeps them alive.

    INOUT means (K, stride) and factors (K, D, stride), made by ``padded`` with filler 0: the precision of a component
    is F'F, and F is lower triangular or has orthogonal rows. INOUT logits and log_dets (K,): call ``refresh`` after
    writing factors.
    """
    make: Any = _native.FullModel32 if means.dtype == np.float32 else _native.FullModel64
    return make(means, factors, logits, log_dets)


def low_rank_model(tensors: dict[str, Floats], logits: Numbers, log_dets: Numbers, n_features: int) -> LowRankModel:
    """Make a model that lives in the given arrays and keeps them alive.

    INOUT tensors: means and scales of the noise (K, stride), factors and projections (K, L, stride), spreads and gains
    (K, L, L). Call ``refresh`` after writing scales, factors or spreads: all others follow from them.
    """
    make: Any = _native.LowRankModel32 if tensors["means"].dtype == np.float32 else _native.LowRankModel64
    names = ("means", "scales", "factors", "projections", "spreads", "gains")
    return make(*(tensors[name] for name in names), logits, log_dets, n_features)


def full_moments(means: Floats, covariances: Floats, learned: Learned) -> Any:
    """Wrap statistics of full components.  INOUT means (K, stride), covariances (K, D, stride), learned."""
    make: Any = _native.FullMoments32 if means.dtype == np.float32 else _native.FullMoments64
    return make(means, covariances, *learned)


def low_rank_moments(means: Floats, moments: dict[str, Floats], learned: Learned) -> Any:
    """Wrap statistics of factor analysers.

    INOUT means (K, stride), learned and moments: variances (K, stride), cross (K, L, stride), inner (K, L, L) and
    shifts (K, L).
    """
    make: Any = _native.LowRankMoments32 if means.dtype == np.float32 else _native.LowRankMoments64
    return make(means, *(moments[name] for name in ("variances", "cross", "inner", "shifts")), *learned)


def sgd_steps(model: FullModel, samples: Samples, filters: Filters, step: SGDStep) -> Steps:
    """[E37] Take gradient steps.  INOUT model, whose factors have orthogonal rows; IN samples, IN filters."""
    rows, report = batches(model, samples)
    settings = _native.SGDStep(step.rate, *step.scale_bounds, step.scan_all)
    model.sgd_steps(rows, _native.Filter(*filters), settings, _native.Report(*report, samples.typical_loss))
    return report


def natural_steps(
    model: Model, moments: Any, samples: Samples, filters: Filters, step: NaturalStep, received: Numbers
) -> Steps:
    """[E13] [E36] [E40] Take natural-gradient steps; logits stay.

    INOUT model, INOUT moments, IN samples, IN filters of the grid, INOUT received (K,).
    """
    rows, report = batches(model, samples, received)
    growth, count_max, (scale_min, scale_max), hold_scales, scan_all, soft = step
    settings = _native.NaturalStep(growth, count_max, scale_min, scale_max, hold_scales, scan_all, soft)
    filled = _native.Report(*report, samples.typical_loss)
    model.natural_steps(moments, rows, _native.Filter(*filters), settings, filled)
    return report


def em_steps(model: Model, moments: Any, samples: Samples, step: EMStep) -> Steps:
    """[E16] [E17] Take stochastic-EM steps.  INOUT model, INOUT moments, IN samples."""
    rows, report = batches(model, samples)
    rate, exponent, rate_min, first_step, (scale_min, scale_max), accumulate = step
    settings = _native.EMStep(rate, exponent, rate_min, first_step, scale_min, scale_max, accumulate)
    model.em_steps(moments, rows, settings, _native.Report(*report, samples.typical_loss))
    return report


def score(model: Model, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
    """[E3] [E4] Score rows; the score of a row does not depend on the other rows.

    IN model, IN x (N, D); ``factor`` multiplies bytes. [E38] A row with NaN is scored on the features that it has.
    """
    rows = rows_of(model, x)
    out = Scores(np.empty(len(rows)), np.empty(len(rows)), np.empty(len(rows), np.int64))
    model.score(samples_type(model)(rows, factor, 1, True, None, None), None, *out)
    return out


def component_scores(model: Model, x: npt.ArrayLike, factor: float = 1.0) -> Numbers:
    """[E2] Compute log π_k + log N_k(x), shape (N, K).  IN model, IN x (N, D); ``factor`` multiplies bytes."""
    rows = rows_of(model, x)
    out = np.empty((len(rows), model.components))
    model.score(samples_type(model)(rows, factor, 1, True, None, None), out, None, None, None)
    return out


def settle(model: Model, moments: Any, scale_bounds: tuple[float, float], rows: range) -> None:
    """[E36] [E41] Set covariances of components ``rows`` from their statistics.  INOUT model, IN moments."""
    model.settle(moments, *scale_bounds, rows.start, rows.stop)


def refresh(model: Model, rows: range | None = None) -> None:
    """Compute what follows from the factors, of components ``rows`` or of all.  INOUT model."""
    rows = range(model.components) if rows is None else rows
    model.refresh(rows.start, rows.stop)
