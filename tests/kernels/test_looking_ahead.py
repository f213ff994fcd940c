"""Steps that compare components with the next sample as they move them change only the time."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core.grid import filters, torus
from streamgmm.native import NaturalStep, Samples, SGDStep, Steps, diagonal, padded
from tests.kernels import BOUNDS, Mixture, random_mixture

RULES = ["sgd", "natural", "natural held", "natural prior", "natural prior held"]


def learned(rule: str, p: Mixture, calls: list[np.ndarray], sigma: float) -> tuple[list[Steps], list[np.ndarray]]:
    """The reports of some calls, and everything that they have changed; ``p`` itself stays."""
    p, grid = p.copy(), filters(torus(len(p)), sigma)
    if rule == "sgd":
        reports = [diagonal.sgd_steps(p.model, Samples(x), grid, SGDStep(0.01, BOUNDS)) for x in calls]
        return reports, [p.means, p.scales, p.logits, p.log_dets]
    variances, counts, evidence = p.variances(), np.full(len(p), 3.0), np.full(len(p), 2.0)
    moments, received = p.moments(variances, counts), np.zeros(len(p))
    if "prior" in rule:
        prior = padded([[v] * p.n_features for v in (0.05, 1.0, 0.0, 1e-3)], p.dtype, 1)
        moments = moments._replace(evidence=evidence, prior=prior)
    step = NaturalStep(growth=0.5, count_max=100.0, scale_bounds=BOUNDS, hold_scales="held" in rule)
    reports = [diagonal.natural_steps(p.model, moments, Samples(x), grid, step, received) for x in calls]
    return reports, [p.means, p.scales, p.log_dets, variances, counts, evidence, received]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("sigma", [2.0, 0.3])  # with the smaller one, most components stay where they are
@pytest.mark.parametrize(("components", "features"), [(25, 20), (16, 300), (9, 1100)])
@pytest.mark.parametrize("rule", RULES)
def test_many_steps_in_a_call_are_those_of_a_call_for_each(
    width: str, rule: str, components: int, features: int, sigma: float, dtype: type
) -> None:
    rng = np.random.default_rng([components, features])
    p, x = random_mixture(rng, components, features, dtype), rng.random((12, features)).astype(dtype)
    (together,), changed = learned(rule, p, [x], sigma)
    each, expected = learned(rule, p, list(x[:, None]), sigma)
    np.testing.assert_array_equal(together.losses, np.concatenate([report.losses for report in each]))
    np.testing.assert_array_equal(together.wins, np.sum([report.wins for report in each], axis=0))
    for found, wanted in zip(changed, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("bounds", [(1e-3, 20**0.5), (1e-5, 1e5), (1e-12, 1e12), (2.0, 1e9)])
def test_log_determinants_of_scales_at_their_bounds_and_outside(
    width: str, bounds: tuple[float, float], dtype: type
) -> None:
    rng = np.random.default_rng(1)
    shape = (16, 700)
    for scales in (np.full(shape, bounds[0] / 90), np.full(shape, bounds[1]), rng.choice(bounds, shape)):
        p = Mixture(rng.random(shape).astype(dtype), scales, np.zeros(len(scales)))
        step = SGDStep(1e-30, bounds)  # hardly moves means, and brings scales towards their bounds by a factor of two
        diagonal.sgd_steps(p.model, Samples(p.means[:1].copy()), filters(torus(len(p)), 2.0), step)
        np.testing.assert_allclose(p.log_dets, np.log(p.scales.astype(np.float64)).sum(1), rtol=2e-6, atol=1e-4)
