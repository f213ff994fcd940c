"""The models that are compared: ours with its defaults, and scikit-learn's with a validated ``reg_covar``."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.estimators.anomaly import StreamingAnomalyDetector
from streamgmm.estimators.mixture import StreamingGaussianMixture

Rows = npt.NDArray[np.floating[Any]]

CANDIDATES = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3)
ANOMALY_REG_COVAR = 0.05
VALIDATION = 0.25  # share of the training part


def our_mixture(components: int, seed: int) -> StreamingGaussianMixture:
    """Return our mixture with its defaults.

    Parameters
    ----------
    components : int
        Number of components.
    seed : int
        Its random state.
    """
    return StreamingGaussianMixture(components, random_state=seed)


def our_detector(components: int, seed: int) -> StreamingAnomalyDetector:
    """Return our detector around a mixture with its defaults.

    Parameters
    ----------
    components : int
        Number of components.
    seed : int
        Random state of the mixture.
    """
    return StreamingAnomalyDetector(our_mixture(components, seed))


def their_mixture(components: int, seed: int, reg_covar: float = CANDIDATES[0]) -> Any:
    """Return scikit-learn's mixture of the same kind.

    Parameters
    ----------
    components : int
        Number of components.
    seed : int
        Its random state.
    reg_covar : float, default=1e-6
        What it adds to variances.
    """
    from sklearn.mixture import GaussianMixture

    return GaussianMixture(components, covariance_type="diag", reg_covar=reg_covar, random_state=seed)


class Validated(NamedTuple):
    """A mixture of scikit-learn whose ``reg_covar`` was chosen by validation.

    Parameters
    ----------
    model : GaussianMixture
        Fitted to all rows.
    reg_covar : float
        The choice.
    failures : int
        Candidates that scikit-learn could not fit.
    """

    model: Any
    reg_covar: float
    failures: int


def fit_validated(rows: Rows, components: int, seed: int) -> Validated:
    """Choose ``reg_covar`` on a quarter of the rows, then fit scikit-learn's mixture to all of them.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Standardised rows.
    components : int
        Number of components; at most three quarters of the rows.
    seed : int
        Seed of the validation part and of the mixtures.
    """
    from sklearn.model_selection import train_test_split

    fitted, held_out = train_test_split(rows, test_size=VALIDATION, random_state=seed)
    scores, failures = {}, 0
    for reg_covar in CANDIDATES:
        try:
            scores[reg_covar] = their_mixture(components, seed, reg_covar).fit(fitted).score(held_out)
        except ValueError:  # components with singular covariances; the message recommends a larger reg_covar
            failures += 1
    for reg_covar in sorted(scores, key=lambda candidate: -scores[candidate]):
        try:
            return Validated(their_mixture(components, seed, reg_covar).fit(rows), reg_covar, failures)
        except ValueError:
            failures += 1
    raise ValueError(f"scikit-learn could not fit {components} components to {len(rows)} rows with any reg_covar.")
