"""Full covariances of data that leave nothing to divide by: each kind was found by a random search."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.core.covariance import Full
from streamgmm.core.covariance.dense import correlations_of, covariances_of, spectral_factors
from streamgmm.core.parameters import Parameters
from streamgmm.core.tensors import Tensors

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "covariance",
    [
        [[1.0, 1e-9], [1e-9, -1e-18]],  # rounding
        [[1e10, 1e-5], [1e-5, 0.0]],
        [[1e-320, 1e-10], [1e-10, 1e298]],
        [[1e300, 1e300], [1e300, 1e300]],
    ],
)
def test_restarts_follow_correlations_of_any_covariance(covariance: list[list[float]]) -> None:
    values = {"covariances": np.array([covariance]), "pending": np.zeros(1)}
    moments = Tensors(Full().moment_layout(2), values, np.dtype(np.float64))
    step = Full().offset(moments, 0, np.ones(2), np.random.default_rng(0))
    assert np.isfinite(step).all()
    assert (np.abs(step) < 10).all()
    assert (np.abs(correlations_of(np.array(covariance))) <= 1).all()


def test_units_that_differ_by_more_than_the_digits_of_a_number() -> None:
    units, rng = np.array([1e-15, 1.0, 1e15]), np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(4, 3, 3)))[0]
    spectral = np.array([10.0, 1.0, 0.1])[:, None] * turned
    p = Parameters(Full(), {"means": np.zeros((4, 3)), "factors": spectral}, np.zeros(4))
    before = p.kind.feature_variances(p)
    p.kind.reframe(p.tensors, np.zeros(3), units)
    p.refresh()
    p.kind.validate(p)
    np.testing.assert_allclose(p.kind.feature_variances(p), before * units**2, rtol=1e-9)
    flat = Parameters(Full(), {"means": np.zeros((1, 2)), "factors": np.array([[[1.0, 1.0], [1.0, 1.0]]])}, np.zeros(1))
    assert np.isfinite(covariances_of(spectral_factors(flat["factors"]))).all()


@pytest.mark.parametrize("batch_size", [1, 4])
@pytest.mark.parametrize("rule", ["natural", "sem", "sgd"])
def test_gaps_beside_numbers_at_the_end_of_single_precision(rule: str, batch_size: int) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 3)).astype(np.float32)
    x[:, 0] *= np.float32(9e36)
    x = np.clip(x, -9e36, 9e36)
    x[rng.random(x.shape) < 0.3] = np.nan
    settings = {"scale": "none", "precision_max": 1e6, "allow_nan": True, "period": 10, "random_state": 0}
    model = StreamingGaussianMixture(4, covariance_type="full", rule=rule, batch_size=batch_size, **settings)
    model.partial_fit(x)
    assert np.isfinite(model.means_).all()
    assert np.isfinite(model.precisions_).all()
    assert not np.isnan(model.score_samples(x)).any()
