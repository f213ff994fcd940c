"""The natural rule on real data, batch size 1, random start: with a cap, as the paper's values have, and by default.

One seed here; its threshold leaves room for the spread between seeds. `make soak` holds the mean of three seeds
against the targets, less what the mean of three may be off by; SVHN after one pass misses its target (docs/results.md).
"""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture, datasets
from tests.quality.data import available

TARGETS = {  # after 1 pass, after 3 passes, spread of one seed after 1 pass and after 3
    "mnist": (222.0, 223.4, 0.5, 0.7),
    "fashionmnist": (246.5, 248.0, 0.5, 0.8),
    "svhn": (1331.0, 1333.0, 4.0, 3.0),
    "devanagari": (-2.0, 4.0, 3.5, 4.0),
    "notmnist": (-30.0, -24.0, 4.0, 3.0),
    "isolet": (215.0, 225.0, 3.0, 2.0),
}
DEFAULTS = {  # without a cap: mean of three seeds after 1 pass and after 3, and room for one seed
    "mnist": (1301.0, 1789.0, 150.0, 50.0),
    "fashionmnist": (1464.0, 1653.0, 60.0, 50.0),
    "svhn": (2407.0, 2439.0, 20.0, 15.0),
    "devanagari": (144.0, 242.0, 12.0, 12.0),
    "notmnist": (375.0, 511.0, 15.0, 12.0),
    "isolet": (419.0, 469.0, 5.0, 5.0),
}
MET_BY_THE_MEAN = dict.fromkeys(TARGETS, (True, True)) | {"svhn": (False, True)}  # docs/results.md


def passes(name: str, seed: int, scale: str = "none") -> list[float]:
    data = datasets.load(available(name))
    x, test = datasets.scaled(data.x_train), datasets.scaled(data.x_test)
    model = StreamingGaussianMixture(rule="natural", scale=scale, random_state=seed)
    order = np.random.default_rng(seed)
    values = []
    for _ in range(3):
        model.partial_fit(x[order.permutation(len(x))])
        values.append(model.max_component_score_samples(test).mean())
    assert model.weights_.min() >= 0.1 / 64
    return values


QUICKLY = [("none", "mnist"), ("none", "isolet"), ("auto", "svhn"), ("auto", "fashionmnist"), ("auto", "isolet")]
SLOWLY = [(scale, name) for scale in ("none", "auto") for name in TARGETS if (scale, name) not in QUICKLY]


@pytest.mark.parametrize(
    ("scale", "name"), [*QUICKLY, *(pytest.param(*case, marks=pytest.mark.soak) for case in SLOWLY)]
)
def test_one_seed(scale: str, name: str) -> None:
    once, thrice, room_once, room_thrice = (TARGETS if scale == "none" else DEFAULTS)[name]
    values = passes(name, 0, scale)
    print(f"{name}, scale={scale}: {values[0]:.1f} after one pass, {values[2]:.1f} after three")
    assert values[0] >= once - room_once
    assert values[2] >= thrice - room_thrice


@pytest.mark.soak
@pytest.mark.parametrize("name", TARGETS)
def test_mean_of_three_seeds(name: str) -> None:
    values = np.mean([passes(name, seed) for seed in range(3)], axis=0)
    print(f"{name}, mean of three seeds: {values[0]:.2f} after one pass, {values[2]:.2f} after three")
    for value, target, met in zip(values[[0, 2]], TARGETS[name], MET_BY_THE_MEAN[name], strict=False):
        assert value >= target - (0.3 if met else 3.0)
