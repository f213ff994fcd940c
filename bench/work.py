"""Cases to measure: each gives a function that does some work and says how much."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from bench.measure import Work
from streamgmm import StreamingGaussianMixture, datasets, kernels, training
from streamgmm.grid import filters, torus
from streamgmm.kernels import Parameters
from streamgmm.streams.glyphs import Glyphs

RATE = 0.001
BOUNDS = (1e-3, 20**0.5)


def images(name: str = "mnist", count: int = 20_000) -> tuple[str, np.ndarray]:
    """Rows of a data set, or of the built-in stream where its file is missing."""
    try:
        data = datasets.load(name)
    except FileNotFoundError:
        return "glyphs", Glyphs(seed=0).take(0, count)[0]
    rows = np.random.default_rng(0).permutation(len(data.x_train))[:count]
    return name, datasets.scaled(data.x_train[rows])


def random_mixture(components: int, features: int) -> Parameters:
    rng = np.random.default_rng([components, features])
    means = rng.random((components, features), dtype=np.float32)
    return Parameters(means, np.full(means.shape, 20**0.5, np.float32), np.zeros(components))


def sgd(p: Parameters, x: np.ndarray, sigma: float, batch_size: int = 1, scan_all: bool = False) -> Work:
    """Gradient steps over x, again and again."""
    g, whole = filters(torus(len(p)), sigma), len(x) // batch_size * batch_size

    def work() -> float:
        kernels.sgd_steps(p, x[:whole], g, rate=RATE, scale_bounds=BOUNDS, batch_size=batch_size, scan_all=scan_all)
        return float(whole)

    return work


def each(step: Callable[[np.ndarray], object], x: np.ndarray) -> Work:
    """One call a row."""

    def work() -> float:
        for row in x:
            step(row)
        return float(len(x))

    return work


def trained(rule: str, components: int, x: np.ndarray, sigma: float, **settings: object) -> Work:
    """Whole training, control and all, of a rule whose annealing stands at ``sigma``."""
    known = {"period": 1000, "sigma_init": sigma, "sigma_min": min(sigma, 0.01), "random_state": 0, **settings}
    model = StreamingGaussianMixture(components, rule=rule, **known).partial_fit(x[: 3 * components])
    state = model._training
    frozen = state.annealing

    def work() -> float:
        state.annealing = replace(state.annealing, sigma=frozen.sigma)  # it must not narrow while we measure
        if rule == "natural":
            state.rule_state["hold"] = np.array(sigma > 0.6)
        training.feed(state, x)
        return float(len(x))

    return work
