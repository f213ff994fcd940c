"""Measuring a run: train, and evaluate on test data after every pass."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.control import Check
from streamgmm.core.rules import SGD, Natural, StochasticEM
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.datasets import FACTOR, Dataset
from streamgmm.engines import Serial
from streamgmm.paper.batch_em import batch_em
from streamgmm.paper.clustering_indices import davies_bouldin, dunn_index
from streamgmm.paper.run_data import data_of, floats
from streamgmm.paper.runs import Run

CHUNK = 2000
SHORT, FEW_SAMPLES = 200, 10_000  # the period where samples are too few for a check every 1000
SMALL_SETS = ("isolet", "fruits360")
POINTS = 200  # of a curve
DRAWS = 10
PAPERS_TOL = 0.05


def settings_of(run: Run, n_features: int) -> Settings:
    """Return the settings of a run; SGD has the paper's tolerance unless the run gives one.

    Parameters
    ----------
    run : Run
        The run.
    n_features : int
        Number of features.
    """
    values = {"scale": "none", **run.settings}
    start, weights = values.pop("precision_start", None), values.pop("weights_start", None)
    rule = values.get("rule")
    if rule == "sgd":
        values.setdefault("tol", PAPERS_TOL)
        values.setdefault("period", _period(run))
        if (baseline := values.pop("baseline", None)) is not None:
            values["rule"] = SGD(baseline=baseline)
    elif rule == "sem":
        values["rule"] = StochasticEM(**values.pop("sem", {}))
    elif "natural" in values:
        values["rule"] = Natural(**values.pop("natural"))
    settings = Settings(**values)
    size = settings.n_components
    if start is not None:
        settings = replace(settings, precisions_init=np.full((size, n_features), float(start)))
    if weights is not None:
        settings = replace(settings, weights_init=_start_weights(weights, size, run.seed))
    return settings


def _period(run: Run) -> int | None:
    """Return a shorter period where samples are few; None is the default."""
    if "own" in run.data:
        return SHORT if run.data["own"]["size"][0] < FEW_SAMPLES else None
    return SHORT if run.dataset in SMALL_SETS else None


def _start_weights(name: str, size: int, seed: int) -> npt.NDArray[np.float64]:
    """Return weights to start from: drawn at random, or half of everything for the first component."""
    if name == "random":
        return np.random.default_rng([seed, 4]).dirichlet(np.ones(size))
    return np.append(0.5, np.full(size - 1, 0.5 / (size - 1)))


def trainer_of(run: Run, n_features: int, means: npt.NDArray[np.float64] | None = None) -> Trainer:
    """Return a trainer at the start of a run.

    Parameters
    ----------
    run : Run
        The run.
    n_features : int
        Number of features.
    means : array of shape (K, D) or None, default=None
        Means to start from.
    """
    settings = settings_of(run, n_features)
    if means is not None:
        settings = replace(settings, means_init=means)
    return Trainer(settings, n_features, np.float32, engine=Serial(), seed=run.seed)


def feed(trainer: Trainer, x: npt.NDArray[Any], order: npt.NDArray[np.int64]) -> list[Check]:
    """Learn rows in the given order and return all checks.

    Parameters
    ----------
    trainer : Trainer
        What learns.
    x : array of shape (N, D)
        Rows; bytes need no conversion.
    order : array of int
        Numbers of the rows.
    """
    checks: list[Check] = []
    for start in range(0, len(order), CHUNK):
        checks += trainer.feed(x[order[start : start + CHUNK]], FACTOR)
    return checks


def measure(run: Run) -> dict[str, Any]:
    """Train, and evaluate on test data after every pass.

    Parameters
    ----------
    run : Run
        The run.

    Returns
    -------
    dict
        Figures after each pass, seconds of training, the curve of checks, and seconds by samples.
    """
    data = data_of(run)
    if run.method == "batch":
        return _measure_batch(run, data)
    means = _means_of_other_classes(run) if run.data.get("start_classes") is not None else None
    trainer = trainer_of(run, data.n_features, means)
    test, seen = floats(data.x_test), np.isin(data.y_test, np.unique(data.y_train))
    order, passes = np.random.default_rng([run.seed, 1]), []
    curve: list[list[float]] = []
    times: list[list[float]] = []
    spent = 0.0
    for done in range(1, run.passes + 1):
        rows = order.permutation(len(data.x_train))
        for start in range(0, len(rows), CHUNK):
            begin = time.perf_counter()
            checks = feed(trainer, data.x_train, rows[start : start + CHUNK])
            spent += time.perf_counter() - begin
            times.append([trainer.n_samples, spent])
            curve += [[c.samples, c.loss, c.max_component, c.sigma, c.learning_rate] for c in checks]
        found = evaluate(trainer, test, run.data.get("clusters", ()) if done == run.passes else ())
        if run.data.get("test_on") == "all":
            found |= _of_new_classes(trainer, test, seen)
        passes.append({**found, "seconds": spent, "samples": trainer.n_samples})
    return {"passes": passes, "seconds": spent, "curve": _thinned(curve), "times": _thinned(times)}


def _of_new_classes(trainer: Trainer, test: npt.NDArray[np.float32], seen: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Evaluate on the classes that were learned, and tell the others from them: area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    values = trainer.mixture.max_component(test)
    area = float(roc_auc_score(~seen, -values)) if 0 < seen.sum() < len(seen) else float("nan")
    return {"max_component_seen": float(values[seen].mean()), "auc": area}


def _thinned(points: list[list[float]]) -> list[list[float]]:
    return [*points[:: max(1, len(points) // POINTS)], *points[-1:]]


def _measure_batch(run: Run, data: Dataset) -> dict[str, Any]:
    """Run batch EM, with one iteration per pass, and evaluate it at the end."""
    x, test = floats(data.x_train), floats(data.x_test)
    begin = time.perf_counter()
    trainer = batch_em(x, run.seed, run.passes, run.settings.get("n_components", 64))
    seconds = time.perf_counter() - begin
    return {"passes": [{**evaluate(trainer, test), "seconds": seconds}], "seconds": seconds, "curve": []}


def _means_of_other_classes(run: Run) -> npt.NDArray[np.float64]:
    """Return the means of a model after one pass over the classes to start from."""
    part = {**run.data, "all_but": None, "classes": run.data["start_classes"], "start_classes": None}
    other = Run(run.dataset, run.method, run.seed, 1, run.settings, part)
    data = data_of(other)
    trainer = trainer_of(other, data.n_features)
    feed(trainer, data.x_train, np.random.default_rng([run.seed, 2]).permutation(len(data.x_train)))
    return trainer.mixture.means.astype(np.float64)


def index_key(index: str, count: int) -> str:
    """Return the name of a clustering index of some test samples.

    Parameters
    ----------
    index : str
        "davies_bouldin" or "dunn".
    count : int
        Number of test samples.
    """
    return f"{index} {count}"


def evaluate(trainer: Trainer, test: npt.NDArray[np.float32], clusters: Any = ()) -> dict[str, float]:
    """Evaluate a model on test data.

    Parameters
    ----------
    trainer : Trainer
        What has learned.
    test : array of shape (N, D)
        Test samples.
    clusters : sequence of int, default=()
        Numbers of test samples for clustering indices, which are means over ten draws, the same for all runs.
    """
    mixture = trainer.mixture
    responsibilities = mixture.responsibilities(test)
    labels = responsibilities.argmax(1)
    found = {
        "max_component": float(mixture.max_component(test).mean()),
        "log_likelihood": float(mixture.log_prob(test).mean()),
        "responsibility": float(responsibilities.max(1).mean()),
        "live": len(np.unique(labels)),
        "sigma": trainer.sigma,
    }
    for count in clusters:
        found |= _clustering(test, labels, count)
    return found


def _clustering(test: npt.NDArray[np.float32], labels: npt.NDArray[np.int64], count: int) -> dict[str, float]:
    """Return both indices, as means over draws of some test samples: a single pair may decide the Dunn index."""
    draws = [np.random.default_rng(i).permutation(len(test))[:count] for i in range(DRAWS if count < len(test) else 1)]
    scores = [davies_bouldin(test[some], labels[some]) for some in draws]
    dunns = [dunn_index(test[some], labels[some]) for some in draws]
    return {index_key("davies_bouldin", count): float(np.mean(scores)), index_key("dunn", count): float(np.mean(dunns))}
