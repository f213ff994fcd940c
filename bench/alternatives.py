"""Alternatives that a user might choose: sample by sample, for scoring, and until the same quality is reached."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_info

from bench import peers, work
from bench.measure import Work, rates, ratio
from bench.report import Table
from streamgmm import Mixture, StreamingGaussianMixture, datasets, native
from streamgmm.core.grid import torus

MISSING = "not installed"


def sample_by_sample(quick: bool) -> list[Table]:
    """Compare training one sample at a time.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer rounds.
    """
    name, x = work.images()
    model = StreamingGaussianMixture(64, rule="sgd", random_state=0).partial_fit(x)
    p = model.trainer_.parameters
    means, scales = p.means.copy(), p["scales"].copy()
    few = np.ascontiguousarray(x[:50])
    numpy_peer = peers.NumpySgd(means, scales, torus(64), 0.01, work.RATE)
    steps: dict[str, Callable[[np.ndarray], object] | None] = {
        "NumPy, the same step": numpy_peer.step,
        "PyTorch autograd, the same objective": peers.torch_sgd(means, scales, work.RATE),
        "river cluster.KMeans": peers.river_kmeans(64),
        "scikit-learn MiniBatchKMeans.partial_fit": peers.minibatch_kmeans(means.astype(np.float32)),
    }
    cases = {name: work.each(step, few if "river" not in name else few[:5]) for name, step in steps.items() if step}
    cases["ours"] = work.sgd(p.copy(), x[:2000], 0.01)
    cases["scikit-learn MiniBatchKMeans.partial_fit, ours"] = work.each(lambda row: model.partial_fit(row[None]), few)
    if steps["river cluster.KMeans"]:
        cases["river cluster.KMeans, ours"] = work.each(peers.river_mixture(model.n_components), few)
    got = rates(cases, rounds=3 if quick else 5, seconds=0.2)
    table = Table(
        "Sample by sample",
        f"K=64, D={x.shape[1]}, {name}, batch size 1, one thread. First ratio: our samples per second of SGD with σ at "
        "its minimum, many rows per call, ÷ theirs, one row per call. Second ratio: one row per call on our side, too "
        "(`partial_fit(row)`, `OnlineMixture.learn_one`), where the overhead of a Python call dominates.",
        ["instead", "ours ÷ theirs", "a call for every row ÷ theirs"],
    )
    for name, step in steps.items():
        own = f"{name}, ours"
        calls = ratio(got[own], got[name]) if own in got else "–"
        table.add(name, ratio(got["ours"], got[name]) if step else MISSING, calls)
    return [table]


def scoring(quick: bool) -> list[Table]:
    """Compare the scoring of many rows.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer rounds.
    """
    blas = {str(each.get("architecture")) for each in threadpool_info() if each["user_api"] == "blas"}
    table = Table(
        "Scoring",
        "Exact log-likelihoods of many rows, float32, one thread: our rate ÷ that of two BLAS products with the same "
        "arrays (x² by precisions, x by weighted means; no exponentials), of GaussianMixture.score_samples, and of "
        f"gmmx (JAX, compiled). BLAS has the kernels of {', '.join(sorted(blas))}: Haswell stands for 32-byte vectors, "
        "SkylakeX for 64-byte ones (OPENBLAS_CORETYPE chooses). Threads are measured with four times as many "
        "rows. Last column: time of predict_proba ÷ that of score_samples.",
        [
            "vectors",
            "K",
            "D",
            "÷ two BLAS products",
            "÷ GaussianMixture",
            "÷ gmmx",
            "two threads ÷ one",
            "predict_proba, time",
        ],
    )
    sizes = ((64, 64, 4000), (64, 784, 4000), (1024, 784, 500), (64, 3072, 1000), (64, 30_000, 200))
    chosen = native.width()
    for width in native.widths()[-2:]:
        native.use_width(width)
        for components, features, count in sizes:
            x = np.random.default_rng(1).random((4 * count, features), dtype=np.float32)
            cases = {name: _counted(f, count) for name, f in _scoring_cases(components, x[:count]).items()}
            cases |= {name: _counted(f, len(x)) for name, f in _two_threads(components, x).items()}
            got = rates(cases, rounds=3 if quick else 5, seconds=0.2)
            table.add(
                width,
                components,
                features,
                ratio(got["ours"], got["blas"]),
                ratio(got["ours"], got["sklearn"]),
                ratio(got["ours"], got["gmmx"]) if "gmmx" in got else MISSING,
                ratio(got["two threads"], got["one thread"]),
                ratio(got["estimator"], got["proba"]),
            )
    native.use_width(chosen)
    return [table]


def _scoring_cases(components: int, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return ways to score rows under one mixture."""
    p = work.random_mixture(components, x.shape[1])
    mixture, precisions = Mixture(p), p["scales"] ** 2
    by_precision, by_mean, squares = precisions.T.copy(), (p.means * precisions).T.copy(), x * x
    out = np.empty((len(x), components), np.float32)
    estimator = _estimator(components, x)
    sklearn_model, jax = mixture.to_sklearn(), peers.gmmx_score(p.means.copy(), precisions.copy())

    def blas() -> None:
        np.dot(squares, by_precision, out=out)
        np.dot(x, by_mean, out=out)

    cases: dict[str, Callable[[], object]] = {
        "ours": lambda: mixture.scores(x),
        "blas": blas,
        "sklearn": lambda: sklearn_model.score_samples(x),
        "estimator": lambda: estimator.score_samples(x),
        "proba": lambda: estimator.predict_proba(x),
    }
    if jax:
        cases["gmmx"] = lambda: jax(x)
    return cases


