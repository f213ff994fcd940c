"""Full covariances while they learn, for few features and many: scores, gaps and conditions have closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import multivariate_normal

from streamgmm import StreamingGaussianMixture
from streamgmm.core import reference_coupled as eq
from tests.conftest import scales
from tests.laws.test_coupled_laws import correlated

rules = pytest.mark.parametrize("rule", ["natural", "sem", "sgd"])
sizes = pytest.mark.parametrize("features", [2, 5, 16, 64])
ROUNDING = 1e-8


def learning(rule: str, scale: str, **more: Any) -> StreamingGaussianMixture:
    cap = None if scale == "auto" else 100
    options = {"covariance_type": "full", "rule": rule, "scale": scale, "precision_max": cap, "period": 50, **more}
    return StreamingGaussianMixture(3, random_state=3, **options)


def scores(m: StreamingGaussianMixture, x: np.ndarray) -> np.ndarray:
    """Log-likelihoods by scipy, of marginals where rows have gaps."""
    weights, means, covariances = m.weights_, m.means_, m.covariances_
    found = []
    for row in x:
        o = ~np.isnan(row)
        parts = [
            multivariate_normal(a[o], c[np.ix_(o, o)]).logpdf(row[o]) for a, c in zip(means, covariances, strict=True)
        ]
        found.append(logsumexp(np.log(weights) + parts))
    return np.array(found)


@rules
@scales
@sizes
@pytest.mark.parametrize("gaps", [False, True])
def test_scores_are_scipys(rule: str, scale: str, features: int, gaps: bool) -> None:
    x = correlated(600, features)
    asked = x[:12].copy()
    asked[6:][np.random.default_rng(1).random((6, features)) < 0.3] = np.nan
    if gaps:
        x[np.random.default_rng(2).random(x.shape) < 0.1] = np.nan
        x = x[~np.isnan(x).all(1)]
    asked = asked[~np.isnan(asked).all(1)] if gaps else asked[:6]
    m = learning(rule, scale, allow_nan=gaps)
    for part in np.split(x, [1, 30, 201, 202, 350, 577]):
        m.partial_fit(part)
        expected = scores(m, asked)
        assert (np.abs(m.score_samples(asked) - expected) <= ROUNDING * np.maximum(1, np.abs(expected))).all()


@rules
@scales
@pytest.mark.parametrize("features", [2, 5, 16])
def test_conditions_are_those_of_the_closed_form(rule: str, scale: str, features: int) -> None:
    x = correlated(600, features)
    rows = x[:6].copy()
    rows[np.random.default_rng(1).random(rows.shape) < 0.4] = np.nan
    rows[:, 0], rows[:, 1] = np.nan, x[:6, 1]
    m = learning(rule, scale)
    for part in np.split(x, [250, 407]):
        m.partial_fit(part)
        filled, now = m.impute(rows), m.mixture_
        for n, (row, given) in enumerate(zip(rows, now.condition(rows), strict=True)):
            weights, means, covariances = eq.conditioned(row, np.log(m.weights_), m.means_, m.covariances_)
            close = {"rtol": ROUNDING, "atol": ROUNDING}
            np.testing.assert_allclose(given.weights, weights, **close)
            np.testing.assert_allclose(given.means, means, **close)
            np.testing.assert_allclose(given.covariances, covariances, **close)
            np.testing.assert_allclose(filled[n, np.isnan(row)], weights @ means, **close)


SIZES = [(4, np.float32), (2, np.float64), (16, np.float64)]


@pytest.mark.parametrize(("features", "dtype"), SIZES)
def test_eigenvectors_are_orthonormal_after_many_steps(features: int, dtype: type) -> None:
    x = correlated(100_000, features).astype(dtype)
    m = learning("sgd", "none", period=1000).partial_fit(x)
    rows = m.trainer_.parameters["factors"].astype(np.float64)
    unit = rows / np.linalg.norm(rows, axis=2, keepdims=True)
    np.testing.assert_allclose(unit @ unit.swapaxes(1, 2), np.tile(np.eye(features), (3, 1, 1)), atol=1e-6)
