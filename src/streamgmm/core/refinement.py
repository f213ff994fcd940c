"""Refinement: batch EM on rows that are at hand, with a prior whose strength the data choose.

A stream is learned once. Where the rows can be read again, EM with the prior of [E24] brings the mixture to the maximum
that annealing has led it to. The scale of the prior, one number per feature, follows the gradient of the leave-one-out
likelihood ([E26]): what a row would score if it had not been learned.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
MOST_ITERATIONS = 200
TOLERANCE = 1e-5  # nats per feature and iteration
BLOCK_NUMBERS = 1 << 22  # of a block of rows × components × features
SCALES = (1e-5, 30.0)  # of the prior, in units of a feature's variance
LEAST_MASS = 1e-3
MOST_EVIDENCE = 1000.0  # beyond which the prior does not fade


class Fit(NamedTuple):
    """Weights (K,), means and variances without prior (K, D), masses (K,) and the scale of the prior (D,)."""

    weights: Numbers
    means: Numbers
    variances: Numbers
    masses: Numbers
    prior: Numbers

    @property
    def regularised(self) -> Numbers:
        """[E24] Variances with the prior, (K, D)."""
        return _with_prior(self.variances, self.masses[:, None], self.prior)


def refine(z: Numbers, counts: Numbers | None, start: Fit) -> Fit:
    """Iterate EM from ``start`` on samples z (N, D), each of which counts so often, until it converges."""
    fit, last = start, -np.inf
    if counts is None:
        counts = np.ones(len(z))
    z, counts = z[counts > 0], counts[counts > 0]
    for iteration in range(MOST_ITERATIONS):
        gathered = _gather(z, counts, fit)
        masses = np.maximum(gathered.masses, 1e-10)
        means = gathered.first / masses[:, None]
        variances = np.maximum(gathered.second / masses[:, None] - (means - fit.means) ** 2, 0.0)
        fit = Fit(masses / masses.sum(), means + 0.0, variances, masses, fit.prior)
        if iteration >= 2:
            gradient = _leave_one_out_gradient(z, counts, fit, gathered.responsibilities)
            step = np.clip(gradient / np.sqrt(4 * len(masses)), -0.5, 0.5)
            fit = fit._replace(prior=np.clip(fit.prior * np.exp(step), *SCALES))
        if iteration > 10 and abs(gathered.likelihood - last) < TOLERANCE * z.shape[1] and np.abs(step).max() < 0.05:
            break
        last = gathered.likelihood
    return fit


class _Gathered(NamedTuple):
    masses: Numbers
    first: Numbers
    second: Numbers  # about the old means
    responsibilities: Numbers
    likelihood: float


def _gather(z: Numbers, counts: Numbers, fit: Fit) -> _Gathered:
    """Sum the statistics of all samples under the present fit."""
    v = fit.regularised
    constant = np.log(np.maximum(fit.weights, 1e-300)) - 0.5 * np.log(2 * np.pi * v).sum(1)
    centre = fit.weights @ fit.means
    x, m = z - centre, fit.means - centre
    scores = constant - 0.5 * ((x**2) @ (1 / v).T - 2 * x @ (m / v).T + (m**2 / v).sum(1))
    top = scores.max(1, keepdims=True)
    r = np.exp(scores - top)
    total = r.sum(1, keepdims=True)
    likelihood = float(np.average((top + np.log(total))[:, 0], weights=counts))
    r *= counts[:, None] / total
    masses = r.sum(0)
    first = r.T @ x
    second = r.T @ x**2 - 2 * m * first + masses[:, None] * m**2
    return _Gathered(masses, first + masses[:, None] * centre, second, r / counts[:, None], likelihood)


def _leave_one_out_gradient(z: Numbers, counts: Numbers, fit: Fit, r: Numbers) -> Numbers:
    """[E26] Gradient of the leave-one-out log-likelihood of all samples with respect to log prior, (D,)."""
    size = max(1, BLOCK_NUMBERS // (len(fit.masses) * z.shape[1]))
    gradient = np.zeros(z.shape[1])
    total = counts.sum()
    for start in range(0, len(z), size):
        part = slice(start, start + size)
        own = r[part]
        left = np.maximum(fit.masses - own, LEAST_MASS)
        away = z[part, None] - fit.means
        ratio = (fit.masses / left)[..., None]
        spread = ratio * fit.variances - (own / left)[..., None] * ratio * away**2
        np.maximum(spread, 0, out=spread)
        away *= ratio
        v = _with_prior(spread, left[..., None], fit.prior)
        squares = away**2 / v
        scores = -0.5 * (np.log(2 * np.pi * v) + squares).sum(2) + np.log(left / total)
        q = np.exp(scores - scores.max(1, keepdims=True))
        q *= counts[part, None] / q.sum(1, keepdims=True)
        slope = 0.5 * (squares - 1) / v * (fit.prior / (np.minimum(left, MOST_EVIDENCE)[..., None] + 1))
        gradient += np.einsum("nk,nkd->d", q, slope)
    return gradient


def _with_prior(variances: Any, masses: Any, prior: Numbers) -> Any:
    """[E24] A prior with the weight of one sample, which expects the variance ``prior`` and never fades altogether."""
    known = np.minimum(masses, MOST_EVIDENCE)
    return (known * variances + prior) / (known + 1)
