"""How much quality many replicas cost: simulated in one process, beside one that learns alone."""

from __future__ import annotations

import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.engines.workers import LocalCluster
from tests.quality.data import images


@pytest.mark.parametrize(("replicas", "most"), [(2, 0.01), (8, 0.01), pytest.param(64, 0.03, marks=pytest.mark.soak)])
def test_replicas_cost_little(replicas: int, most: float) -> None:
    """Features in [0, 1] as they are: without a cap, chance moves results by more than replicas do."""
    x, test = images("fashionmnist")
    settings = {"scale": "none", "random_state": 0, "n_epochs": 1}
    alone = StreamingGaussianMixture(64, **settings).fit(x).score(test)
    together = StreamingGaussianMixture(64, engine=LocalCluster(replicas, 1000), **settings).fit(x).score(test)
    print(f"{replicas} replicas: {together:.1f}, alone {alone:.1f}")
    assert together >= alone - most * abs(alone)
