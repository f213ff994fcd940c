"""Measuring one stack or flat mixture: outliers of a class that was held out, and halves of images filled in."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets
from streamgmm.estimators.mixture import StreamingGaussianMixture
from streamgmm.layers import DeepStreamingMixture, Fold
from streamgmm.layers.deep import CAP, NOISE
from streamgmm.paper.plan import Plan
from streamgmm.paper.run_data import data_of
from streamgmm.paper.runs import Run

K = 49
ROWS = 20_000  # images of a training
SETS = ("mnist", "fashionmnist")
FILLED = 2000  # test images whose right half is filled in
FLAT, DEFAULTS, TWO, THREE, LOW_RANK = "flat", "flat-defaults", "two-layers", "three-layers", "flat-low-rank"
Model = StreamingGaussianMixture | DeepStreamingMixture
Array = npt.NDArray[Any]


def held_out(plan: Plan, name: str, method: str) -> list[Run]:
    """Return runs in which each class is held out once.

    Parameters
    ----------
    plan : Plan
        What to measure.
    name : str
        The data set.
    method : str
        The model.
    """
    return [_run(plan, name, method, 0, all_but=[c]) for c in range(1 if plan.quick else 10)]


def whole(plan: Plan, name: str, method: str) -> list[Run]:
    """Return runs on all classes: three seeds of the models that the halves of images are about, else one.

    Parameters
    ----------
    plan : Plan
        What to measure.
    name : str
        The data set.
    method : str
        The model.
    """
    seeds = plan.few_seeds(name) if method in (FLAT, TWO) else range(1)
    return [_run(plan, name, method, seed) for seed in seeds]


def _run(plan: Plan, name: str, method: str, seed: int, **wanted: object) -> Run:
    settings = {"pixel_noise": NOISE} if method == TWO else {}  # so that records tell what was measured
    return Run(name, method, seed, 1, settings, {"rows": ROWS, **plan.part(name, **wanted)})


def model_of(run: Run) -> Model:
    """Return the model of a run, which has learned nothing.

    Parameters
    ----------
    run : Run
        The run; its method names the model.
    """
    common: dict[str, Any] = {"random_state": run.seed, "n_epochs": run.passes}
    if run.method == FLAT:
        return StreamingGaussianMixture.paper("natural", n_components=K, **common)
    if run.method == DEFAULTS:
        return StreamingGaussianMixture(K, **common)
    if run.method == LOW_RANK:
        return StreamingGaussianMixture(K, covariance_type="low_rank", **common)
    if run.method == TWO:
        return DeepStreamingMixture.from_shape((28, 28), n_components=K, **common, **run.settings)
    upper: dict[str, Any] = {"scale": "none", "precision_max": CAP}
    layers = [
        Fold(4, 2),
        StreamingGaussianMixture(25),
        Fold(4, 3),
        StreamingGaussianMixture(K, **upper),
        Fold(),
        StreamingGaussianMixture(K, **upper),
    ]
    return DeepStreamingMixture(layers, (28, 28), **common)


def measure_layers(run: Run) -> dict[str, Any]:
    """Train, and evaluate on test images.

    Parameters
    ----------
    run : Run
        The run; ``all_but`` names the class that is held out, if one is.

    Returns
    -------
    dict
        Seconds of training on one core, mean log-likelihood of test images, and the area under the ROC curve for the
        class that was held out or the mean squared error of right halves that were filled in.
    """
    data, model = data_of(run), model_of(run)
    deep = isinstance(model, DeepStreamingMixture)
    begin = time.process_time()
    model.fit(data.x_train if deep else datasets.scaled(data.x_train))
    found: dict[str, Any] = {"seconds": time.process_time() - begin}
    inliers = data.x_test if deep else datasets.scaled(data.x_test)
    scores = model.score_samples(inliers)
    found["log_likelihood"] = float(scores.mean())
    if run.data.get("all_but"):
        [held_out] = run.data["all_but"]
        whole = datasets.load(run.dataset)
        strange = whole.x_test[whole.y_test == held_out]
        found["auc"] = auc(scores, model.score_samples(strange if deep else datasets.scaled(strange)))
        return found
    images = datasets.scaled(data.x_test[:FILLED]).astype(np.float64)
    found["error"] = right_half_error(images, _filled(model, images))
    means = np.broadcast_to(datasets.scaled(data.x_train).mean(0), images.shape)
    return {**found, "error_of_mean": right_half_error(images, means)}


def auc(usual: Array, strange: Array) -> float:
    """Return the share of pairs in which a strange image has a lower score than a usual one.

    Parameters
    ----------
    usual : array of shape (N,)
        Scores of images of the classes that were learned.
    strange : array of shape (M,)
        Scores of images of the class that was held out.

    Examples
    --------
    >>> auc(np.array([1.0, 2.0, 3.0, 4.0]), np.array([0.5, 2.5]))
    0.75
    """
    ordered = np.sort(usual)
    below, up_to = (np.searchsorted(ordered, strange, side=side) for side in ("left", "right"))
    return float(1 - (below + up_to).mean() / 2 / len(ordered))


def _filled(model: Model, images: Array) -> Array:
    """Fill in the right half of images within [0, 1]."""
    hidden = images.reshape(-1, 28, 28).copy()
    hidden[:, :, 14:] = np.nan
    rows = hidden.reshape(len(images), -1)
    if isinstance(model, DeepStreamingMixture):
        return model.inpaint(rows * 255) / 255
    mixture = model.mixture_
    return mixture.responsibilities(rows) @ mixture.means


def right_half_error(images: Array, filled: Array) -> float:
    """Return the mean squared error of the right half of images of 28×28 pixels.

    Parameters
    ----------
    images : array of shape (N, 784)
        The images.
    filled : array of shape (N, 784)
        What stands for them.
    """
    return float(np.mean((images - filled).reshape(-1, 28, 28)[:, :, 14:] ** 2))
