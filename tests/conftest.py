"""Fixtures and helpers that several folders of tests share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from streamgmm import native

if TYPE_CHECKING:
    from streamgmm.core.parameters import Parameters
    from streamgmm.core.trainer import Trainer

# threads of scikit-learn's k-means would compete with other tests; it reads this when it is imported
os.environ.setdefault("OMP_NUM_THREADS", "1")

# `make sanitize` runs tests without the fixture below once per width
if "STREAMGMM_WIDTH" in os.environ:
    native.use_width(os.environ["STREAMGMM_WIDTH"])

settings.register_profile(
    "house",
    deadline=None,
    max_examples=60,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
settings.load_profile("house")


scales = pytest.mark.parametrize("scale", ["none", "auto"])
"""For what holds whether or not features are standardised inside the model."""


@pytest.fixture(params=native.widths())
def width(request: pytest.FixtureRequest) -> Iterator[str]:
    """Every vector width that this machine can run, one after the other."""
    before = native.width()
    native.use_width(request.param)
    yield request.param
    native.use_width(before)


def random_parameters(rng: np.random.Generator, components: int, features: int, dtype: type = np.float64) -> Parameters:
    """A mixture with means in [0, 1], scales in [0.5, 4.4] and uneven weights."""
    from streamgmm.core.covariance import Diagonal
    from streamgmm.core.parameters import Parameters

    means = rng.random((components, features)).astype(dtype)
    scales = rng.uniform(0.5, 4.4, (components, features))
    return Parameters(Diagonal(), {"means": means, "scales": scales}, rng.normal(0, 0.5, components))


def plain(p: Parameters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Logits, means and scales as float64, as the reference takes them."""
    return p.logits.copy(), p.means.astype(np.float64), p["scales"].astype(np.float64)


def make_trainer(
    n_features: int, dtype: type = np.float64, threads: int = 1, seed: int | None = 0, **settings: Any
) -> Trainer:
    """The training of an estimator with these settings, with the checks that ``feed`` returns."""
    from streamgmm.core.settings import Settings
    from streamgmm.core.trainer import Trainer
    from streamgmm.engines import engine_for

    return Trainer(Settings(**settings), n_features, dtype, engine=engine_for(threads), seed=seed)


def assert_same_training(here: Trainer, there: Trainer, same_generator: bool = True) -> None:
    """Two trainings agree in every bit of their state."""
    facts = [trainer.facts() for trainer in (here, there)]
    if not same_generator:
        for found in facts:
            del found["rng"]
    assert facts[0] == facts[1]
    assert here.learning_rate == there.learning_rate
    found, expected = here.tensors(), there.tensors()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        assert value.dtype == expected[name].dtype, name
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
