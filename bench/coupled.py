"""Covariances that couple features: low rank against diagonal and BLAS, full against NumPy."""

from __future__ import annotations

import numpy as np

from bench.measure import Work, rates, ratio
from bench.report import Table
from bench.work import images
from streamgmm import StreamingGaussianMixture
from streamgmm.core.covariance import Full
from streamgmm.core.covariance import Work as Batches
from streamgmm.core.grid import filters, ring
from streamgmm.core.parameters import Parameters
from streamgmm.native import NaturalStep, Samples

RANK = 8


def coupled(quick: bool) -> list[Table]:
    """Measure low-rank training and scoring, and full training.

    Parameters
    ----------
    quick : bool
        Whether to use fewer rounds.
    """
    rounds = 2 if quick else 5
    name, x = images(count=4000)
    paper = {"scale": "none", "precision_max": 20.0, "random_state": 0}
    models = {
        kind: StreamingGaussianMixture(64, covariance_type=kind, rank=RANK, **paper).partial_fit(np.tile(x, (3, 1)))
        for kind in ("diag", "low_rank")
    }
    found = rates({kind: _training(model, x) for kind, model in models.items()}, rounds)
    slower = ratio(found["diag"], found["low_rank"])
    scoring = rates({"ours": _scoring(models["low_rank"], x), "BLAS": _products(models["low_rank"], x)}, rounds)
    steps = {
        case: rates({"ours": _full_steps(apart), "NumPy": _numpy_steps(apart)}, rounds)
        for case, apart in (("rows in clusters", 1.0), ("rows without clusters", 0.0))
    }
    table = Table(
        "Covariances that couple features",
        f"One thread. Training and scoring of low-rank covariances on {name}, K = 64, L = {RANK}, float32; full "
        "covariances with D = 64, K = 8, float64, one sample at a time. Clusters are 11 standard deviations apart; "
        "where there are none, every component comes close to every sample, and none can be abandoned early.",
        ["case", "ratio", "target"],
    )
    table.add("low rank: training ÷ (L + 1) × diagonal, time", tuple(r / (RANK + 1) for r in slower), "at most 4")
    table.add("low rank: scoring ÷ its matrix products, time", ratio(scoring["BLAS"], scoring["ours"]), "at most 1.5")
    for case, found in steps.items():
        faster = ratio(found["ours"], found["NumPy"])
        table.add(f"full: steps ÷ NumPy with the same updates, speed, {case}", faster, "at least 20")
    return [table]


def _training(model: StreamingGaussianMixture, x: np.ndarray) -> Work:
    def run() -> float:
        model.partial_fit(x[:1000])
        return 1000.0

    return run


def _scoring(model: StreamingGaussianMixture, x: np.ndarray) -> Work:
    mixture = model.mixture_

    def run() -> float:
        mixture.log_prob(x)
        return float(len(x))

    return run


def _products(model: StreamingGaussianMixture, x: np.ndarray) -> Work:
    """Products of rows with means, squares with precisions, and rows with projections."""
    p = model.trainer_.parameters
    squares = np.ascontiguousarray(p["scales"].T ** 2)
    means = np.ascontiguousarray((p.means * p["scales"] ** 2).T)
    projections = np.ascontiguousarray(p["projections"].reshape(-1, p.n_features).T)

    def run() -> float:
        _ = (x**2) @ squares
        _ = x @ means
        _ = x @ projections
        return float(len(x))

    return run


def _full_start(apart: float) -> tuple[np.ndarray, Parameters]:
    """Rows of eight clusters, and a mixture whose means are their centres; 0 puts all centres in one place."""
    rng = np.random.default_rng(0)
    kind, means = Full(), rng.normal(size=(8, 64))
    x = apart * means[rng.integers(8, size=500)] + rng.normal(size=(500, 64))
    return x, Parameters(kind, kind.initial(means, None, 1.0), np.zeros(8))


def _full_steps(apart: float) -> Work:
    x, p = _full_start(apart)
    moments, counts, received = p.kind.start_moments(p), np.full(8, 100.0), np.zeros(8)
    work = Batches(Samples(x), filters(ring(8), 0.01), p.kind.bounds(100.0))
    step = NaturalStep(growth=0.0, count_max=100.0, scale_bounds=work.bounds)

    def run() -> float:
        p.kind.natural_steps(p, moments, counts, received, work, step)
        return float(len(x))

    return run


def _numpy_steps(apart: float) -> Work:
    """The same: scores, the winner, its moments, and its factor when the rates add up to a twentieth.

    Products go to BLAS and arrays are reused; a loop with ``einsum`` and new arrays takes a fifth longer.
    """
    x, p = _full_start(apart)
    means, factors = np.array(p.means), np.array(p["factors"])
    covariances, pending, log_dets = np.tile(np.eye(64), (8, 1, 1)), np.zeros(8), p.log_dets.copy()
    more, product = 0.01 * np.eye(64), np.empty((64, 64))

    def run() -> float:
        for row in x:
            away = row - means
            y = factors @ away[:, :, None]
            scores = log_dets - 0.5 * (y * y).sum((1, 2))
            k, r = int(scores.argmax()), 0.01
            means[k] += r * away[k]
            np.multiply(away[k][:, None], (r * (1 - r)) * away[k], out=product)
            covariances[k] *= 1 - r
            covariances[k] += product
            pending[k] += r
            if pending[k] >= 0.05:
                root = np.linalg.cholesky(covariances[k] + more)
                factors[k] = np.linalg.inv(root)
                log_dets[k], pending[k] = -np.log(root.diagonal()).sum(), 0.0
        return float(len(x))

    return run
