"""Diagonal covariance: one precision per feature, kept as its square root, the scale."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.base import FAR, SCALES, Covariance
from streamgmm.core.covariance.work import Bounds, Prior, Statistics, Work
from streamgmm.core.parameters import Parameters
from streamgmm.core.rows import LIMITS
from streamgmm.core.state import require_range
from streamgmm.core.tensors import Layout, Tensors, row_blocks
from streamgmm.native import AnswerStep, EMStep, Floats, NaturalStep, Scores, SGDStep, Steps, diagonal, padded
from streamgmm.native.diagonal import Moments, Pair

SINGLE = (1e-18, 1e18)  # scales whose squares, and the inverse of these, fit into float32


@dataclass(frozen=True)
class Diagonal(Covariance):
    """Tensors ``means`` and ``scales``; moments ``variances``: all (K, D)."""

    name: ClassVar[str] = "diag"
    supports_gaps: ClassVar[bool] = True
    bounds_influence: ClassVar[bool] = True
    leaves_out: ClassVar[bool] = True

    # Means of 0 and scales of 1 in the padding add nothing to a distance or a determinant.

    def layout(self, n_features: int) -> dict[str, Layout]:
        return {"means": Layout((n_features,), 0.0), "scales": Layout((n_features,), 1.0)}

    def moment_layout(self, n_features: int) -> dict[str, Layout]:
        return {"variances": Layout((n_features,), 1.0)}

    def native(self, parameters: Parameters) -> Any:
        p = parameters
        return diagonal.model(p.buffers["means"], p.buffers["scales"], p.logits, p.log_dets, p.n_features)

    def refresh(self, parameters: Parameters, rows: range) -> None:
        diagonal.refresh_log_dets(parameters.native, rows)

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        require_range("scales", parameters["scales"], *SCALES)

    def validate_bounds(self, parameters: Parameters, bounds: Bounds) -> None:
        require_range("scales", parameters["scales"], bounds.scale_min / FAR, bounds.scale_max * FAR)

    def validate_moments(self, moments: Tensors, means: Floats) -> None:
        require_range("variances", moments["variances"], 0.0)

    def clip(self, parameters: Parameters, bounds: Bounds) -> None:
        np.clip(parameters["scales"], *bounds, out=parameters["scales"])
        parameters.refresh()

    def initial(
        self, means: npt.NDArray[Any], precisions: npt.ArrayLike | None, precision_max: float
    ) -> dict[str, npt.NDArray[Any]]:
        if precisions is None:
            scale = np.array(precision_max**0.5, means.dtype)
            return {"means": means, "scales": np.broadcast_to(scale, means.shape)}  # which takes no memory
        values = np.asarray(precisions)
        if values.shape != means.shape:
            raise ValueError(f"precisions have shape {values.shape}; expected {means.shape}.")
        if not (np.isfinite(values).all() and (values > 0).all()):
            raise ValueError(
                f"precisions must be positive and finite; found values from {np.min(values)} to {np.max(values)}."
            )
        return {"means": means, "scales": np.sqrt(values)}

    def widen(self, tensors: Tensors, means: npt.NDArray[Any], bounds: Bounds) -> Tensors:
        fresh = {
            "means": means,
            "scales": np.full(means.shape, bounds.scale_max),
            "variances": np.full(means.shape, 1 / bounds.precision_max),
        }
        wider = {name: np.hstack([old, fresh[name]]) for name, old in tensors.named().items()}
        layout = {name: Layout(wider[name].shape[1:], form.filler) for name, form in tensors.layout.items()}
        return Tensors(layout, wider, tensors.dtype)

    def score(self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0) -> Scores:
        return diagonal.score(parameters.native, x, factor)

    def component_scores(
        self, parameters: Parameters, x: npt.ArrayLike, factor: float = 1.0
    ) -> npt.NDArray[np.float64]:
        return diagonal.component_scores(parameters.native, x, factor)

    def draw(self, parameters: Parameters, components: npt.NDArray[np.int64], rng: np.random.Generator) -> Floats:
        noise = rng.standard_normal((len(components), parameters.n_features)).astype(parameters.dtype)
        noise /= parameters["scales"][components]
        noise += parameters.means[components]
        return noise

    def marginal(self, parameters: Parameters, features: Sequence[int]) -> Parameters:
        chosen = list(features)
        values = {"means": parameters.means[:, chosen], "scales": parameters["scales"][:, chosen]}
        return Parameters(self, values, parameters.logits)

    def condition(self, parameters: Parameters, row: npt.NDArray[np.float64]) -> Parameters:
        hidden = np.isnan(row)
        left = self.marginal(parameters, np.flatnonzero(hidden).tolist())
        if not hidden.all():
            left.logits[:] = self.component_scores(parameters, row[None])[0]
        return left

    def imputed(self, parameters: Parameters, x: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        scores = self.component_scores(parameters, x)
        shares = np.exp(scores - scores.max(1, keepdims=True))
        expected = (shares / shares.sum(1, keepdims=True)) @ parameters.means
        return np.where(np.isnan(x), expected, x)

    def pull(self, parameters: Parameters, component: int, away: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        return np.asarray(away * parameters["scales"][component].astype(np.float64) ** 2)

    def conditional_precisions(self, parameters: Parameters) -> npt.NDArray[np.float64]:
        return parameters["scales"].astype(np.float64) ** 2

    def feature_variances(self, parameters: Parameters) -> Floats:
        return self.covariances(parameters)

    def to_sklearn(self, parameters: Parameters) -> dict[str, Any]:
        scales = np.array(parameters["scales"], dtype=np.float64)
        return {
            "covariance_type": "diag",
            "precisions_cholesky_": scales,
            "precisions_": scales**2,
            "covariances_": 1 / scales**2,
        }

    def precisions(self, parameters: Parameters) -> Floats:
        return _squares(parameters["scales"])

    def covariances(self, parameters: Parameters) -> Floats:
        return 1 / _squares(parameters["scales"])

    def n_parameters(self, n_components: int, n_features: int) -> int:
        return 2 * n_components * n_features

    def start_moments(self, parameters: Parameters) -> Tensors:
        layout = self.moment_layout(parameters.n_features)
        moments = Tensors(layout, {"variances": parameters["scales"]}, parameters.dtype)
        variances = moments["variances"]
        np.divide(1, np.square(variances, out=variances), out=variances)
        return moments

    def sgd_steps(self, parameters: Parameters, work: Work, step: SGDStep) -> Steps:
        return diagonal.sgd_steps(parameters.native, work.samples, work.filters, step)

    def natural_steps(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        received: npt.NDArray[np.float64],
        work: Work,
        step: NaturalStep,
        prior: Prior | None = None,
    ) -> Steps:
        own = _moments(parameters.buffers["means"], moments, counts, prior)
        return diagonal.natural_steps(parameters.native, own, work.samples, work.filters, step, received)

    def natural_rows(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        received: npt.NDArray[np.float64],
        work: Work,
        step: NaturalStep,
        prior: Prior | None = None,
    ) -> Any:
        own, limit = _moments(parameters.buffers["means"], moments, counts, prior), LIMITS[parameters.dtype]
        if work.tally is None:
            return None
        return diagonal.natural_rows(
            parameters.native, own, work.samples, work.filters, step, received, work.tally, limit
        )

    def natural_answer(
        self,
        parameters: Parameters,
        moments: Tensors,
        counts: npt.NDArray[np.float64],
        prior: Prior,
        frame: Floats,
        step: AnswerStep,
        out: Parameters,
    ) -> bool:
        own = _moments(parameters.buffers["means"], moments, counts, prior)
        diagonal.answer(parameters.native, own, frame, step, out.native)
        return True

    def score_row(self, parameters: Parameters, row: Floats, gaps: bool) -> tuple[float, float, int] | None:
        return diagonal.score_row(parameters.native, row, LIMITS[parameters.dtype], gaps)

    def em_steps(
        self,
        parameters: Parameters,
        statistics: Statistics,
        masses: npt.NDArray[np.float64],
        work: Work,
        step: EMStep,
        prior: Prior | None = None,
    ) -> Steps:
        own = _moments(statistics.means, statistics.moments, masses, prior)
        return diagonal.em_steps(parameters.native, own, work.samples, step)

    def set_from_moments(
        self, parameters: Parameters, moments: Tensors, bounds: Bounds, rows: range, prior: Prior | None = None
    ) -> None:
        own = _moments(parameters.buffers["means"], moments, parameters.log_dets, prior)
        diagonal.rescale(parameters.native, own, bounds, rows)

    def start_prior(self, n_features: int, dtype: np.dtype[Any], expected: float) -> Floats:
        return padded(np.repeat([[expected], [1.0], [0.0], [0.0]], n_features, axis=1), dtype, 1)

    def set_prior(self, prior: Prior, rows: list[Any]) -> None:
        for row, values in zip(prior.rows, rows, strict=True):
            row[: len(rows[0])] = values

    def pool_variances(self, parameters: Parameters, shares: npt.NDArray[np.float64]) -> None:
        scales = parameters["scales"].astype(np.float64)
        together = -0.5 * np.log(parameters.weights @ scales**-2.0)
        parameters["scales"][:] = np.exp((1 - shares[:, None]) * np.log(scales) + shares[:, None] * together)
        parameters.refresh()

    def inflate(self, moments: Tensors, factors: npt.NDArray[np.float64]) -> Tensors:
        wider = moments.copy()
        wider["variances"][:] *= factors[:, None]
        return wider

    def limit_precisions(self, parameters: Parameters, most: npt.NDArray[np.float64]) -> None:
        np.minimum(parameters["scales"], np.sqrt(most).astype(parameters.dtype), out=parameters["scales"])
        parameters.refresh()

    def forget_features(self, tensors: Tensors, features: npt.NDArray[np.bool_]) -> Tensors:
        for name, value in {"means": 0.0, "scales": 1.0, "variances": 1.0}.items():
            if name in tensors.layout:
                tensors[name][:, features] = value
        return tensors

    def fix_features(self, tensors: Tensors, features: npt.NDArray[np.bool_], means: npt.NDArray[Any]) -> None:
        tensors["means"][:, features] = means[features]
        tensors["scales"][:, features] = np.sqrt(2 * np.pi)

    def reframe(self, tensors: Tensors, shift: npt.NDArray[Any], factor: npt.NDArray[Any]) -> Tensors:
        moves: Any = np.flatnonzero((shift != 0) | (factor != 1))  # often few: the others are left as they are
        if 4 * len(moves) > len(shift):
            moves = slice(None)
        most, size = np.finfo(tensors.dtype).max, np.abs(np.where(factor == 0, 1.0, factor))
        with np.errstate(over="ignore"):  # scales are clipped to their bounds
            numbers = (shift, factor, np.minimum(size**-1.0, most), np.minimum(np.square(factor), most))
            away, by, inverse, squared = (values[moves].astype(tensors.dtype) for values in numbers)
            for name in tensors.layout:
                values = tensors[name]
                for part in row_blocks(values):
                    if name == "means":
                        values[part, moves] = (values[part, moves] - away) * by
                    else:
                        values[part, moves] *= inverse if name == "scales" else squared
        return tensors

    def set_components(
        self, parameters: Parameters, statistics: Statistics, components: npt.NDArray[np.int64], bounds: Bounds
    ) -> None:
        parameters.buffers["means"][components] = statistics.means[components]
        least, most = (1 / s**2 for s in reversed(bounds))
        variances = np.clip(statistics.moments["variances"], least, most)
        parameters["scales"][components] = 1 / np.sqrt(variances[components])

    def set_moments(self, moments: Tensors, component: int, rows: Floats, weights: npt.NDArray[np.float64]) -> None:
        away = rows - np.average(rows, axis=0, weights=weights)
        moments["variances"][component] = np.average(away**2, axis=0, weights=weights)

    def merge_parameters(
        self,
        out: Parameters,
        start: Parameters,
        replicas: list[Parameters],
        shares: npt.NDArray[np.float64],
        rows: range,
    ) -> None:
        to, of, *parts = (Pair(p.buffers["means"], p.buffers["scales"]) for p in (out, start, *replicas))
        diagonal.merge_rows(to, of, parts, shares, rows)

    def merge_statistics(
        self,
        out: Statistics,
        start: Statistics,
        replicas: list[Statistics],
        shares: npt.NDArray[np.float64],
        rows: range,
        bounds: Bounds,
    ) -> None:
        to, of, *parts = (Pair(s.means, s.moments.buffers["variances"]) for s in (out, start, *replicas))
        diagonal.merge_rows(to, of, parts, shares, rows, variance_max=bounds.variance_max)

    def variances(self, moments: Tensors) -> Floats:
        return moments["variances"]

    def expected_losses(self, parameters: Parameters, moments: Tensors, component: int) -> npt.NDArray[np.float64]:
        means, scales, found = parameters.means, parameters["scales"], np.empty(len(parameters))
        for part in row_blocks(means):
            apart = (means[part] - means[component]).astype(np.float64)
            spread = moments["variances"][component] + apart**2
            found[part] = (scales[part].astype(np.float64) ** 2 * spread).sum(1)
        return np.asarray(found - 2 * parameters.log_dets)


def _squares(scales: Floats) -> Floats:
    """Return squares, as float64 where float32 cannot hold them: raw data may have any units."""
    fits = scales.dtype != np.float32 or (scales.min() > SINGLE[0] and scales.max() < SINGLE[1])
    squares: Floats = np.square(scales, dtype=scales.dtype if fits else np.float64)
    return squares


def _moments(means: Floats, moments: Tensors, masses: npt.NDArray[np.float64], prior: Prior | None) -> Moments:
    variances = moments.buffers["variances"]
    if prior is None:
        return Moments(means, variances, masses)
    return Moments(means, variances, masses, prior.evidence, prior.rows)
