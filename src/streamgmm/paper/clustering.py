"""Clustering: Davies-Bouldin score and Dunn index of SGD, and of stochastic EM from k-means."""

from __future__ import annotations

from typing import Any

from streamgmm.paper.comparison import last, shown, verdict
from streamgmm.paper.durations import SIZES
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import CLUSTERING, NAMES
from streamgmm.paper.runs import Run
from streamgmm.paper.streaming import GRID, best_of, grid, grid_runs, method_runs

INDICES = {"davies_bouldin": False, "dunn": True}  # whether more is better
TITLES = {"davies_bouldin": "Davies-Bouldin score (less is better)", "dunn": "Dunn index (more is better)"}


def _names(plan: Plan) -> list[str]:
    return [n for n in plan.names if n in CLUSTERING]


def _start(name: str, plan: Plan) -> dict[str, Any]:
    """Return settings for k-means on the first tenth of a pass, over which the paper lets sEM accumulate."""
    rows = 1500 if plan.quick else SIZES[name][0]
    return {"start_from": "kmeans", "accumulate": max(200, rows // 10)}


def expected(plan: Plan) -> list[Run]:
    """Return about the runs that the tables need; which settings of sEM are best is not known yet.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    runs = []
    for name in _names(plan):
        runs += list(grid_runs(plan, [name], {"clusters": True}, _start(name, plan)).values())
        runs += method_runs(plan, name, "sgd", {}, clusters=True)
        for _ in INDICES:
            runs += method_runs(plan, name, "sem", {"sem": {**_start(name, plan), **GRID[0]}}, clusters=True)
    return runs


def make(plan: Plan) -> list[Table]:
    """Make one table per index.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    tried = {}
    for name in _names(plan):
        tried.update(grid_runs(plan, [name], {"clusters": True}, _start(name, plan)))
    found = plan.run(tried.values(), "clustering, grid of sEM")
    wanted: dict[tuple[str, str], list[Run]] = {}
    for name in _names(plan):
        wanted[name, "sgd"] = method_runs(plan, name, "sgd", {}, clusters=True)
        for index, more in INDICES.items():
            best = grid(plan)[best_of(plan, found, tried, name, index, more)]
            wanted[name, index] = method_runs(plan, name, "sem", {"sem": {**_start(name, plan), **best}}, clusters=True)
    results = plan.run([r for group in wanted.values() for r in group], "clustering")
    tables = []
    for at, (index, more) in enumerate(INDICES.items()):
        table = Table(
            f"Clustering, {TITLES[index]}",
            f"Test samples labelled by their best component, K = 64, {plan.passes} passes, mean ± std over seeds. SGD "
            "starts from random means. sEM starts from k-means on the first tenth of a pass, with the best of 27 "
            "settings for this index, found after one pass with seed 0. The Dunn index is exact, over all pairs of "
            "test samples.",
            ["data", "SGD (paper)", "SGD (ours)", "sEM (paper)", "sEM (ours)", "verdict (paper)", "verdict (ours)"],
        )
        for name in _names(plan):
            sgd, sem = CLUSTERING[name][2 * at : 2 * at + 2]
            ours = [last(results, wanted[name, key], index) for key in ("sgd", index)]
            who, paper_who = (verdict(a, b, ("SGD", "sEM"), more) for a, b in (ours, (sgd, sem)))
            table.rows.append(
                [NAMES[name], shown(sgd, 2), shown(ours[0], 3, who == "SGD"), shown(sem, 2),
                 shown(ours[1], 3, who == "sEM"), paper_who, who]
            )  # fmt: skip
        tables.append(table)
    return tables
