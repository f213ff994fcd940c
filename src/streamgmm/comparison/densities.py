"""Exact test log-likelihood of ours on raw rows and of scikit-learn's on standardised ones, in the same units."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from streamgmm.comparison.contenders import Rows, fit_validated, our_mixture
from streamgmm.comparison.sample_set import SampleSet


def measure_density(samples: SampleSet, components: int, split: int, seed: int) -> dict[str, Any]:
    """Return the mean test log-likelihood of both, in standardised units of the training part.

    Ours learns raw rows. A log-likelihood in units of one standard deviation is larger by the sum of their logarithms.

    Parameters
    ----------
    samples : SampleSet
        A dequantised set.
    components : int
        Number of components.
    split : int
        Number of the split.
    seed : int
        Seed of both models.
    """
    train, test = (samples.rows[part] for part in samples.split(split))
    scaler = StandardScaler().fit(train)
    ours, our_seconds, said = fit_ours(train, components, seed)
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # counted below
        theirs = fit_validated(scaler.transform(train), components, seed)
    their_seconds = time.perf_counter() - begin
    return {
        "ours": float(ours.score_samples(test).mean() + np.log(scaler.scale_).sum()),
        "theirs": float(theirs.model.score(scaler.transform(test))),
        "our_seconds": our_seconds,
        "their_seconds": their_seconds,
        "reg_covar": theirs.reg_covar,
        "their_failures": theirs.failures,
        "their_unconverged": int(not theirs.model.converged_),
        "our_warnings": said,
    }


def fit_ours(train: Rows, components: int, seed: int) -> tuple[Any, float, list[str]]:
    """Fit our mixture; return it, the seconds that this took, and the warnings it gave.

    Parameters
    ----------
    train : ndarray of shape (N, D)
        Raw rows.
    components : int
        Number of components.
    seed : int
        Its random state.
    """
    begin = time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = our_mixture(components, seed).fit(train)
    return model, time.perf_counter() - begin, [str(warning.message) for warning in caught]
