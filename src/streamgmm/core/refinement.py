"""Refinement: what annealing has led a mixture to becomes the best maximum nearby.

A stream is learned once. Where the rows can be read again, batch EM brings the mixture to a maximum, and moves of
components ([E27]) lead out of poor ones. A move is kept if samples that were left out would score higher.
"""

from __future__ import annotations

import numpy as np

from streamgmm.core.batch_em import LEFT_OUT, Fit, Numbers, Sheet, converge, iterate, leave_one_out
from streamgmm.core.covariance import Covariance, Prior, covariance_kind
from streamgmm.core.parameters import Parameters
from streamgmm.core.relocation import relocated

MOST_MOVES = 20
FOLDS, ITERATIONS = 5, 10  # of the cross-validation, each from the fit to all samples
NEIGHBOURS = 40  # consecutive samples that are left out together, at least
PARTS = 100  # into which a long file is cut: the samples of a part are left out together
FEWEST, GONE = 0.5, -1e9  # samples that a component needs in a fold, and the logarithm of its weight without them


def refine(sheet: Sheet, fit: Fit, moves: int = MOST_MOVES) -> Fit:
    """Return a fit to all samples, from ``fit`` on, which changes, with at most so many attempts to move components."""
    converge(sheet, fit)
    most = max(1, len(fit.masses) // 4)
    promise = _promise(sheet, fit)
    for _ in range(moves):
        moved = relocated(sheet, fit, most)
        if moved is None:
            break
        converge(sheet, moved)
        promised = _promise(sheet, moved)
        if promised > promise:
            fit, promise = moved, promised
        elif most == 1:
            break
        else:
            most = 1  # many moves at once were too bold
    return fit


def refine_coupled(sheet: Sheet, fit: Fit) -> Fit:
    """Return a fit to all samples whose covariances couple features: from ``fit`` on, or from a better start.

    One component whose features are correlated can describe several clusters in a row, and EM does not divide it. Where
    features are independent within components, clusters are told apart, and moves lead out of poor maxima.
    """
    apart = refine(sheet, _with_kind(covariance_kind("diag"), fit))
    again = _with_kind(fit.parameters.kind, apart)
    for start in (fit, again):
        converge(sheet, start)
    return again if _promise(sheet, again) > _promise(sheet, fit) else fit


def _with_kind(kind: Covariance, fit: Fit) -> Fit:
    """Return a fit of another kind with the same means, variances, weights and prior, without correlations."""
    p, masses = fit.parameters, fit.masses
    values = kind.uncorrelated(p.means, fit.blend(fit.variances, masses[:, None]))
    parameters = Parameters(kind, values, p.logits)
    prior = Prior(kind.start_prior(p.n_features, p.dtype, 1.0), masses.copy())
    kind.set_prior(prior, list(fit.prior.rows[:, : p.n_features]))
    return Fit(parameters, kind.start_moments(parameters), prior, fit.bounds)


def _promise(sheet: Sheet, fit: Fit) -> float:
    """What samples may expect to score that were not learned."""
    some = sheet.some(LEFT_OUT)
    return float(some.counts @ leave_one_out(some, fit).scores)


def cross_validated(sheet: Sheet, fit: Fit, parts: int = PARTS) -> Numbers:
    """[E31] Return what each sample scores under a mixture that four fifths of the samples give, without it: (N,).

    Each fold starts from the fit to all samples, so it costs a few iterations. Neighbours are left out together: a
    burst of faults must not make itself look typical. A component that is left without samples is gone. Samples that
    count nothing are scored, too.
    """
    block = max(1, min(max(NEIGHBOURS, len(sheet) // parts), len(sheet) // (2 * FOLDS)))
    fold, scores = np.arange(len(sheet)) // block % FOLDS, np.empty(len(sheet))
    for number in range(min(FOLDS, len(sheet))):
        out = fold == number
        others = ~out & (sheet.counts > 0)
        rest, without = fit.copy(), Sheet(sheet.samples[others], sheet.counts[others])
        for _ in range(ITERATIONS if len(without) else 0):
            iterate(without, rest)
            rest.parameters.logits[rest.masses < FEWEST] = GONE
        scores[out] = rest.parameters.kind.score(rest.parameters, sheet.samples[out]).log_likelihood
    return scores
