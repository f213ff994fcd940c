"""One run: train as told, measure on test data after every pass. All tables are made of such runs."""

from __future__ import annotations

import time
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets, training
from streamgmm.datasets import FACTOR, Dataset
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.mixture import Mixture
from streamgmm.paper.batch_em import batch_em
from streamgmm.paper.clustering_indices import davies_bouldin, dunn_index
from streamgmm.paper.runs import Run
from streamgmm.rules import Natural, StochasticEM

CHUNK = 2000
SHORT_PERIODS = {"isolet": 200, "fruits360": 200}  # too few samples for a look every 1000


@lru_cache(maxsize=1)
def _whole(name: str) -> Dataset:
    data = datasets.load(name)
    if data.x_train.dtype == np.uint8:
        return data
    train, test = datasets.scaled(data.x_train), datasets.scaled(data.x_test)
    return Dataset(name, train, data.y_train, test, data.y_test, data.shape)


def data_of(run: Run) -> Dataset:
    """The data of a run: some classes, some rows, or a patch from the middle of each image."""
    wanted, data = run.data, _whole(run.dataset)
    if wanted.get("all_but") is not None:
        data = data.classes(set(np.unique(data.y_train).tolist()) - set(wanted["all_but"]))
    if wanted.get("classes") is not None:
        data = data.classes(wanted["classes"])
    if wanted.get("patch") is not None:
        data = _patch(data, wanted["patch"])
    rows = wanted.get("rows")
    if rows is not None:
        some, few = (np.random.default_rng(0).permutation(len(x))[:rows] for x in (data.x_train, data.x_test))
        data = Dataset(
            data.name, data.x_train[some], data.y_train[some], data.x_test[few], data.y_test[few], data.shape
        )
    return data


def _patch(data: Dataset, side: int) -> Dataset:
    whole = data.shape or ()
    low = (whole[0] - side) // 2

    def cut(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        images = x.reshape(len(x), *whole)[:, low : low + side, low : low + side]
        return images.reshape(len(x), -1).copy()

    shape = (side, side, *whole[2:])
    return Dataset(data.name, cut(data.x_train), data.y_train, cut(data.x_test), data.y_test, shape)


def model_of(run: Run) -> StreamingGaussianMixture:
    """The untrained model of a run."""
    settings = dict(run.settings)
    if settings.get("rule") == "sem":
        settings["rule"] = StochasticEM(**settings.pop("sem"))
    elif "natural" in settings:
        settings["rule"] = Natural(**settings.pop("natural"))
    elif settings.get("rule") == "sgd" and "period" not in settings:
        settings["period"] = SHORT_PERIODS.get(run.dataset)
    return StreamingGaussianMixture(random_state=run.seed, **settings)


def feed(model: StreamingGaussianMixture, x: npt.NDArray[Any], order: npt.NDArray[np.int64]) -> list[training.Check]:
    """Learns rows of x in that order; bytes go into the loops as they are."""
    if not model.__sklearn_is_fitted__():
        model._start(np.zeros((1, x.shape[1]), np.float32))
    checks: list[training.Check] = []
    for start in range(0, len(order), CHUNK):
        checks += training.feed(model._training, x[order[start : start + CHUNK]], FACTOR)
    return checks


def _floats(x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    return datasets.scaled(x) if x.dtype == np.uint8 else x


def measure(run: Run) -> dict[str, Any]:
    """Trains as ``run`` says and measures on test data after every pass."""
    data = data_of(run)
    if run.method == "batch":
        return _measure_batch(run, data)
    model = model_of(run)
    if run.data.get("start_classes") is not None:
        model.set_params(means_init=_means_from(run))
    test = _floats(data.x_test)
    order, passes, curve = np.random.default_rng([run.seed, 1]), [], []
    spent = 0.0
    for done in range(1, run.passes + 1):
        rows = order.permutation(len(data.x_train))
        begin = time.perf_counter()
        checks = feed(model, data.x_train, rows)
        spent += time.perf_counter() - begin
        clusters = bool(run.data.get("clusters")) and done == run.passes
        passes.append({**measured(model, test, clusters), "seconds": spent, "samples": model.n_samples_seen_})
        curve += [[c.samples, c.loss, c.max_component, c.sigma, c.learning_rate] for c in checks]
    thinned = curve[:: max(1, len(curve) // 200)]
    return {"passes": passes, "seconds": spent, "curve": [*thinned, *curve[-1:]]}


def _measure_batch(run: Run, data: Dataset) -> dict[str, Any]:
    """Batch EM with as many iterations as the run has passes; measured at its end."""
    x, test = _floats(data.x_train), _floats(data.x_test)
    begin = time.perf_counter()
    model = batch_em(x, run.seed, run.passes)
    seconds = time.perf_counter() - begin
    return {"passes": [{**measured(model, test, False), "seconds": seconds}], "seconds": seconds, "curve": []}


def _means_from(run: Run) -> npt.NDArray[np.float64]:
    """Centroids (only) of a model that has seen one pass over other classes."""
    part = {**run.data, "all_but": None, "classes": run.data["start_classes"], "start_classes": None}
    other = Run(run.dataset, run.method, run.seed, 1, run.settings, part)
    data, model = data_of(other), model_of(other)
    feed(model, data.x_train, np.random.default_rng([run.seed, 2]).permutation(len(data.x_train)))
    return model.means_.astype(np.float64)


def measured(model: StreamingGaussianMixture, test: npt.NDArray[np.float32], clusters: bool) -> dict[str, float]:
    """Figures on test data."""
    mixture = Mixture.view(model._training.parameters)
    responsibilities = mixture.responsibilities(test)
    labels = responsibilities.argmax(1)
    found = {
        "max_component": float(mixture.max_component(test).mean()),
        "log_likelihood": float(mixture.log_prob(test).mean()),
        "responsibility": float(responsibilities.max(1).mean()),
        "live": len(np.unique(labels)),
        "sigma": model.sigma_,
    }
    if clusters:
        found |= {"davies_bouldin": davies_bouldin(test, labels), "dunn": dunn_index(test, labels)}
    return found
