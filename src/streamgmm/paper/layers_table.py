"""Flat mixtures beside stacks of layers: each class held out once, and right halves of images filled in."""

from __future__ import annotations

import numpy as np

from streamgmm.core.covariance import KINDS
from streamgmm.paper.layer_runs import DEFAULTS, FILLED, FLAT, LOW_RANK, THREE, TWO, measure_layers
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Results, Run, measure_all

SETS = ("mnist", "fashionmnist")
ROWS = 20_000  # images of a training
METHODS = {FLAT: "flat", DEFAULTS: "flat, defaults", TWO: "two layers", THREE: "three layers"}
ABOUT = (
    f"Models have K = 49 components and learn {ROWS:,} training images in one pass, one seed. *Flat* has the natural "
    "rule with the paper's settings, *flat, defaults* learns raw data. *Two layers* are "
    "`DeepStreamingMixture.from_shape((28, 28))`: patches of 8×8 pixels at a stride of 2, then whole images "
    "(architecture B). *Three layers* are patches of 4×4 pixels at a stride of 2 (K = 25), patches of 4×4 of those at "
    "a stride of 3, then whole images."
)


def methods() -> dict[str, str]:
    """Return the models to compare, with their names; those with low rank if that kind is known."""
    return {**METHODS, **({LOW_RANK: "flat, low rank"} if "low_rank" in KINDS else {})}


def _part(plan: Plan, name: str, **wanted: object) -> dict[str, object]:
    return {"rows": ROWS, **plan.part(name, **wanted)}


def _held_out(plan: Plan, name: str, method: str) -> list[Run]:
    """Return runs in which each class is held out once."""
    return [Run(name, method, 0, 1, {}, _part(plan, name, all_but=[c])) for c in range(1 if plan.quick else 10)]


def _whole(plan: Plan, name: str, method: str) -> Run:
    """Return the run on all classes."""
    return Run(name, method, 0, 1, {}, _part(plan, name))


def _names(plan: Plan) -> list[str]:
    return [name for name in plan.names if name in SETS]


def expected(plan: Plan) -> list[Run]:
    """Return the runs that the tables need.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [
        run
        for method in methods()
        for name in _names(plan)
        for run in (_whole(plan, name, method), *_held_out(plan, name, method))
    ]


def make(plan: Plan) -> list[Table]:
    """Make the tables.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    results = measure_all(expected(plan), measure_layers, plan.folder, plan.jobs, "layers")
    return [*(_outliers(plan, name, results) for name in _names(plan)), _halves(plan, results)]


def _outliers(plan: Plan, name: str, results: Results) -> Table:
    table = Table(
        f"Outliers, {NAMES[name]}",
        f"Area under the ROC curve on test images, with one class held out. {ABOUT}",
        ["held out", *methods().values()],
    )
    found = {m: [results[run.file]["auc"] for run in _held_out(plan, name, m)] for m in methods()}
    for label, values in enumerate(zip(*found.values(), strict=True)):
        table.rows.append([str(label), *(f"{value:.3f}" for value in values)])
    table.rows.append(["**mean**", *(f"**{np.mean(values):.3f}**" for values in found.values())])
    return table


def _halves(plan: Plan, results: Results) -> Table:
    table = Table(
        "Halves of images, likelihood and time",
        f"All classes are learned. Mean squared error of the right half of {FILLED} test images, filled in from the "
        "left half, with pixels within [0, 1]; *mean* fills in the mean image. The log-likelihood of the top layer is "
        "a density of responsibilities, that of a flat mixture one of pixels, so these are not comparable. Seconds of "
        f"processor time for training. {ABOUT}",
        ["data", "model", "squared error", "mean log-likelihood", "seconds"],
    )
    for name in _names(plan):
        for method, words in methods().items():
            found = results[_whole(plan, name, method).file]
            figures = (f"{found['error']:.4f}", f"{found['log_likelihood']:.1f}", f"{found['seconds']:.1f}")
            table.rows.append([NAMES[name], words, *figures])
        error = results[_whole(plan, name, FLAT).file]["error_of_mean"]
        table.rows.append([NAMES[name], "mean", f"{error:.4f}", "–", "–"])
    return table
