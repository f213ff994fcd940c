"""Things that several rooms of tests use."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from streamgmm import kernels
from streamgmm.kernels import Parameters

settings.register_profile(
    "house",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")


@pytest.fixture(params=kernels.widths())
def width(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every vector width that this machine can run, one after the other."""
    before = kernels.width()
    kernels.use_width(request.param)
    yield request.param
    kernels.use_width(before)


def random_parameters(rng: np.random.Generator, components: int, features: int, dtype: type = np.float64) -> Parameters:
    """A mixture with means in [0, 1], scales in [0.5, 4.4] and uneven weights."""
    means = rng.random((components, features)).astype(dtype)
    scales = rng.uniform(0.5, 4.4, (components, features))
    return Parameters(means, scales, rng.normal(0, 0.5, components))


def plain(p: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, means and scales as float64, as the reference takes them."""
    return p.logits.copy(), p.means.astype(np.float64), p.scales.astype(np.float64)
