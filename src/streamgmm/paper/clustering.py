"""Clusters: Davies-Bouldin score and Dunn index of SGD and of stochastic EM from k-means."""

from __future__ import annotations

from typing import Any

from streamgmm.paper.plan import SIZES, Plan, Table, last, shown, verdict
from streamgmm.paper.published import CLUSTERING, NAMES
from streamgmm.paper.runs import Run
from streamgmm.paper.streaming import GRID, best_of, grid, grid_runs, method_runs

INDICES = {"davies_bouldin": False, "dunn": True}  # whether more is better


def names(plan: Plan) -> list[str]:
    return [n for n in plan.names if n in CLUSTERING]


def start(name: str, plan: Plan) -> dict[str, Any]:
    """k-means on the first tenth of an epoch, as many samples as the paper lets sEM accumulate."""
    rows = 1500 if plan.quick else SIZES[name][0]
    return {"start_from": "kmeans", "accumulate": max(200, rows // 10)}


def expected(plan: Plan) -> list[Run]:
    runs = []
    for name in names(plan):
        runs += list(grid_runs(plan, [name], {"clusters": True}, start(name, plan)).values())
        runs += method_runs(plan, name, "sgd", {}, clusters=True)
        for _ in INDICES:
            runs += method_runs(plan, name, "sem", {"sem": {**start(name, plan), **GRID[0]}}, clusters=True)
    return runs


def make(plan: Plan) -> list[Table]:
    tried = {}
    for name in names(plan):
        tried.update(grid_runs(plan, [name], {"clusters": True}, start(name, plan)))
    found = plan.run(tried.values(), "clustering, grid of sEM")
    wanted: dict[tuple[str, str], list[Run]] = {}
    for name in names(plan):
        wanted[name, "sgd"] = method_runs(plan, name, "sgd", {}, clusters=True)
        for index, more in INDICES.items():
            best = grid(plan)[best_of(plan, found, tried, name, index, more)]
            wanted[name, index] = method_runs(plan, name, "sem", {"sem": {**start(name, plan), **best}}, clusters=True)
    results = plan.run([r for group in wanted.values() for r in group], "clustering")
    tables = []
    for at, (index, more) in enumerate(INDICES.items()):
        title = {"davies_bouldin": "Davies-Bouldin score (less is better)", "dunn": "Dunn index (more is better)"}[
            index
        ]
        table = Table(
            f"Clustering, {title}",
            f"Test data, labels by the best component, K = 64, {plan.passes} passes, mean ± std over seeds. "
            "SGD: random start. "
            "sEM: k-means on the first tenth of an epoch, best of 27 settings for this index after one pass "
            "with seed 0. "
            "The Dunn index is exact over all pairs of test samples.",
            ["data", "SGD (paper)", "SGD (ours)", "sEM (paper)", "sEM (ours)", "verdict (paper)", "verdict (ours)"],
        )
        for name in names(plan):
            sgd, sem = CLUSTERING[name][2 * at : 2 * at + 2]
            ours = [last(results, wanted[name, key], index) for key in ("sgd", index)]
            who, paper_who = (verdict(a, b, ("SGD", "sEM"), more) for a, b in (ours, (sgd, sem)))
            table.rows.append(
                [NAMES[name], shown(sgd, 2), shown(ours[0], 3, who == "SGD"), shown(sem, 2),
                 shown(ours[1], 3, who == "sEM"), paper_who, who]
            )  # fmt: skip
        tables.append(table)
    return tables
