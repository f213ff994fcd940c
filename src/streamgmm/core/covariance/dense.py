"""Factors of covariance and precision matrices, in float64, many at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance.base import FAR
from streamgmm.core.rows import LIMITS

Numbers = npt.NDArray[np.float64]
INDEPENDENT = 0.5  # products of unit rows up to which a matrix has an inverse
GRADED = 1e-8  # share of the largest singular value below which rounding leaves too few digits of the smallest
ORTHONORMAL = 1e-3  # products of unit rows from which they are orthonormalised again
MOST_VARIANCE = 1e10  # of samples, where features are standardised
SINGLE = (1e-36, 1e36)  # numbers that fit into float32, and whose inverse does


def held(values: Numbers, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return variances (K, D) or covariances (K, D, D) in a float type, or as they are where it cannot hold them."""
    sizes = values if values.ndim == 2 else np.diagonal(values, axis1=1, axis2=2)
    fits = dtype != np.float32 or (sizes.min() > SINGLE[0] and sizes.max() < SINGLE[1])
    return values.astype(dtype) if fits else values


def covariances_of(factors: npt.NDArray[Any]) -> Numbers:
    """Return the covariances (K, D, D) of precisions F'F."""
    inverse = np.linalg.inv(factors.astype(np.float64))
    return inverse @ inverse.swapaxes(-1, -2)


