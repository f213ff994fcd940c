"""Outlier detection: every class is held out once, and its test samples are told from the others by their density."""

from __future__ import annotations

from streamgmm.core.covariance import KINDS
from streamgmm.paper import layer_runs
from streamgmm.paper.comparison import summary
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.runs import Results, Run, measure_all

SETS = layer_runs.SETS
CLASSES = 10


def models(plan: Plan) -> dict[str, dict[str, str]]:
    """Return the settings of each row: the rule of the plan, and the natural rule with each covariance kind there is.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    found = {plan.method: {"rule": plan.rule}, "natural": {"rule": "natural"}}
    if "low_rank" in KINDS:
        found["natural, low rank"] = {"rule": "natural", "covariance_type": "low_rank"}
    return found


def names(plan: Plan) -> list[str]:
    """Return the data sets of a plan with classes to hold out.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [n for n in plan.names if n in SETS or (plan.own is not None and plan.own.classes > 1)]


def _runs(plan: Plan, name: str, model: str) -> list[Run]:
    settings = {**plan.settings(models(plan)[model]["rule"]), **models(plan)[model]}
    return [
        Run(name, settings["rule"], 0, plan.passes, settings, plan.part(name, all_but=[c], test_on="all"))
        for c in range(2 if plan.quick else min(CLASSES, plan.classes(name)))
    ]


def runs(plan: Plan) -> list[Run]:
    """Return all runs that the table needs.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [run for name in names(plan) for model in models(plan) for run in _runs(plan, name, model)]


def results(plan: Plan) -> Results:
    """Measure all runs.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return plan.run(runs(plan), "outliers")


def areas(plan: Plan) -> dict[str, list[float]]:
    """Return the area under the ROC curve in percent for each class held out, by data set and model.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    flat = results(plan)
    deep = measure_all(runs_of_layers(plan), layer_runs.measure_layers, plan.folder, plan.jobs, "layers")
    found: dict[str, list[float]] = {}
    for name in names(plan):
        for model in models(plan):
            values = [flat[run.file]["passes"][-1]["auc"] for run in _runs(plan, name, model)]
            found[f"{plan.title(name)}, {model}"] = [100 * value for value in values]
        if values := [deep[run.file]["auc"] for run in _layer_runs(plan, name)]:
            found[f"{plan.title(name)}, two layers"] = [100 * value for value in values]
    return found


def _layer_runs(plan: Plan, name: str) -> list[Run]:
    """Runs of two layers, which are those of the table of layers."""
    return [] if plan.own is not None else layer_runs.held_out(plan, name, layer_runs.TWO)


def runs_of_layers(plan: Plan) -> list[Run]:
    """Return the runs of two layers that the table needs.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [run for name in names(plan) for run in _layer_runs(plan, name)]


def make(plan: Plan) -> list[Table]:
    """Make the table.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    if not names(plan):
        return []
    table = Table(
        "Claim: outlier detection",
        f"{plan.size}, seed 0. Each class is left out of training once; its test samples are told from those of all "
        "other classes by their max-component log-likelihood. Area under the ROC curve in percent. *Two layers* are "
        f"those of `streamgmm paper layers`: K = {layer_runs.K}, one pass over {layer_runs.ROWS:,} images, judged by "
        "the log-likelihood of the top layer.",
        ["data and model", *map(str, range(CLASSES)), "mean"],
    )
    for label, values in areas(plan).items():
        cells = [f"{v:.1f}" for v in values] + ["–"] * (CLASSES - len(values))
        table.rows.append([label, *cells, f"{summary(values).mean:.1f}"])
    return [table]
