"""Measuring a run: train, and evaluate on test data after every pass."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets
from streamgmm.core.control import Check
from streamgmm.core.rules import Natural, StochasticEM
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.datasets import FACTOR, Dataset
from streamgmm.engines import Serial
from streamgmm.paper.batch_em import batch_em
from streamgmm.paper.clustering_indices import davies_bouldin, dunn_index
from streamgmm.paper.runs import Run

CHUNK = 2000
SHORT_PERIODS = {"isolet": 200, "fruits360": 200}  # too few samples for a check every 1000
CURVE_POINTS = 200


@lru_cache(maxsize=1)
def _whole(name: str, folders: tuple[Path, ...]) -> Dataset:
    """Load a data set; ``folders`` tells apart sets of the same name."""
    data = datasets.load(name)
    if data.x_train.dtype == np.uint8:
        return data
    return replace(data, x_train=datasets.scaled(data.x_train), x_test=datasets.scaled(data.x_test))


def data_of(run: Run) -> Dataset:
    """Return the data of a run: some classes, some rows, or a patch from the middle of each image.

    Parameters
    ----------
    run : Run
        The run.
    """
    wanted, data = run.data, _whole(run.dataset, tuple(datasets.folders()))
    if wanted.get("all_but") is not None:
        data = data.classes(set(np.unique(data.y_train).tolist()) - set(wanted["all_but"]))
    if wanted.get("classes") is not None:
        data = data.classes(wanted["classes"])
    if wanted.get("patch") is not None:
        data = patches(data, wanted["patch"])
    rows = wanted.get("rows")
    if rows is not None:
        train, test = (np.random.default_rng(0).permutation(len(x))[:rows] for x in (data.x_train, data.x_test))
        data = replace(
            data,
            x_train=data.x_train[train],
            y_train=data.y_train[train],
            x_test=data.x_test[test],
            y_test=data.y_test[test],
        )
    return data


def patches(data: Dataset, side: int) -> Dataset:
    """Cut a square from the middle of each image.

    Parameters
    ----------
    data : Dataset
        Images.
    side : int
        Side of the square, in pixels.
    """
    whole = data.shape or ()
    low = (whole[0] - side) // 2

    def cut(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        images = x.reshape(len(x), *whole)[:, low : low + side, low : low + side]
        return images.reshape(len(x), -1).copy()

    return replace(data, x_train=cut(data.x_train), x_test=cut(data.x_test), shape=(side, side, *whole[2:]))


def settings_of(run: Run) -> Settings:
    """Return the settings of a run.

    Parameters
    ----------
    run : Run
        The run.
    """
    values = {"scale": "none", **run.settings}
    if values.get("rule") == "sem":
        values["rule"] = StochasticEM(**values.pop("sem"))
    elif "natural" in values:
        values["rule"] = Natural(**values.pop("natural"))
    elif values.get("rule") == "sgd" and "period" not in values:
        values["period"] = SHORT_PERIODS.get(run.dataset)
    return Settings(**{"scale": "none", **values})


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
    settings = settings_of(run)
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


def _floats(x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return datasets.scaled(x) if x.dtype == np.uint8 else x


def measure(run: Run) -> dict[str, Any]:
    """Train, and evaluate on test data after every pass.

    Parameters
    ----------
    run : Run
        The run.

    Returns
    -------
    dict
        Figures after each pass, seconds of training, and the curve of checks.
    """
    data = data_of(run)
    if run.method == "batch":
        return _measure_batch(run, data)
    means = _means_of_other_classes(run) if run.data.get("start_classes") is not None else None
    trainer = trainer_of(run, data.n_features, means)
    test = _floats(data.x_test)
    order, passes, curve = np.random.default_rng([run.seed, 1]), [], []
    spent = 0.0
    for done in range(1, run.passes + 1):
        rows = order.permutation(len(data.x_train))
        begin = time.perf_counter()
        checks = feed(trainer, data.x_train, rows)
        spent += time.perf_counter() - begin
        clusters = bool(run.data.get("clusters")) and done == run.passes
        passes.append({**evaluate(trainer, test, clusters), "seconds": spent, "samples": trainer.n_samples})
        curve += [[c.samples, c.loss, c.max_component, c.sigma, c.learning_rate] for c in checks]
    thinned = curve[:: max(1, len(curve) // CURVE_POINTS)]
    return {"passes": passes, "seconds": spent, "curve": [*thinned, *curve[-1:]]}


def _measure_batch(run: Run, data: Dataset) -> dict[str, Any]:
    """Run batch EM, with one iteration per pass, and evaluate it at the end."""
    x, test = _floats(data.x_train), _floats(data.x_test)
    begin = time.perf_counter()
    trainer = batch_em(x, run.seed, run.passes)
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


def evaluate(trainer: Trainer, test: npt.NDArray[np.float32], clusters: bool = False) -> dict[str, float]:
    """Evaluate a model on test data.

    Parameters
    ----------
    trainer : Trainer
        What has learned.
    test : array of shape (N, D)
        Test samples.
    clusters : bool, default=False
        Whether to compute clustering indices, too.
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
    if clusters:
        found |= {"davies_bouldin": davies_bouldin(test, labels), "dunn": dunn_index(test, labels)}
    return found
