"""Full covariance: every pair of features may be correlated; the precision is kept as a factor of itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.base import FAR, FARTHEST, SCALES
from streamgmm.core.covariance.coupled import Coupled
from streamgmm.core.covariance.dense import (
    Numbers,
    blocks,
    correlations_of,
    covariances_of,
    held,
    independent_rows,
    limited,
    lower_factors,
    lower_marginals,
    lower_parts,
    orthonormal_rows,
    precision_factors,
    require_correlations,
    rescaled,
    shrinkage,
    spectral_factors,
    within_limits,
)
from streamgmm.core.covariance.work import Bounds, Statistics, Work
from streamgmm.core.parameters import Parameters
from streamgmm.core.state import require_range
from streamgmm.core.tensors import Layout, Tensors
from streamgmm.native import Floats, SGDStep, Steps, coupled

POOLED = 20.0  # samples from which a variance of one component tells more than that of all components


@dataclass(frozen=True)
class Full(Coupled):
    """Tensors ``means`` (K, D) and ``factors`` (K, D, D): the precision of a component is F'F ([E35]).

    F is lower triangular where covariances are learned, and has orthogonal rows, which are eigenvectors times the roots
    of eigenvalues, where gradients are followed ([E37]). Moments are ``covariances`` (K, D, D) and ``pending`` (K,).
    """

    name: ClassVar[str] = "full"

    def layout(self, n_features: int) -> dict[str, Layout]:
        return {"means": Layout((n_features,), 0.0), "factors": Layout((n_features, n_features), 0.0)}

    def moment_layout(self, n_features: int) -> dict[str, Layout]:
        return {"covariances": Layout((n_features, n_features), 0.0), "pending": Layout(())}

    def native(self, parameters: Parameters) -> Any:
        p = parameters
        return coupled.full_model(p.buffers["means"], p.buffers["factors"], p.logits, p.log_dets)

    def wrapped(self, means: Floats, moments: Tensors, learned: coupled.Learned) -> Any:
        return coupled.full_moments(means, moments.buffers["covariances"], learned)

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        require_range("factors", parameters["factors"], -SCALES[1], SCALES[1])
        factors = parameters["factors"]
        if not np.isfinite(parameters.log_dets).all() or not (_is_lower(factors) or independent_rows(factors)):
            raise ValueError("tensor 'factors' holds matrices that have no inverse")

    def uncorrelated(self, means: npt.NDArray[Any], variances: npt.NDArray[Any]) -> dict[str, npt.NDArray[Any]]:
        return self.initial(means, np.eye(means.shape[1]) / variances[:, None], 1.0)

    def validate_bounds(self, parameters: Parameters, bounds: Bounds) -> None:
        require_range("factors", parameters["factors"], -bounds.scale_max * FAR, bounds.scale_max * FAR)

    def validate_moments(self, moments: Tensors, means: Floats) -> None:
        require_range("pending", moments["pending"], 0.0)
        require_range("covariances", moments["covariances"], -SCALES[1], SCALES[1])
        variances = np.abs(np.diagonal(moments["covariances"], axis1=1, axis2=2))
        rounding = np.finfo(np.float64).eps * (1.0 + float(np.abs(means).max(initial=0.0)) ** 2)
        require_correlations("covariances", moments["covariances"], variances, variances, min(1.0, rounding))

    def clip(self, parameters: Parameters, bounds: Bounds) -> None:
        for k, factor in enumerate(parameters["factors"]):
            sizes = np.linalg.svd(factor.astype(np.float64), compute_uv=False)
            if sizes[0] > bounds.scale_max * (1 + 1e-9) or sizes[-1] < bounds.scale_min * (1 - 1e-9):
                parameters["factors"][k] = limited(factor, *bounds)
        parameters.refresh()

    def initial(
        self, means: npt.NDArray[Any], precisions: npt.ArrayLike | None, precision_max: float
    ) -> dict[str, npt.NDArray[Any]]:
        size = means.shape[1]
        if precisions is None:
            return {"means": means, "factors": np.tile(precision_max**0.5 * np.eye(size), (len(means), 1, 1))}
        values = np.asarray(precisions, np.float64)
        if values.shape != (len(means), size, size):
            raise ValueError(f"precisions have shape {values.shape}; expected {(len(means), size, size)}.")
        if not np.isfinite(values).all() or not np.allclose(values, values.swapaxes(1, 2), rtol=1e-5, atol=0):
            raise ValueError("precisions must be finite and symmetric matrices.")
        try:
            return {"means": means, "factors": precision_factors(values)}
        except np.linalg.LinAlgError as problem:
            raise ValueError("precisions must be positive definite; one of them is not.") from problem

    def widen(self, tensors: Tensors, means: npt.NDArray[Any], bounds: Bounds) -> Tensors:
        more = np.eye(means.shape[1])
        fresh = {"factors": bounds.scale_max * more, "covariances": more / bounds.precision_max}
        wider: dict[str, npt.NDArray[Any]] = {}
        for name, old in tensors.named().items():
            if name in fresh:
                wider[name] = blocks(old, np.broadcast_to(fresh[name], (len(old), *more.shape)))
            else:
                wider[name] = np.hstack([old, means]) if name == "means" else old
        layout = {name: Layout(wider[name].shape[1:], form.filler) for name, form in tensors.layout.items()}
        return Tensors(layout, wider, tensors.dtype)

    # Answers

    def draw(self, parameters: Parameters, components: npt.NDArray[np.int64], rng: np.random.Generator) -> Floats:
        noise = rng.standard_normal((len(components), parameters.n_features))
        for k in np.unique(components):
            own = components == k
            noise[own] = np.linalg.solve(parameters["factors"][k].astype(np.float64), noise[own].T).T
        return within_limits(noise + parameters.means[components], parameters.dtype)

    def marginal(self, parameters: Parameters, features: Sequence[int]) -> Parameters:
        chosen = list(features)
        values = {"means": parameters.means[:, chosen], "factors": lower_marginals(parameters["factors"], chosen)}
        return Parameters(self, values, parameters.logits)

    def condition(self, parameters: Parameters, row: Numbers) -> Parameters:
        hidden = np.isnan(row)
        factors = parameters["factors"].astype(np.float64)
        away = np.where(hidden, 0.0, row - parameters.means)
        y = np.clip(np.einsum("kij,kj->ki", factors, away), -FARTHEST, FARTHEST)
        inner, turned = lower_parts(factors[:, :, hidden], y)
        means = parameters.means[:, hidden] - np.linalg.solve(inner, turned[..., None])[..., 0]
        logits = self.component_scores(parameters, row[None])[0] if not hidden.all() else parameters.logits
        values = {"means": within_limits(means, parameters.dtype), "factors": inner}
        return Parameters(self, values, logits)

    def pull(self, parameters: Parameters, component: int, away: Numbers) -> Numbers:
        factor = parameters["factors"][component].astype(np.float64)
        return np.asarray(np.clip(away @ factor.T, -FARTHEST, FARTHEST) @ factor)

    def conditional_precisions(self, parameters: Parameters) -> Numbers:
        return (parameters["factors"].astype(np.float64) ** 2).sum(1)

    def feature_variances(self, parameters: Parameters) -> Floats:
        return held(np.diagonal(covariances_of(parameters["factors"]), axis1=1, axis2=2), parameters.dtype)

    def to_sklearn(self, parameters: Parameters) -> dict[str, Any]:
        covariances = covariances_of(parameters["factors"])
        upper = lower_factors(covariances).swapaxes(1, 2)
        return {
            "covariance_type": "full",
            "precisions_cholesky_": upper,
            "precisions_": upper @ upper.swapaxes(1, 2),
            "covariances_": covariances,
        }

    def precisions(self, parameters: Parameters) -> Floats:
        factors = parameters["factors"].astype(np.float64)
        return held(factors.swapaxes(1, 2) @ factors, parameters.dtype)

    def covariances(self, parameters: Parameters) -> Floats:
        return held(covariances_of(parameters["factors"]), parameters.dtype)

    def n_parameters(self, n_components: int, n_features: int) -> int:
        return n_components * (n_features + n_features * (n_features + 1) // 2)

    # Learning

    def start_moments(self, parameters: Parameters) -> Tensors:
        values = {"covariances": covariances_of(parameters["factors"]), "pending": np.zeros(len(parameters))}
        return Tensors(self.moment_layout(parameters.n_features), values, parameters.dtype)

    def sgd_steps(self, parameters: Parameters, work: Work, step: SGDStep) -> Steps:
        if not orthonormal_rows(parameters["factors"]):
            parameters["factors"][:] = spectral_factors(parameters["factors"])
            parameters.refresh()
        return coupled.sgd_steps(parameters.native, work.samples, work.filters, step)

    def prior_weight(self, weight: float, mass: float, n_features: int) -> float:
        return weight * n_features / (mass + n_features)

    def pool_variances(self, parameters: Parameters, shares: npt.NDArray[np.float64]) -> None:
        covariances = covariances_of(parameters["factors"])
        # a covariance matrix takes more samples than a variance; small shares would widen narrow directions
        more = (1 + parameters.n_features / POOLED) ** 2
        share = ((more * shares / (1 + (more - 1) * shares)) ** 2)[:, None, None]
        together = np.einsum("k,kij->ij", parameters.weights, covariances)
        parameters["factors"][:] = lower_factors((1 - share) * covariances + share * together)
        parameters.refresh()

    def limit_precisions(self, parameters: Parameters, most: npt.NDArray[np.float64]) -> None:
        covariances = covariances_of(parameters["factors"])
        lacking = np.maximum(1 / most - 1 / self.conditional_precisions(parameters), 0.0)
        if not lacking.any():
            return
        at = np.arange(parameters.n_features)
        covariances[:, at, at] += lacking
        parameters["factors"][:] = lower_factors(covariances)
        parameters.refresh()

    def forget_features(self, tensors: Tensors, features: npt.NDArray[np.bool_]) -> Tensors:
        _decouple(tensors, features, 1.0)
        if "means" in tensors.layout:
            tensors["means"][:, features] = 0.0
        return tensors

    def fix_features(self, tensors: Tensors, features: npt.NDArray[np.bool_], means: npt.NDArray[Any]) -> None:
        tensors["means"][:, features] = means[features]
        _decouple(tensors, features, 1 / (2 * np.pi))

    def reframe(self, tensors: Tensors, shift: npt.NDArray[Any], factor: npt.NDArray[Any]) -> Tensors:
        scale = np.where(factor == 0, 1.0, factor)
        values: dict[str, npt.NDArray[Any]] = {}
        for name, old in tensors.named().items():
            if name == "means":
                values[name] = (old.astype(np.float64) - shift) * factor
            elif name == "covariances":
                moved = old.astype(np.float64) * np.multiply.outer(factor, factor)
                shrunk = shrinkage(np.diagonal(moved, axis1=1, axis2=2))
                values[name] = shrunk[:, :, None] * moved * shrunk[:, None]
            elif name == "factors":
                values[name] = old.astype(np.float64) / scale if _is_lower(old) else rescaled(old, scale)
            else:
                values[name] = old
        tensors.assign(Tensors(tensors.layout, values, tensors.dtype))
        return tensors

    def set_moments(self, moments: Tensors, component: int, rows: Floats, weights: npt.NDArray[np.float64]) -> None:
        away = (rows - np.average(rows, axis=0, weights=weights)).astype(np.float64)
        moments["covariances"][component] = (weights * away.T) @ away / weights.sum()

    # Merging

    def merge_parameters(
        self,
        out: Parameters,
        start: Parameters,
        replicas: list[Parameters],
        shares: npt.NDArray[np.float64],
        rows: range,
    ) -> None:
        part = slice(rows.start, rows.stop)
        for name in ("means", "factors"):
            old = start[name][part].astype(np.float64)
            changes = np.stack([r[name][part] - old for r in replicas])
            out[name][part] = old + np.einsum("kr,rk...->k...", shares[part], changes)
            if name == "factors" and changes.any():
                out[name][part] = spectral_factors(out[name][part], closest=True)

    def merge_statistics(
        self,
        out: Statistics,
        start: Statistics,
        replicas: list[Statistics],
        shares: npt.NDArray[np.float64],
        rows: range,
        bounds: Bounds,
    ) -> None:
        part, size = slice(rows.start, rows.stop), out.moments["covariances"].shape[1]
        mean, old = (a[part].astype(np.float64) for a in (start.means, start.moments["covariances"]))
        moved, change = np.zeros_like(mean), np.zeros_like(old)
        for replica, share in zip(replicas, shares[part].T, strict=True):
            away = replica.means[part] - mean
            moved += share[:, None] * away
            some = away[:, :size]
            change += share[:, None, None] * (
                replica.moments["covariances"][part] - old + some[:, :, None] * some[:, None]
            )
        out.means[part] = mean + moved
        some = moved[:, :size]
        out.moments["covariances"][part] = old + change - some[:, :, None] * some[:, None]
        moved_by_any = np.any([(r.means[part] != start.means[part]).any(1) for r in replicas], axis=0)
        out.moments["pending"][part] = np.where(moved_by_any, 0.0, start.moments["pending"][part])

    # Restarts of light components

    def variances(self, moments: Tensors) -> Floats:
        found = np.diagonal(moments["covariances"], axis1=1, axis2=2)
        return np.maximum(found, 0)  # rounding may leave one a little below zero

    def offset(self, moments: Tensors, component: int, spread: Floats, rng: np.random.Generator) -> Floats:
        """Follow the correlations: independent steps would lead far away where features hardly differ."""
        covariance = moments["covariances"][component].astype(np.float64)
        sizes, directions = np.linalg.eigh(correlations_of(covariance))
        step = directions @ (np.sqrt(np.maximum(sizes, 0)) * rng.standard_normal(len(spread)))
        return np.asarray(spread * step)

    def expected_losses(self, parameters: Parameters, moments: Tensors, component: int) -> npt.NDArray[np.float64]:
        apart = (parameters.means - parameters.means[component]).astype(np.float64)
        factors = parameters["factors"].astype(np.float64)
        spread = moments["covariances"][component].astype(np.float64) + apart[:, :, None] * apart[:, None]
        return np.asarray(((factors @ spread) * factors).sum((1, 2)) - 2 * parameters.log_dets)


def _decouple(tensors: Tensors, features: npt.NDArray[np.bool_], variance: float) -> None:
    """Make some features independent of all others, with this variance, in place."""
    if not features.any():
        return
    for name in ("factors", "covariances"):
        if name not in tensors.layout:
            continue
        covariances = covariances_of(tensors[name]) if name == "factors" else tensors[name].astype(np.float64)
        covariances[:, features] = 0.0
        covariances[:, :, features] = 0.0
        at = np.flatnonzero(features)
        covariances[:, at, at] = variance
        tensors[name][:] = lower_factors(covariances) if name == "factors" else covariances


def _is_lower(factors: Floats) -> bool:
    return not np.triu(factors, 1).any()