def within_limits(values: Numbers, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """Return expected or drawn values in a float type, within the limits of what can be learned."""
    return np.clip(values, -LIMITS[dtype], LIMITS[dtype]).astype(dtype)


def shrinkage(variances: Numbers) -> Numbers:
    """Return what to multiply deviations with so that their squares stay those that can be learned.

    A component that has learned nothing since its features were far wider is not as wide as it was.
    """
    with np.errstate(divide="ignore"):
        return np.minimum(1.0, np.sqrt(MOST_VARIANCE / np.maximum(variances, 0.0)))


def correlations_of(covariance: Numbers) -> Numbers:
    """Return correlations (D, D). Features that do not vary, or less than zero by rounding, have none."""
    deviations = np.sqrt(np.maximum(np.diag(covariance), 0.0))
    vary = deviations > 0
    scales = np.divide(1.0, deviations, out=np.zeros_like(deviations), where=vary)
    with np.errstate(over="ignore", invalid="ignore"):  # rounding may leave products that the variances do not allow
        found = np.clip(scales[:, None] * covariance * scales, -1.0, 1.0)
    return np.where(np.outer(vary, vary), np.nan_to_num(found), 0.0)


def lower_factors(covariances: Numbers) -> Numbers:
    """Return lower triangular F (K, D, D) such that F'F are the inverses of covariances.

    Rounding may leave a covariance that is almost singular indefinite; its diagonal is then raised a little.
    """
    size = covariances.shape[-1]
    raised = 0.0
    while True:
        try:
            roots = np.linalg.cholesky(covariances * (1 + raised * np.eye(size)))
            break
        except np.linalg.LinAlgError:
            raised = max(1e-14, 10 * raised)
            if raised > 1:
                raise
    return np.tril(np.linalg.solve(roots, np.broadcast_to(np.eye(size), covariances.shape)))


def precision_factors(precisions: Numbers) -> Numbers:
    """Return lower triangular F (K, D, D) such that F'F are the given precisions."""
    turned = np.linalg.cholesky(precisions[..., ::-1, ::-1])
    return np.asarray(turned[..., ::-1, ::-1].swapaxes(-1, -2), np.float64)


def lower_marginals(factors: npt.NDArray[Any], chosen: list[int]) -> Numbers:
    """Return lower triangular F (K, H, H) of the precisions of some features alone, without squares."""
    roots = np.linalg.inv(factors.astype(np.float64))[:, chosen]
    deviations = np.linalg.norm(roots, axis=2)
    _, upper = _triangular((roots / deviations[..., None]).swapaxes(1, 2))
    return np.tril(np.linalg.inv(upper.swapaxes(1, 2))) / deviations[:, None]


def lower_parts(columns: Numbers, y: Numbers) -> tuple[Numbers, Numbers]:
    """Return lower triangular L (K, H, H) and t (K, H) such that L u = t solves C u = y in least squares.

    L'L = C'C, but C'C itself, of columns C (K, D, H), would have half of the digits.
    """
    turns, upper = _triangular(columns[..., ::-1])
    turned = np.einsum("kdh,kd->kh", turns, y)
    return np.tril(upper[..., ::-1, ::-1]), turned[..., ::-1]


def _triangular(columns: Numbers) -> tuple[Numbers, Numbers]:
    """Return Q and R of columns (K, D, H), where R has an inverse although rounding may leave nothing of a column."""
    turns, upper = np.linalg.qr(columns)
    at, least = np.arange(columns.shape[-1]), np.finfo(np.float64).eps * np.linalg.norm(columns, axis=1)
    pivots = upper[:, at, at]
    upper[:, at, at] = np.where(np.abs(pivots) > least, pivots, least)
    return turns, upper


def spectral_factors(factors: npt.NDArray[Any], closest: bool = False) -> Numbers:
    """Return F (K, D, D) with orthogonal rows.

    F'F stays the same, or F stays as close as possible to what it is, up to the lengths of its rows.
    """
    values = factors.astype(np.float64)
    if not closest:
        _, sizes, directions = np.linalg.svd(values)
        sizes = np.maximum(sizes, np.finfo(np.float64).eps * sizes[..., :1])  # rounding leaves no more of small ones
        return np.asarray(sizes[..., None] * directions)
    lengths = np.linalg.norm(values, axis=-1, keepdims=True)
    left, _, right = np.linalg.svd(values / lengths)
    return lengths * (left @ right)


def rescaled(factors: npt.NDArray[Any], scale: npt.NDArray[Any]) -> Numbers:
    """Return F (K, D, D) for features divided by ``scale``: with orthogonal rows, or lower triangular.

    Units may differ by more than the digits that a singular value has; triangular factors keep each unit apart.
    """
    spectral = spectral_factors(factors / scale)
    lengths = np.linalg.norm(spectral, axis=-1)
    if (lengths.min(-1) > GRADED * lengths.max(-1)).all():
        return spectral
    _, upper = np.linalg.qr(factors.astype(np.float64)[..., ::-1])
    return np.asarray(np.tril(upper[..., ::-1, ::-1]) / scale)


def orthonormal_rows(factors: npt.NDArray[Any]) -> bool:
    """Tell whether the rows of all matrices are orthogonal."""
    unit = factors.astype(np.float64)
    unit /= np.linalg.norm(unit, axis=-1, keepdims=True)
    products = unit @ unit.swapaxes(-1, -2)
    return bool(np.abs(products - np.eye(products.shape[-1])).max() < ORTHONORMAL)


def independent_rows(factors: npt.NDArray[Any]) -> bool:
    """Tell whether the rows of all matrices are orthogonal, more or less, and none is zero."""
    unit = factors.astype(np.float64)
    lengths = np.linalg.norm(unit, axis=-1, keepdims=True)
    if not (lengths > 0).all():
        return False
    products = (unit / lengths) @ (unit / lengths).swapaxes(-1, -2)
    return bool(np.abs(products - np.eye(products.shape[-1])).max() < INDEPENDENT)


def require_correlations(
    name: str,
    products: npt.NDArray[Any],
    first: npt.NDArray[Any],
    second: npt.NDArray[Any],
    rounding: float = float(np.finfo(np.float32).tiny),
) -> None:
    """Raise ValueError for covariances (K, L, D) that are far larger than variances (K, L) and (K, D) allow.

    Those that are not far larger than ``rounding`` may stay where variances are zero.
    """
    most = FAR * np.sqrt(first.max(-1, initial=0.0).astype(np.float64) * second.max(-1, initial=0.0))
    found = np.abs(products).max((1, 2), initial=0.0)
    if (found > np.maximum(most, FAR * rounding)).any():
        raise ValueError(f"tensor '{name}' holds {found.max():.6g}, which the variances do not allow")


def limited(factor: npt.NDArray[Any], least: float, most: float) -> Numbers:
    """Return a factor (D, D) of the same form whose singular values are within bounds."""
    _, sizes, directions = np.linalg.svd(factor.astype(np.float64))
    clipped = np.clip(sizes, least, most)[:, None] * directions
    return clipped if np.triu(factor, 1).any() else precision_factors(clipped.T @ clipped)


def blocks(first: npt.NDArray[Any], second: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Put two stacks of square matrices together: (K, D + E, D + E), with zeros off the diagonal."""
    size = first.shape[1] + second.shape[1]
    both = np.zeros((len(first), size, size), first.dtype)
    both[:, : first.shape[1], : first.shape[1]] = first
    both[:, first.shape[1] :, first.shape[1] :] = second
    return both
