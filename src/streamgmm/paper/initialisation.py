"""Robustness to the initial means: classes 1-9, several starts, with and without annealing."""

from __future__ import annotations

from typing import Any

from streamgmm.paper.comparison import ceiling, last, shown
from streamgmm.paper.durations import SIZES
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import INITIALISATION, NAMES
from streamgmm.paper.runs import Run

STARTS: dict[str, dict[str, Any]] = {
    "μ 0.1": {"mean_range": 0.1},
    "μ 0.3": {"mean_range": 0.3},
    "μ 0.5": {"mean_range": 0.5},
    "class 0": {},
    "no annealing": {"annealing": False},
}
RATES: dict[str, dict[str, Any]] = {
    "ε 0.001, as in the paper": {"learning_rate_init": 0.001, "learning_rate_min": 0.001},
    "ε 0.1 → 0.001, our default": {},
}


def runs(plan: Plan) -> dict[tuple[str, str, str], list[Run]]:
    """Return the runs by data set, learning rate and start; without annealing the rate is always 0.001.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    found: dict[tuple[str, str, str], list[Run]] = {}
    for name in plan.names:
        for rate, rates in RATES.items():
            for start, settings in STARTS.items():
                given = {"rule": "sgd", **({} if start == "no annealing" else rates), **settings}
                part = plan.part(name, all_but=[0], **({"start_classes": [0]} if start == "class 0" else {}))
                found[name, rate, start] = [Run(name, "sgd", s, plan.passes, given, part) for s in plan.seeds_of(name)]
    return found


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the tables need.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [run for group in runs(plan).values() for run in group]


def make(plan: Plan) -> list[Table]:
    """Make one table per learning rate.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted = runs(plan)
    results = plan.run([r for group in wanted.values() for r in group], "initialisation")
    tables = []
    for rate in RATES:
        table = Table(
            f"Initialisation, {rate}",
            f"SGD, K = 64, batch size 1, {plan.passes} passes over all classes but 0 (classes 1-9 in sets of ten), "
            "test max-component log-likelihood, mean ± std over seeds. 'μ': range of the random initial means. "
            "'class 0': initial means from one pass over class 0. The period is 1000, and 200 for ISOLET and Fruits "
            "360. 'spread': largest difference between the three μ columns, in percent of the largest possible "
            "value, 0.579·D.",
            ["data", *(f"{s} ({who})" for s in STARTS for who in ("paper", "ours")), "spread, ours"],
        )
        for name in plan.names:
            ours = [last(results, wanted[name, rate, s], "max_component") for s in STARTS]
            cells = [c for p, o in zip(INITIALISATION[name], ours, strict=True) for c in (shown(p), shown(o))]
            means = [v.mean for v in ours[:3]]
            spread = 100 * (max(means) - min(means)) / ceiling(SIZES[name][2])
            table.rows.append([NAMES[name], *cells, f"{spread:.2f} %"])
        tables.append(table)
    return tables