def _two_threads(components: int, x: np.ndarray) -> dict[str, Callable[[], object]]:
    """Return the scoring of many rows on one thread, and on two."""
    one, two = (_estimator(components, x, n_jobs=n) for n in (None, 2))
    return {"one thread": lambda: one.score_samples(x), "two threads": lambda: two.score_samples(x)}


def _estimator(components: int, x: np.ndarray, n_jobs: int | None = None) -> StreamingGaussianMixture:
    means = work.random_mixture(components, x.shape[1]).means
    return StreamingGaussianMixture(components, means_init=means, random_state=0, n_jobs=n_jobs).partial_fit(x[:1])


def _counted(f: Callable[[], object], count: int) -> Work:
    def run() -> float:
        f()
        return float(count)

    return run


def until_as_good(quick: bool) -> list[Table]:
    """Compare the time to the quality of batch EM with a whole fit of scikit-learn.

    Parameters
    ----------
    quick : bool
        Whether to measure nothing: it takes minutes.
    """
    if quick:
        return []
    table = Table(
        "Until as good as batch EM",
        "K=64. The goal is the test log-likelihood of batch EM with the same limit on precisions, after 30 "
        "iterations from k-means, less 0.5 %. Ours: natural rule from random means, one thread, seconds of training "
        "until the goal is reached, tested every 2000 samples. Theirs: GaussianMixture(64, covariance_type='diag', "
        "max_iter=30, tol=0, reg_covar=0.05) from its k-means, all 30 iterations, all cores, with its own test "
        "log-likelihood (its variances are not limited to at least 0.05 but raised by 0.05).",
        ["data", "wanted", "ours", "samples", "theirs", "theirs ÷ ours, time"],
    )
    for name in ("mnist", "fashionmnist"):
        try:
            data = datasets.load(name)
        except FileNotFoundError:
            table.add(name, "no data", "-", "-", "-", "-")
            continue
        x, test = datasets.scaled(data.x_train), datasets.scaled(data.x_test)
        table.add(name, *_race(x, test))
    return [table]


def _race(x: np.ndarray, test: np.ndarray) -> list[Any]:
    from sklearn.mixture import GaussianMixture

    from streamgmm.paper.batch_em import batch_em

    wanted = float(batch_em(x, 0, 30).mixture.log_prob(test).mean())
    goal = wanted - 0.005 * abs(wanted)
    order, spent, seen = np.random.default_rng(0).permutation(len(x)), 0.0, 0
    rows = x[order]
    model = StreamingGaussianMixture(64, scale="none", precision_max=20.0, random_state=0)
    reached = -np.inf
    while reached < goal and seen < 3 * len(x):
        piece = rows[seen % len(x) : seen % len(x) + 2000]
        begin = time.perf_counter()
        model.partial_fit(piece)
        spent, seen = spent + time.perf_counter() - begin, seen + len(piece)
        reached = float(model.score_samples(test).mean())
    begin = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        peer = GaussianMixture(64, covariance_type="diag", max_iter=30, reg_covar=0.05, tol=0, random_state=0).fit(x)
    theirs = time.perf_counter() - begin
    return [goal, reached, seen, float(peer.score(test)), theirs / spent if reached >= goal else "not reached"]
