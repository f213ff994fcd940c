"""Low-rank covariance: a few factors that features have in common, and noise of each feature's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.base import FAR, FARTHEST, SCALES
from streamgmm.core.covariance.coupled import Coupled
from streamgmm.core.covariance.dense import Numbers, held, lower_factors, require_correlations, shrinkage, within_limits
from streamgmm.core.covariance.work import Bounds, Statistics
from streamgmm.core.parameters import Parameters
from streamgmm.core.state import require_range
from streamgmm.core.tensors import Layout, Tensors
from streamgmm.native import Floats, coupled

MOST_FEATURES = 512  # of which covariances are shown as matrices
INNER = (1e-300, 1e15)  # second moments of hidden numbers, which are about 1 unless samples are absurd, or all equal
ROUNDING = 1e-6  # part of the largest square by which rounding may leave one below zero
BY_FEATURE = ("factors", "cross")  # tensors that scale with a feature
FEATURES_LAST = ("means", "scales", "factors", "projections", "variances", "cross")


@dataclass(frozen=True)
class LowRank(Coupled):
    """Mixtures of factor analysers: x = μ + A z + noise, where z has ``rank`` independent standard normal entries.

    Tensors are ``means`` (K, D), ``scales`` (K, D) of the noise, ``factors`` (K, L, D) and ``spreads`` (K, L, L), in
    which z is learned, and what follows from them ([E39]): ``projections`` (K, L, D) and ``gains`` (K, L, L). Moments
    are ``variances`` (K, D), and ``cross`` (K, L, D), ``inner`` (K, L, L) and ``shifts`` (K, L): covariances of z and
    x, second moments of z and its running mean ([E40]).
    """

    name: ClassVar[str] = "low_rank"
    rank: int = 8

    def with_rank(self, rank: int) -> LowRank:
        return replace(self, rank=rank)

    def layout(self, n_features: int) -> dict[str, Layout]:
        wide = (self.rank, n_features)
        return {
            "means": Layout((n_features,), 0.0),
            "scales": Layout((n_features,), 1.0),
            "factors": Layout(wide, 0.0),
            "projections": Layout(wide, 0.0),
            "spreads": Layout((self.rank, self.rank)),
            "gains": Layout((self.rank, self.rank)),
        }

    def moment_layout(self, n_features: int) -> dict[str, Layout]:
        return {
            "variances": Layout((n_features,), 1.0),
            "cross": Layout((self.rank, n_features), 0.0),
            "inner": Layout((self.rank, self.rank)),
            "shifts": Layout((self.rank,)),
            "pending": Layout(()),
        }

    def native(self, parameters: Parameters) -> Any:
        return coupled.low_rank_model(
            parameters.buffers, parameters.logits, parameters.log_dets, parameters.tensors["means"].shape[1]
        )

    def wrapped(self, means: Floats, moments: Tensors, learned: coupled.Learned) -> Any:
        return coupled.low_rank_moments(means, moments.buffers, learned)

    def validate(self, parameters: Parameters) -> None:
        super().validate(parameters)
        require_range("scales", parameters["scales"], *SCALES)
        for name in ("factors", "projections", "spreads", "gains"):
            require_range(name, parameters[name], -SCALES[1], SCALES[1])
        if not np.isfinite(parameters.log_dets).all():
            raise ValueError("tensors 'factors' and 'spreads' hold numbers that no covariance has")

    def validate_bounds(self, parameters: Parameters, bounds: Bounds) -> None:
        require_range("scales", parameters["scales"], bounds.scale_min / FAR, bounds.scale_max * FAR)

    def validate_moments(self, moments: Tensors, means: Floats) -> None:
        require_range("variances", moments["variances"], 0.0)
        for name in ("cross", "inner", "shifts", "pending"):
            require_range(name, moments[name], -SCALES[1], SCALES[1])
        inner = moments["inner"]
        spread = np.diagonal(inner, axis1=1, axis2=2)
        require_range("inner", inner, -INNER[1], INNER[1])
        largest, started = spread.max(1), inner[:, 0, 0] != 0
        if (spread.min(1) < -ROUNDING * largest).any() or (largest[started] < INNER[0]).any():
            raise ValueError(f"tensor 'inner' holds {spread.min():.6g} on a diagonal, where squares are expected")
        spread = np.abs(spread)
        require_correlations("inner", inner, spread, spread)
        # rounding alone may leave a variance at zero, and products of what is far away a little off it
        require_correlations("cross", moments["cross"], spread, np.maximum(moments["variances"], 1.0))

    def clip(self, parameters: Parameters, bounds: Bounds) -> None:
        np.clip(parameters["scales"], *bounds, out=parameters["scales"])
        np.clip(parameters["factors"], -1 / bounds.scale_min, 1 / bounds.scale_min, out=parameters["factors"])
        parameters.refresh()

    def initial(
        self, means: npt.NDArray[Any], precisions: npt.ArrayLike | None, precision_max: float
    ) -> dict[str, npt.NDArray[Any]]:
        scales = np.full(means.shape, precision_max**0.5, means.dtype)
        if precisions is not None:
            values = np.asarray(precisions)
            if values.shape != means.shape:
                raise ValueError(
                    f"precisions have shape {values.shape}; expected those of the noise, {means.shape}. "
                    "Factors are learned from the data."
                )
            if not (np.isfinite(values).all() and (values > 0).all()):
                raise ValueError("precisions must be positive and finite.")
            scales = np.sqrt(values)
        return self._completed({"means": means, "scales": scales})

    def _completed(self, values: dict[str, Any]) -> dict[str, Any]:
        """Add tensors that follow from others, or are zero."""
        size, width = values["means"].shape
        wide, unit = np.zeros((size, self.rank, width)), np.tile(np.eye(self.rank), (size, 1, 1))
        return {"factors": wide, "projections": wide, "spreads": unit, "gains": unit, **values}

    def widen(self, tensors: Tensors, means: npt.NDArray[Any], bounds: Bounds) -> Tensors:
        fresh: dict[str, Any] = {"means": means, "scales": bounds.scale_max, "variances": 1 / bounds.precision_max}
        wider: dict[str, npt.NDArray[Any]] = {}
        for name, old in tensors.named().items():
            if name not in FEATURES_LAST:
                wider[name] = old
                continue
            more = np.broadcast_to(fresh.get(name, 0.0), (*old.shape[:-1], means.shape[1]))
            wider[name] = np.concatenate([old, more], axis=-1)
        layout = {name: Layout(wider[name].shape[1:], form.filler) for name, form in tensors.layout.items()}
        return Tensors(layout, wider, tensors.dtype)

    # Answers

    def draw(self, parameters: Parameters, components: npt.NDArray[np.int64], rng: np.random.Generator) -> Floats:
        dtype = parameters.dtype
        drawn = rng.standard_normal((len(components), parameters.n_features)).astype(dtype)
        drawn /= parameters["scales"][components]
        hidden = rng.standard_normal((len(components), self.rank)).astype(dtype)
        for k in np.unique(components):
            own = components == k
            drawn[own] += hidden[own] @ parameters["factors"][k] + parameters.means[k]
        return drawn

    def marginal(self, parameters: Parameters, features: Sequence[int]) -> Parameters:
        chosen = list(features)
        values = {name: parameters[name][..., chosen] for name in ("means", "scales", "factors")}
        return Parameters(self, self._completed(values), parameters.logits)

    def condition(self, parameters: Parameters, row: Numbers) -> Parameters:
        hidden = np.isnan(row)
        means, scales, factors = (parameters[n].astype(np.float64) for n in ("means", "scales", "factors"))
        known = ~hidden
        loads = factors[..., known] * scales[:, None, known]
        away = np.clip((row[known] - means[:, known]) * scales[:, known], -FARTHEST, FARTHEST)
        roots = lower_factors(np.eye(self.rank) + loads @ loads.swapaxes(1, 2))
        z = (roots.swapaxes(1, 2) @ (roots @ (loads @ away[..., None])))[..., 0]
        expected = means[:, hidden] + np.einsum("kl,kld->kd", z, factors[..., hidden])
        values = {
            "means": within_limits(expected, parameters.dtype),
            "scales": scales[:, hidden],
            "factors": roots @ factors[..., hidden],
        }
        logits = self.component_scores(parameters, row[None])[0] if known.any() else parameters.logits
        typed = {name: value.astype(parameters.dtype) for name, value in values.items()}
        return Parameters(self, self._completed(typed), logits)

    def imputed(self, parameters: Parameters, x: Numbers) -> Numbers:
        """[E42] Use matrix products over all rows: each row lacks other features."""
        means, scales, factors = (parameters[n].astype(np.float64) for n in ("means", "scales", "factors"))
        known = (~np.isnan(x)).astype(np.float64)
        mask, (first, second) = known.astype(parameters.dtype), np.triu_indices(self.rank)
        zs, scores = np.empty((len(parameters), len(x), self.rank)), np.empty((len(parameters), len(x)))
        inner, diagonal = np.empty((len(x), self.rank, self.rank)), np.arange(self.rank)
        rounding = self.rank * float(np.finfo(parameters.dtype).eps)
        log_weights = np.log(np.maximum(parameters.weights, np.finfo(np.float64).tiny))
        for k in range(len(parameters)):
            away = np.clip(np.nan_to_num((x - means[k]) * scales[k]), -FARTHEST, FARTHEST)
            loads = factors[k] * scales[k]
            pairs = (loads[first] * loads[second]).astype(parameters.dtype)
            inner[:, first, second] = inner[:, second, first] = mask @ pairs.T  # takes nearly all of the time
            largest = inner[:, diagonal, diagonal].max(1, keepdims=True)
            inner[:, diagonal, diagonal] += 1.0 + rounding * largest  # or factors far above the noise are singular
            pulled = away @ loads.T
            zs[k] = np.linalg.solve(inner, pulled[..., None])[..., 0]
            distance = (away**2).sum(1) - (pulled * zs[k]).sum(1)
            log_det = known @ np.log(scales[k]) - 0.5 * np.linalg.slogdet(inner)[1]
            scores[k] = log_weights[k] + log_det - 0.5 * distance
        shares = np.exp(scores - scores.max(0))
        shares /= shares.sum(0)
        expected = shares.T @ means
        for k in np.flatnonzero(shares.max(1) > 1e-12).tolist():
            own = shares[k] > 1e-12
            expected[own] += (shares[k, own, None] * zs[k, own]) @ factors[k]
        return np.where(known > 0, x, expected)

    def pull(self, parameters: Parameters, component: int, away: Numbers) -> Numbers:
        scales, projections = (parameters[n][component].astype(np.float64) for n in ("scales", "projections"))
        units = np.clip(away * scales, -FARTHEST, FARTHEST)
        return np.asarray(units * scales - (units @ (projections / scales).T) @ projections)

    def conditional_precisions(self, parameters: Parameters) -> Numbers:
        scales, projections = (parameters[n].astype(np.float64) for n in ("scales", "projections"))
        explained = ((projections / scales[:, None]) ** 2).sum(1)
        return scales**2 * np.maximum(1 - explained, np.finfo(parameters.dtype).eps)  # rounding leaves no more

    def feature_variances(self, parameters: Parameters) -> Floats:
        scales, factors = (parameters[n].astype(np.float64) for n in ("scales", "factors"))
        return held((factors**2).sum(1) + scales**-2.0, parameters.dtype)

    def factors(self, parameters: Parameters) -> Floats:
        """Return the factors of all components, (K, D, L)."""
        return parameters["factors"].swapaxes(1, 2)

    def noise_variances(self, parameters: Parameters) -> Floats:
        """Return the variances that factors do not explain, (K, D)."""
        return held(parameters["scales"].astype(np.float64) ** -2.0, parameters.dtype)

    def precisions(self, parameters: Parameters) -> Floats:
        self._require_few(parameters)
        scales, projections = (parameters[n].astype(np.float64) for n in ("scales", "projections"))
        diagonal = np.eye(parameters.n_features) * (scales**2)[:, None]
        return held(diagonal - projections.swapaxes(1, 2) @ projections, parameters.dtype)

    def covariances(self, parameters: Parameters) -> Floats:
        self._require_few(parameters)
        scales, factors = (parameters[n].astype(np.float64) for n in ("scales", "factors"))
        diagonal = np.eye(parameters.n_features) * (scales**-2.0)[:, None]
        return held(diagonal + factors.swapaxes(1, 2) @ factors, parameters.dtype)

    def _require_few(self, parameters: Parameters) -> None:
        if parameters.n_features > MOST_FEATURES:
            raise ValueError(
                f"a covariance matrix of {parameters.n_features} features would have {parameters.n_features**2:,} "
                f"numbers for each component; they are shown up to {MOST_FEATURES} features. Use factors_ and "
                "noise_variances_, or variances of the mixture."
            )

    def n_parameters(self, n_components: int, n_features: int) -> int:
        turns = self.rank * (self.rank - 1) // 2  # rotations of the factors change nothing
        return n_components * (n_features * (2 + self.rank) - min(turns, n_features * self.rank))

    # Learning

    def start_moments(self, parameters: Parameters) -> Tensors:
        size, width, rank = len(parameters), parameters.n_features, self.rank
        factors, spreads = (parameters[n].astype(np.float64) for n in ("factors", "spreads"))
        grown = np.any(factors, axis=(1, 2)).reshape(-1, 1, 1)
        values = {
            "variances": self.feature_variances(parameters),
            "cross": spreads @ factors,
            "inner": np.where(grown, spreads @ spreads.swapaxes(1, 2), 0.0),
            "shifts": np.zeros((size, rank)),
            "pending": np.zeros(size),
        }
        return Tensors(self.moment_layout(width), values, parameters.dtype)

    def pool_variances(self, parameters: Parameters, shares: npt.NDArray[np.float64]) -> None:
        variances = self.feature_variances(parameters).astype(np.float64)
        together = parameters.weights @ variances
        scale = np.exp(0.5 * shares[:, None] * (np.log(together) - np.log(variances)))
        parameters["scales"][:] /= scale
        parameters["factors"][:] *= scale[:, None]
        parameters.refresh()

    def limit_precisions(self, parameters: Parameters, most: npt.NDArray[np.float64]) -> None:
        np.minimum(parameters["scales"], np.sqrt(most).astype(parameters.dtype), out=parameters["scales"])
        parameters.refresh()

    def forget_features(self, tensors: Tensors, features: npt.NDArray[np.bool_]) -> Tensors:
        for name in set(FEATURES_LAST) & set(tensors.layout):
            tensors[name][..., features] = 1.0 if name in ("scales", "variances") else 0.0
        return tensors

    def fix_features(self, tensors: Tensors, features: npt.NDArray[np.bool_], means: npt.NDArray[Any]) -> None:
        tensors["means"][:, features] = means[features]
        tensors["scales"][:, features] = np.sqrt(2 * np.pi)
        tensors["factors"][..., features] = tensors["projections"][..., features] = 0.0

    def reframe(self, tensors: Tensors, shift: npt.NDArray[Any], factor: npt.NDArray[Any]) -> Tensors:
        scale = np.where(factor == 0, 1.0, factor)
        values: dict[str, npt.NDArray[Any]] = {}
        for name, old in tensors.named().items():
            new = old.astype(np.float64)
            if name == "means":
                new = (new - shift) * factor
            elif name in BY_FEATURE:
                new *= factor
            elif name == "variances":
                new *= factor**2
            elif name in ("scales", "projections"):
                new /= np.abs(scale) if name == "scales" else scale
            values[name] = new
        if "variances" in values:
            shrunk = shrinkage(values["variances"])
            values["variances"] *= shrunk**2
            values["cross"] *= shrunk[:, None]
        tensors.assign(Tensors(tensors.layout, values, tensors.dtype))
        return tensors

    def set_moments(self, moments: Tensors, component: int, rows: Floats, weights: npt.NDArray[np.float64]) -> None:
        away = rows - np.average(rows, axis=0, weights=weights)
        moments["variances"][component] = np.average(away**2, axis=0, weights=weights)
        moments["cross"][component] = moments["inner"][component] = moments["shifts"][component] = 0.0

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
        for name in ("means", "scales", "factors", "spreads"):
            old = start[name][part].astype(np.float64)
            changes = sum(
                _shaped(s, old) * (r[name][part] - old) for r, s in zip(replicas, shares[part].T, strict=True)
            )
            out[name][part] = old + changes
        self.refresh(out, rows)

    def merge_statistics(
        self,
        out: Statistics,
        start: Statistics,
        replicas: list[Statistics],
        shares: npt.NDArray[np.float64],
        rows: range,
        bounds: Bounds,
    ) -> None:
        part = slice(rows.start, rows.stop)
        own = _Joint.of(start, part)
        moved = _Joint(*(np.zeros_like(a) for a in own))
        for replica, share in zip(replicas, shares[part].T, strict=True):
            there = _Joint.of(replica, part)
            x, z = there.means - own.means, there.shifts - own.shifts
            changes = _Joint(
                x, z, there.variances - own.variances + x**2,
                there.cross - own.cross + z[:, :, None] * x[:, None],
                there.inner - own.inner + z[:, :, None] * z[:, None],
            )  # fmt: skip
            for total, change in zip(moved, changes, strict=True):
                total += _shaped(share, change) * change
        x, z = moved.means, moved.shifts
        out.means[part, : x.shape[1]] = own.means + x
        to = out.moments
        to["variances"][part] = np.clip(own.variances + moved.variances - x**2, 0.0, bounds.variance_max)
        to["cross"][part] = own.cross + moved.cross - z[:, :, None] * x[:, None]
        to["inner"][part] = own.inner + moved.inner - z[:, :, None] * z[:, None]
        to["shifts"][part] = own.shifts + z
        moved_by_any = np.any([(r.means[part] != start.means[part]).any(1) for r in replicas], axis=0)
        to["pending"][part] = np.where(moved_by_any, 0.0, start.moments["pending"][part])

    # Restarts of light components

    def variances(self, moments: Tensors) -> Floats:
        return moments["variances"]

    def expected_losses(self, parameters: Parameters, moments: Tensors, component: int) -> npt.NDArray[np.float64]:
        apart = (parameters.means - parameters.means[component]).astype(np.float64)
        scales, projections = (parameters[n].astype(np.float64) for n in ("scales", "projections"))
        own = parameters["factors"][component].astype(np.float64)
        variances = moments["variances"][component].astype(np.float64)
        noise = np.maximum(variances - (own**2).sum(0), 0.0)
        explained = ((projections**2) @ noise).sum(1) + ((projections @ own.T) ** 2).sum((1, 2))
        explained += (np.einsum("kld,kd->kl", projections, apart) ** 2).sum(1)
        return np.asarray((scales**2 * (variances + apart**2)).sum(1) - explained - 2 * parameters.log_dets)


class _Joint(NamedTuple):
    """Statistics of x and z as one vector: means of both, and their second moments about them."""

    means: Numbers
    shifts: Numbers
    variances: Numbers
    cross: Numbers
    inner: Numbers

    @classmethod
    def of(cls, statistics: Statistics, part: slice) -> _Joint:
        m = statistics.moments
        arrays = (statistics.means, m["shifts"], m["variances"], m["cross"], m["inner"])
        values = [np.asarray(a[part], np.float64) for a in arrays]
        values[0] = values[0][:, : values[2].shape[1]]  # without the padding
        return cls(*values)


def _shaped(share: npt.NDArray[np.float64], like: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """One number per component, to be multiplied with arrays of any number of axes."""
    return share.reshape(-1, *(1,) * (like.ndim - 1))
