"""Two threads against one."""

from __future__ import annotations

import copy
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from bench.measure import Work, rates, ratio
from bench.report import Table
from streamgmm import StreamingGaussianMixture, datasets


def two_threads(quick: bool) -> list[Table]:
    """Compare training on two threads with one.

    Parameters
    ----------
    quick : bool
        Whether to measure one rule only.
    """
    table = Table(
        "Two threads",
        "D=3072 (SVHN if its file exists), training of the estimator after annealing, validation and merging included: "
        "samples per second of n_jobs=2 ÷ n_jobs=1, and test log-likelihoods after three passes of both. 'limit': two "
        "independent models on two threads, with half of the samples each, ÷ one.",
        ["rule", "K", "two ÷ one", "limit", "one, nats", "two, nats", "difference"],
    )
    try:
        data = datasets.load("svhn")
        x, test = datasets.scaled(data.x_train), datasets.scaled(data.x_test[:5000])
    except FileNotFoundError:
        rng = np.random.default_rng(0)
        centres = rng.random((20, 3072), dtype=np.float32)
        x = centres[rng.integers(20, size=6000)] + rng.normal(0, 0.2, (6000, 3072)).astype(np.float32)
        x, test = x[:5000], x[5000:]
    x = x[np.random.default_rng(0).permutation(len(x))]
    for rule, components in (
        (("natural", 64),) if quick else (("natural", 64), ("natural", 256), ("sgd", 64), ("sem", 64))
    ):
        models = {n: StreamingGaussianMixture(components, rule=rule, random_state=0, n_jobs=n) for n in (1, 2)}
        for model in models.values():
            for _ in range(3):
                model.partial_fit(x)
        one, two = (float(m.score_samples(test).mean()) for m in models.values())
        cases = {str(n): _pass(m, x) for n, m in models.items()}
        apart = [copy.deepcopy(models[1]) for _ in range(2)]
        got = rates({**cases, "apart": _side_by_side(apart, x)}, rounds=5, seconds=0.5)
        limit = ratio(got["apart"], got["1"])
        difference = f"{100 * (two - one) / abs(one):+.2f} %"
        table.add(rule, components, ratio(got["2"], got["1"]), limit, one, two, difference)
    return [table]


def _side_by_side(models: list[StreamingGaussianMixture], x: np.ndarray) -> Work:
    """Return a case in which each model learns every other row on a thread of its own."""
    pool = ThreadPoolExecutor(len(models))

    def run() -> float:
        halves = [x[i :: len(models)] for i in range(len(models))]
        list(pool.map(lambda pair: pair[0].partial_fit(pair[1]), zip(models, halves, strict=True)))
        return float(len(x))

    return run


def _pass(model: StreamingGaussianMixture, x: np.ndarray) -> Work:
    def run() -> float:
        model.partial_fit(x)
        return float(len(x))

    return run
