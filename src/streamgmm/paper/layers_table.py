"""Flat mixtures beside stacks of layers: each class held out once, and right halves of images filled in."""

from __future__ import annotations

import numpy as np

from streamgmm.core.covariance import KINDS
from streamgmm.paper.layer_runs import (
    DEFAULTS,
    FILLED,
    FLAT,
    LOW_RANK,
    ROWS,
    SETS,
    THREE,
    TWO,
    held_out,
    measure_layers,
    whole,
)
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Results, Run, measure_all

METHODS = {FLAT: "flat", DEFAULTS: "flat, defaults", TWO: "two layers", THREE: "three layers"}
ABOUT = (
    f"Models have K = 49 components and learn {ROWS:,} training images in one pass. *Flat* has the natural "
    "rule with the paper's settings, *flat, defaults* learns raw data. *Two layers* are "
    "`DeepStreamingMixture.from_shape((28, 28))`: patches of 8×8 pixels at a stride of 2, then whole images "
    "(architecture B). *Three layers* are patches of 4×4 pixels at a stride of 2 (K = 25), patches of 4×4 of those at "
    "a stride of 3, then whole images."
)


def methods() -> dict[str, str]:
    """Return the models to compare, with their names; those with low rank if that kind is known."""
    return {**METHODS, **({LOW_RANK: "flat, low rank"} if "low_rank" in KINDS else {})}


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
        for run in (*whole(plan, name, method), *held_out(plan, name, method))
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
        f"Area under the ROC curve on test images, with one class held out, one seed. {ABOUT}",
        ["held out", *methods().values()],
    )
    found = {m: [results[run.file]["auc"] for run in held_out(plan, name, m)] for m in methods()}
    for label, values in enumerate(zip(*found.values(), strict=True)):
        table.rows.append([str(label), *(f"{value:.3f}" for value in values)])
    table.rows.append(["**mean**", *(f"**{np.mean(values):.3f}**" for values in found.values())])
    return table


def _halves(plan: Plan, results: Results) -> Table:
    table = Table(
        "Halves of images, likelihood and time",
        f"All classes are learned. Mean squared error of the right half of {FILLED} test images, filled in from the "
        "left half, with pixels within [0, 1]; *mean* fills in the mean image. *Flat* and *two layers*: means of three "
        "seeds, with the smallest and the largest error. The log-likelihood of the top layer is "
        "a density of responsibilities, that of a flat mixture one of pixels, so these are not comparable. Seconds of "
        f"processor time for training. {ABOUT}",
        ["data", "model", "squared error", "mean log-likelihood", "seconds"],
    )
    for name in _names(plan):
        for method, words in methods().items():
            found = [results[run.file] for run in whole(plan, name, method)]
            errors = [each["error"] for each in found]
            spread = f" ({min(errors):.4f} to {max(errors):.4f})" if len(errors) > 1 else ""
            likelihood, seconds = (np.mean([each[key] for each in found]) for key in ("log_likelihood", "seconds"))
            table.rows.append(
                [NAMES[name], words, f"{np.mean(errors):.4f}{spread}", f"{likelihood:.1f}", f"{seconds:.1f}"]
            )
        error = results[whole(plan, name, FLAT)[0].file]["error_of_mean"]
        table.rows.append([NAMES[name], "mean", f"{error:.4f}", "–", "–"])
    return table
