"""Batch EM with the prior of [E24], on samples in memory; an iteration is one step of the natural rule.

What the prior expects of each feature follows the gradient of the leave-one-out likelihood ([E26]): what a sample would
score if it had not been learned.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import Bounds, Prior, Work
from streamgmm.core.grid import filters, ring
from streamgmm.core.left_out import Pairs, Slopes, densities_without
from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Tensors
from streamgmm.native import Floats, NaturalStep, Samples

Numbers = npt.NDArray[np.float64]
MOST_ITERATIONS = 200
TOLERANCE = 1e-5  # nats per feature and iteration
OPENING, INTERVAL = 2, 3  # iterations before the prior moves, and between its moves
QUIET = 5  # moves of the prior in a row that must hardly change anything at the end
EXPECTED = (1e-6, 30.0)  # bounds of what the prior expects, in units of a feature's variance
LEFT_OUT = 4000  # samples that are left out, one after the other
LEAST_MASS = 1e-3
NOTHING, UNUSED = 1e-10, -700.0  # mass of a component without samples, and the logarithm of its weight
NEAR = 12.0  # nats below the best component up to which others matter for a sample that is left out
PAIR_NUMBERS = 1 << 20  # numbers in one block of pairs of samples and components


@dataclass
class Fit:
    """Parameters of a mixture, the moments they come from, and the prior; its evidence are the masses."""

    parameters: Parameters
    moments: Tensors
    prior: Prior
    bounds: Bounds

    def copy(self) -> Fit:
        """Return a fit with arrays of its own."""
        prior = Prior(self.prior.rows.copy(), self.prior.evidence.copy())
        return Fit(self.parameters.copy(), self.moments.copy(), prior, self.bounds)

    @property
    def masses(self) -> Numbers:
        """Number of samples that each component has received, (K,)."""
        return self.prior.evidence

    @property
    def variances(self) -> Numbers:
        """Variances without the prior, (K, D)."""
        return np.asarray(self.parameters.kind.variances(self.moments), np.float64)

    def blend(self, variances: Any, masses: Any) -> Any:
        """[E24] Variances with the prior."""
        expected, weight, added, smallest = self.prior.rows[:, : self.parameters.n_features].astype(np.float64)
        found = masses * variances
        found += weight * expected
        found /= masses + weight
        found += added
        return np.maximum(found, smallest, out=found)

    def refresh(self) -> None:
        """Set the covariances from moments and prior."""
        p = self.parameters
        p.kind.set_from_moments(p, self.moments, self.bounds, range(len(p)), self.prior)


@dataclass(frozen=True)
class Sheet:
    """Samples (N, D), of which NaN marks gaps, and how often each counts (N,)."""

    samples: Floats
    counts: Numbers

    def __len__(self) -> int:
        return len(self.samples)

    def some(self, most: int) -> Sheet:
        """Return at most so many samples, evenly spaced."""
        if len(self) <= most:
            return self
        chosen = np.linspace(0, len(self) - 1, most).astype(np.int64)
        return Sheet(self.samples[chosen], self.counts[chosen])


def converge(sheet: Sheet, fit: Fit) -> float:
    """Iterate EM in place, and let the prior follow the leave-one-out likelihood; return the likelihood per sample."""
    last, promise, left_out, quiet = -inf, -inf, sheet.some(LEFT_OUT), 0
    for iteration in range(MOST_ITERATIONS):
        likelihood = iterate(sheet, fit)
        if iteration >= OPENING and iteration % INTERVAL == 0:
            found = leave_one_out(left_out, fit)
            _follow(found.gradient * (len(sheet) / len(left_out)), fit)
            promised = float(np.average(found.scores, weights=left_out.counts))
            tolerance = TOLERANCE * fit.parameters.n_features
            settled = abs(likelihood - last) < tolerance and abs(promised - promise) < 10 * tolerance
            quiet, promise = quiet + 1 if settled else 0, promised
            if quiet == QUIET:
                break
        last = likelihood
    return likelihood


def _follow(gradient: Numbers, fit: Fit) -> None:
    """Move what the prior expects along the gradient of the leave-one-out likelihood."""
    step = np.clip(gradient / np.sqrt(4 * len(fit.masses)), -0.5, 0.5)
    rows = fit.prior.rows[:, : len(gradient)]
    rows[0] = np.where(rows[1] < 1e20, np.clip(rows[0] * np.exp(step), *EXPECTED), rows[0])
    fit.refresh()


def iterate(sheet: Sheet, fit: Fit) -> float:
    """Take one step of EM, in place; return the mean log-likelihood before it."""
    p, size, most = fit.parameters, len(fit.masses), sheet.counts.max()
    found = p.kind.score(p, sheet.samples).log_likelihood
    samples = Samples(sheet.samples, len(sheet), gaps=True, shares=sheet.counts / most)
    work = Work(samples, filters(ring(size), 1e-6), fit.bounds)
    step = NaturalStep(growth=1.0, count_max=inf, scale_bounds=fit.bounds, soft=True)
    received = np.zeros(size)
    fit.prior.evidence[:] = 0.0
    p.kind.natural_steps(p, fit.moments, np.zeros(size), received, work, step, fit.prior)
    fit.prior.evidence[:] = np.maximum(most * received, NOTHING)
    # where a component was that has lost its samples, others like them must not find it
    p.logits[:] = np.where(fit.masses > NOTHING, np.log(fit.masses / fit.masses.sum()), UNUSED)
    fit.refresh()
    return float(np.average(found, weights=sheet.counts))


def responsibilities(scores: Numbers) -> Numbers:
    """Turn scores (N, K) into shares that sum to one."""
    r = np.exp(np.maximum(scores - scores.max(1, keepdims=True), -700.0))
    return np.asarray(r / r.sum(1, keepdims=True))


class LeftOut(NamedTuple):
    """Leave-one-out log-likelihood of each sample (N,), and the gradient of their sum for log expected, (D,)."""

    scores: Numbers
    gradient: Numbers


def leave_one_out(sheet: Sheet, fit: Fit) -> LeftOut:
    """[E26] Score samples under the mixture that has not learned them."""
    p, masses, z = fit.parameters, fit.masses, sheet.samples
    scores = p.kind.component_scores(p, z)
    row, component = near_pairs(scores)
    own = responsibilities(scores)[row, component]
    left = np.maximum(masses[component] - own, LEAST_MASS)
    pairs = Pairs(row, component, own, left)
    if p.kind.couples_features:
        found, slopes = densities_without(p, fit.prior, z, pairs)
    else:
        found, slopes = _apart(sheet, fit, pairs)
    found += np.log(left / masses.sum())
    top = np.full(len(z), -inf)
    np.maximum.at(top, row, found)
    q = np.exp(found - top[row])
    sums = np.bincount(row, q, len(z))
    q *= (sheet.counts / sums)[row]
    return LeftOut(top + np.log(sums), np.asarray(q.astype(np.float32) @ slopes, np.float64))


def _apart(sheet: Sheet, fit: Fit, pairs: Pairs) -> Slopes:
    """[E26] Log densities without each sample, and their slopes, where features are independent."""
    row, component, own, left = pairs
    p, z = fit.parameters, sheet.samples
    ratio, means, variances = fit.masses[component] / left, np.asarray(p.means, np.float64), fit.variances
    expected, weight, *_ = fit.prior.rows[:, : p.n_features].astype(np.float64)
    found, slopes = np.empty(len(row)), np.empty((len(row), p.n_features), np.float32)
    size, any_gaps = max(1, PAIR_NUMBERS // p.n_features), bool(np.isnan(z).any())
    for start in range(0, len(row), size):
        part = slice(start, start + size)
        away = z[row[part]] - means[component[part]]
        gaps = np.isnan(away) if any_gaps else None
        if gaps is not None:
            away[gaps] = 0.0
        scale, rest = ratio[part, None], left[part, None]
        squares = np.square(away, out=away)
        spread = scale * (variances[component[part]] - own[part, None] / rest * squares)
        v = fit.blend(np.maximum(spread, 0, out=spread), rest)
        squares *= scale**2
        squares /= v
        terms, slope = np.log(2 * np.pi * v), 0.5 * (squares - 1)
        terms += squares
        slope *= weight * expected / (rest + weight)
        slope /= v
        if gaps is not None:
            terms[gaps] = slope[gaps] = 0.0
        found[part], slopes[part] = -0.5 * terms.sum(1), slope
    return Slopes(found, slopes)


def near_pairs(scores: Numbers) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Pair each sample with the components that matter for it: those near the best one, and at least two."""
    row, component = np.nonzero(scores >= scores.max(1, keepdims=True) - NEAR)
    if scores.shape[1] == 1:
        return row, component
    alone = np.flatnonzero(np.bincount(row, minlength=len(scores)) == 1)
    second = np.argpartition(scores[alone], -2, axis=1)[:, -2]  # without itself a sample may prefer it
    return np.concatenate([row, alone]), np.concatenate([component, second])
