"""The paper's values on real data: K = 64, batch size 1, three passes, the preset of the paper."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from tests.quality.data import images

SEEDS = [0, pytest.param(1, marks=pytest.mark.soak), pytest.param(2, marks=pytest.mark.soak)]


def trained(x: np.ndarray, seed: int, **settings: object) -> StreamingGaussianMixture:
    return StreamingGaussianMixture.paper(random_state=seed, **settings).fit(x)


@pytest.mark.parametrize("seed", SEEDS)
def test_mnist(seed: int) -> None:
    x, test = images("mnist")
    model = trained(x, seed)
    value = model.max_component_score_samples(test).mean()
    print(f"MNIST, seed {seed}: {value:.2f}")
    assert value >= 215.0
    assert len(np.unique(model.predict(test))) == 64
    without = trained(x, seed, annealing=False).max_component_score_samples(test).mean()
    print(f"MNIST without annealing, seed {seed}: {without:.2f}")
    assert without <= 160


@pytest.mark.parametrize("seed", SEEDS)
def test_fashion_mnist(seed: int) -> None:
    x, test = images("fashionmnist")
    value = trained(x, seed).max_component_score_samples(test).mean()
    print(f"FashionMNIST, seed {seed}: {value:.2f}")
    assert value >= 234.0


def test_the_order_of_the_first_samples_hardly_matters() -> None:
    x, _ = images("mnist")
    rng = np.random.default_rng(0)
    x = x[rng.permutation(len(x))[:20_000]]
    schedules = []
    for _ in range(3):
        model, sigmas = StreamingGaussianMixture.paper(random_state=0), []
        for part in x.reshape(20, 1000, -1):
            sigmas.append(model.partial_fit(part).sigma_)
        schedules.append(np.log(sigmas) / np.log(0.9))
        x[:100] = x[rng.permutation(100)]
    steps = np.array(schedules)
    assert np.ptp(steps, axis=0).max() <= 2.01  # steps of annealing by which any two runs ever differ
    assert steps[0, -1] > 5
