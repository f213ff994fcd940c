"""Moves that lead batch EM out of poor maxima: two components become one, and another one becomes two ([E27])."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.batch_em import Fit, Numbers, Sheet, responsibilities

LOCAL_ITERATIONS = 8  # of EM within a component that might be split
POWER_ITERATIONS = 6
LEAST_SAMPLES = 8.0  # of a component that might be split
MARGIN = 2.0  # nats that a move must promise
OWN = 1e-3  # responsibility from which a sample belongs to a component


class Halves(NamedTuple):
    """A component as two: shares (2,) of its mass, means and variances (2, D), and what that gains in nats."""

    shares: Numbers
    means: Numbers
    variances: Numbers
    gain: float


class Move(NamedTuple):
    """Make two components of ``split``, with room from ``one`` and ``other``, which become one."""

    split: int
    one: int
    other: int


def relocated(sheet: Sheet, fit: Fit, most: int) -> Fit | None:
    """[E27] Return the fit after the most promising moves, at most so many; None if none promises anything."""
    p = fit.parameters
    shares = responsibilities(p.kind.component_scores(p, sheet.samples))
    halves = [halve(sheet, shares[:, k], fit, k) for k in range(len(p))]
    gains = np.array([-np.inf if half is None else half.gain for half in halves])
    costs = merge_costs(fit)
    free = np.ones(len(gains), np.bool_)
    moved, any_move = fit.copy(), False
    for _ in range(most):
        move = _best_move(gains, costs, free)
        if move is None:
            break
        half = halves[move.split]
        assert half is not None
        _apply(moved, move, half)
        free[list(move)], any_move = False, True
    moved.parameters.logits[:] = np.log(moved.masses / moved.masses.sum())
    moved.refresh()
    return moved if any_move else None


def merge_costs(fit: Fit) -> Numbers:
    """[E27] Estimate what samples lose if each pair of components became one, in nats: (K, K)."""
    m, means, variances = fit.masses, np.asarray(fit.parameters.means, np.float64), fit.variances
    own = m * (np.log(m) - 0.5 * np.log(fit.blend(variances, m[:, None])).sum(1))
    costs = np.empty((len(m), len(m)))
    for k in range(len(m)):
        both = m + m[k]
        together = _pooled(m[:, None] / both[:, None], means, means[k], variances, variances[k])[1]
        costs[k] = own + own[k] - both * (np.log(both) - 0.5 * np.log(fit.blend(together, both[:, None])).sum(1))
    np.fill_diagonal(costs, np.inf)
    return np.maximum(costs, 0.0)


def halve(sheet: Sheet, shares: Numbers, fit: Fit, k: int) -> Halves | None:
    """[E27] Fit two Gaussians to the samples of component k, of which it has shares (N,); None if they are too few."""
    own = shares > OWN
    weights = shares[own] * sheet.counts[own]
    if weights.sum() < LEAST_SAMPLES:
        return None
    mean = np.asarray(fit.parameters.means[k], np.float64)
    v = fit.blend(fit.variances[k], fit.masses[k])
    x = np.nan_to_num(sheet.samples[own] - mean)  # gaps are at the mean
    found = [_split(x, weights, fit, v, side) for side in _sides(x / np.sqrt(v), weights)]
    best = max(found, key=lambda half: half.gain)
    return best._replace(means=best.means + mean)


def _split(x: Numbers, weights: Numbers, fit: Fit, v: Numbers, above: npt.NDArray[np.bool_]) -> Halves:
    """Fit two Gaussians to weighted samples about the mean of one with variances v (D,), from these halves on."""
    parts, mass = np.stack([~above, above]).astype(np.float64), weights.sum()
    for _ in range(LOCAL_ITERATIONS):
        taken = parts * weights
        masses = np.maximum(taken.sum(1), 1e-10)
        means = taken @ x / masses[:, None]
        spread = np.maximum(taken @ x**2 / masses[:, None] - means**2, 0.0)
        scores = np.log(masses / mass)[:, None] + _log_densities(x, means, fit.blend(spread, masses[:, None]))
        top = scores.max(0)
        total = top + np.log(np.exp(np.maximum(scores - top, -700)).sum(0))
        parts = np.exp(np.maximum(scores - total, -700))
    gain = weights @ (total - _log_densities(x, np.zeros((1, len(v))), v[None])[0])
    return Halves(masses / mass, means, spread, float(gain))


def _log_densities(x: Numbers, means: Numbers, variances: Numbers) -> Numbers:
    """Log densities of rows (N, D) under Gaussians, (K, N)."""
    found = [((x - m) ** 2 / v).sum(1) + np.log(2 * np.pi * v).sum() for m, v in zip(means, variances, strict=True)]
    return -0.5 * np.stack(found)


def _best_move(gains: Numbers, costs: Numbers, free: npt.NDArray[np.bool_]) -> Move | None:
    """Return the move that gains the most among components that are free."""
    best, found = MARGIN, None
    allowed = np.where(free[:, None] & free, costs, np.inf)
    for k in np.flatnonzero(free).tolist():
        others = allowed.copy()
        others[k] = others[:, k] = np.inf
        pair = int(others.argmin())
        if gains[k] - others.flat[pair] > best:
            best, found = gains[k] - others.flat[pair], Move(k, *divmod(pair, len(gains)))
    return found


def _apply(fit: Fit, move: Move, half: Halves) -> None:
    """Make a move, in place; covariances are left to the caller."""
    masses, means, variances = fit.masses, fit.parameters.means, fit.parameters.kind.variances(fit.moments)
    k, i, j = move
    share = masses[i] / (masses[i] + masses[j])
    pair = (means[i], means[j], variances[i], variances[j])
    means[i], variances[i] = _pooled(share, *(np.array(values, np.float64) for values in pair))
    masses[i] += masses[j]
    masses[[j, k]] = half.shares * masses[k]
    means[[j, k]], variances[[j, k]] = half.means, half.variances


def _pooled(share: Any, mean: Numbers, other_mean: Numbers, variance: Numbers, other_variance: Numbers) -> Any:
    """Return mean and variance of two Gaussians together, of which the first has this share."""
    between = share * (1 - share) * (mean - other_mean) ** 2
    pooled = share * variance + (1 - share) * other_variance + between
    return share * mean + (1 - share) * other_mean, pooled


def _sides(z: Numbers, weights: Numbers) -> list[npt.NDArray[np.bool_]]:
    """Cut samples (N, D) of a common scale in two: across the largest spread, and where a feature has two peaks."""
    z = z - np.average(z, axis=0, weights=weights)
    axis = z[(weights * (z**2).sum(1)).argmax()] + 1e-12  # power iteration, from the sample that spreads the most
    for _ in range(POWER_ITERATIONS):
        axis = (weights * (z @ axis)) @ z
        axis /= np.sqrt(axis @ axis) + 1e-300
    squares = np.average(z**2, axis=0, weights=weights)
    kurtosis = np.average(z**4, axis=0, weights=weights) / np.maximum(squares, 1e-12) ** 2
    two_peaks = z[:, kurtosis.argmin()]
    return [z @ axis > 0, two_peaks > 0]
