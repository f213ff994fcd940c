"""Cost of a sample against K and D, ours beside the passes of other libraries, as a table and as pictures."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import Table
from streamgmm import StreamingGaussianMixture

Pass = Callable[[np.ndarray], object]
"""Goes over rows once."""
SIZES = [(16, 784), (64, 784), (256, 784), (64, 16), (64, 64), (64, 256), (64, 3072)]
ROUNDS = 5


def costs(quick: bool) -> list[Table]:
    """Measure the time per row of one pass: of training, or of one iteration of batch algorithms.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer sizes.
    """
    table = Table(
        "Cost of a pass",
        "CPU microseconds per row of one pass over rows in clusters, float32, one thread. Ours learns each row by a "
        "step of its own, after annealing or while σ is 2 (wide). MiniBatchKMeans learns batches of 1024. The others "
        "make one iteration over all rows, of which they need tens; GaussianMixture scores rows twice. The least of 5.",
        ["K", "D", "who", "CPU µs per row"],
    )
    for components, features in SIZES[:4] if quick else SIZES:
        x = _clusters(components, features)
        for name, once in _passes(components, x):
            times = []
            for _ in range(ROUNDS):
                begin = time.process_time()
                once(x)
                times.append(1e6 * (time.process_time() - begin) / len(x))
            table.add(components, features, name, min(times))
    return [table]


def _clusters(components: int, features: int) -> np.ndarray:
    rng = np.random.default_rng([components, features])
    count = int(np.clip(1.2e8 / (components * features), 1024, 20_000))
    centres = rng.random((components, features), dtype=np.float32)
    rows = centres[rng.integers(components, size=count)]
    return rows + 0.2 * rng.standard_normal(rows.shape, dtype=np.float32)


def _passes(components: int, x: np.ndarray) -> Iterator[tuple[str, Pass]]:
    """Yield the cases that are installed, ready to go."""
    wide = {"sigma_init": 2.0, "tol": 1e-300}  # it never narrows
    for name, settings in (("ours", {}), ("ours, wide", wide), ("ours, sgd", {"rule": "sgd", "period": 200})):
        model = StreamingGaussianMixture(components, random_state=0, **settings).partial_fit(x)
        while model.sigma_ > 0.01 and settings is not wide:
            model.partial_fit(x)
        yield name, model.partial_fit
    yield "MiniBatchKMeans", _mini_batches(components, x)
    yield "GaussianMixture", _batch_em(components, x)
    others = {"GaussianMixture, torch": _batch_em_torch, "faiss": _faiss, "pomegranate": _pomegranate, "gmmx": _gmmx}
    for name, maker in others.items():
        try:
            yield name, maker(components, x)
        except ImportError:
            continue


def _mini_batches(components: int, x: np.ndarray) -> Pass:
    from sklearn.cluster import MiniBatchKMeans

    model = MiniBatchKMeans(components, init=x[:components], n_init=1, random_state=0, compute_labels=False)
    parts = [x[i : i + 1024] for i in range(0, len(x), 1024)]
    return lambda _: [model.partial_fit(part) for part in parts if len(part) >= components]


def _batch_em(components: int, x: np.ndarray, convert: Callable[[np.ndarray], Any] = np.asarray) -> Pass:
    from sklearn.mixture import GaussianMixture

    precisions = np.full((components, x.shape[1]), 25.0, x.dtype)
    model = GaussianMixture(
        components,
        covariance_type="diag",
        max_iter=1,
        tol=0,
        init_params="random_from_data",
        random_state=0,
        means_init=convert(x[:components]),
        precisions_init=convert(precisions),
    )

    def once(rows: np.ndarray) -> Any:
        with warnings.catch_warnings(action="ignore"):  # one iteration does not converge
            return model.fit(convert(rows))

    return once


def _batch_em_torch(components: int, x: np.ndarray) -> Pass:
    """scikit-learn's own path to PyTorch; it needs ``SCIPY_ARRAY_API=1`` from the start of the process."""
    import torch
    from sklearn import config_context

    if os.environ.get("SCIPY_ARRAY_API") != "1":
        raise ImportError("SCIPY_ARRAY_API is not set")
    torch.set_num_threads(1)
    once = _batch_em(components, x, torch.from_numpy)

    def dispatched(rows: np.ndarray) -> Any:
        with config_context(array_api_dispatch=True):
            return once(rows)

    return dispatched


def _faiss(components: int, x: np.ndarray) -> Pass:
    import faiss

    faiss.omp_set_num_threads(1)
    most = -(-len(x) // components)
    return lambda rows: faiss.Kmeans(
        rows.shape[1], components, niter=1, max_points_per_centroid=most, min_points_per_centroid=1, seed=0
    ).train(rows)


def _pomegranate(components: int, x: np.ndarray) -> Pass:
    import torch
    from pomegranate.distributions import Normal
    from pomegranate.gmm import GeneralMixtureModel

    torch.set_num_threads(1)
    variances = np.full(x.shape[1], 0.04, np.float32)
    parts = [Normal(x[k].copy(), variances.copy(), covariance_type="diag") for k in range(components)]
    model = GeneralMixtureModel(parts)
    # without the short M step, which fails here on variances that rounding made negative
    return lambda rows: model.summarize(torch.from_numpy(rows))


def _gmmx(components: int, x: np.ndarray) -> Pass:
    import jax
    from gmmx import EMFitter, GaussianMixtureModelJax

    weights = np.full(components, 1 / components, np.float32)
    variances = np.full((components, x.shape[1]), 0.04, np.float32)
    model = GaussianMixtureModelJax.from_squeezed(x[:components], variances, weights, covariance_type="diag")
    fitter = EMFitter(max_iter=1, tol=0.0)
    fitter.fit(x=x, gmm=model)  # compiles
    return lambda rows: jax.block_until_ready(fitter.fit(x=rows, gmm=model).gmm.means)


def draw(table: Table, folder: Path) -> None:
    """Draw the costs of a table against K and against D.

    Parameters
    ----------
    table : Table
        What ``costs`` returned.
    folder : Path
        Where to write cost-k.png and cost-d.png.
    """
    import matplotlib.pyplot as plt

    for name, fixed, axis in (("k", (1, 784), 0), ("d", (0, 64), 1)):
        figure, plot = plt.subplots(figsize=(7, 4))
        chosen = [row for row in table.rows if row[fixed[0]] == fixed[1]]
        for who in dict.fromkeys(row[2] for row in chosen):
            points = sorted((row[axis], row[3]) for row in chosen if row[2] == who)
            plot.plot(*zip(*points, strict=True), marker="o", linestyle="-" if "ours" in who else "--", label=who)
        plot.set(xscale="log", yscale="log", xlabel="components" if axis == 0 else "features", ylabel="CPU µs per row")
        plot.set_title("One pass, D = 784" if axis == 0 else "One pass, K = 64")
        sizes = sorted({row[axis] for row in chosen})
        plot.set_xticks(sizes, [str(size) for size in sizes], minor=False)
        plot.minorticks_off()
        plot.legend(fontsize=8, loc="upper left", bbox_to_anchor=(1, 1))
        figure.tight_layout()
        figure.savefig(folder / f"cost-{name}.png", dpi=110)
        plt.close(figure)
