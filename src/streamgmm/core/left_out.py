"""Samples that are left out, one after the other, where covariances couple features ([E43])."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.covariance import Prior
from streamgmm.core.parameters import Parameters
from streamgmm.native import Floats

Numbers = npt.NDArray[np.float64]
UNLOCKED = 1e20  # weights of a prior from which a feature is not learned
LEAST = 1e-6  # of what is left of a squared distance


class Pairs(NamedTuple):
    """Samples and components that matter for them: numbers of both, the part of the sample, and the mass without it."""

    row: npt.NDArray[np.int64]
    component: npt.NDArray[np.int64]
    own: Numbers
    left: Numbers


class Slopes(NamedTuple):
    """What a gradient needs of each pair: how density changes with the variance of each feature, (pairs, D)."""

    densities: Numbers
    slopes: npt.NDArray[np.float32]


def densities_without(parameters: Parameters, prior: Prior, samples: Floats, pairs: Pairs) -> Slopes:
    """[E43] Log densities of samples under components that have not learned them, and their slopes.

    Leaving out a sample takes a multiple of its outer product from the covariance, so one squared distance tells both
    the new distance and the new determinant.
    """
    kind, width = parameters.kind, parameters.n_features
    expected, weight, *_ = prior.rows[:, :width].astype(np.float64)
    free = weight < UNLOCKED
    usual = float(np.median(weight[free])) if free.any() else 1.0
    given = kind.conditional_precisions(parameters)
    found, slopes = np.empty(len(pairs.row)), np.zeros((len(pairs.row), width), np.float32)
    for k in np.unique(pairs.component).tolist():
        at = np.flatnonzero(pairs.component == k)
        left, own, mass = pairs.left[at], pairs.own[at], float(prior.evidence[k])
        m = kind.prior_weight(usual, mass, width)
        away = np.nan_to_num(samples[pairs.row[at]] - parameters.means[k])
        pull = kind.pull(parameters, k, away)
        square = (away * pull).sum(1)
        grown = (mass + m) / (left + m)
        taken = own * mass / (left * (mass + m))
        rest = np.maximum(1 - taken * square, LEAST)
        farther = mass / left
        log_det = 2 * parameters.log_dets[k] - width * np.log(grown) - np.log(rest)
        distance = farther**2 * square / (grown * rest)
        found[at] = 0.5 * (log_det - width * np.log(2 * np.pi) - distance)
        turned = pull * (farther / (grown * rest))[:, None]
        precision = (given[k] + (taken / rest)[:, None] * pull**2) / grown[:, None]
        slopes[at] = 0.5 * (turned**2 - precision) * np.where(free, m * expected, 0.0) / (left + m)[:, None]
    return Slopes(found, slopes)
