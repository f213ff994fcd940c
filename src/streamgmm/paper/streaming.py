"""Stationary streams: SGD against stochastic EM and the natural rule."""

from __future__ import annotations

from itertools import product
from typing import Any, NamedTuple

import numpy as np

from streamgmm.paper.comparison import last, shown, verdict
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import NAMES, STREAMING
from streamgmm.paper.runs import Results, Run

GRID: list[dict[str, Any]] = [
    {"step_init": a, "step_decay": b, "step_min": c}
    for a, b, c in product((0.01, 0.05, 0.1), (0.01, 0.25, 0.5), (0.01, 0.001, 0.0001))
]


def grid(plan: Plan) -> list[dict[str, Any]]:
    """Return the settings of sEM to try.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return GRID[::13] if plan.quick else GRID


def grid_runs(plan: Plan, names: list[str], part: dict[str, Any], sem: dict[str, Any]) -> dict[tuple[str, int], Run]:
    """Return runs of sEM with one pass and seed 0, by data set and number of the settings in ``grid``.

    Parameters
    ----------
    plan : Plan
        What to measure.
    names : list of str
        Data sets.
    part : dict
        Entries of ``Run.data``.
    sem : dict
        Settings of sEM that are the same for all.
    """
    return {
        (name, i): Run(name, "sem", 0, 1, {"rule": "sem", "sem": {**sem, **s}, **_short(plan)}, plan.part(name, **part))
        for name in names
        for i, s in enumerate(grid(plan))
    }


def _short(plan: Plan) -> dict[str, int]:
    """Shorten the period of quick runs, which have fewer rows than a period."""
    return {"period": 100} if plan.quick else {}


def best_of(plan: Plan, results: Results, runs: dict[tuple[str, int], Run], name: str, figure: str, more: bool) -> int:
    """Return the number of the best settings in ``grid`` for a data set.

    Parameters
    ----------
    plan : Plan
        What to measure.
    results : dict
        Results by record name.
    runs : dict
        What ``grid_runs`` returned.
    name : str
        The data set.
    figure : str
        The figure to compare.
    more : bool
        Whether more is better.
    """
    values = [results[runs[name, i].file]["passes"][-1][figure] for i in range(len(grid(plan)))]
    scores = np.nan_to_num(np.array(values) * (1 if more else -1), nan=-np.inf)
    return int(scores.argmax())


def method_runs(plan: Plan, name: str, rule: str, settings: dict[str, Any], **part: Any) -> list[Run]:
    """Return the runs of a rule on a data set, one per seed.

    Parameters
    ----------
    plan : Plan
        What to measure.
    name : str
        The data set.
    rule : str
        The rule.
    settings : dict
        Settings that differ from the defaults.
    **part
        Entries of ``Run.data``.
    """
    given = {"rule": rule, **settings, **(_short(plan) if rule == "sem" else {})}
    return [Run(name, rule, s, plan.passes, given, plan.part(name, **part)) for s in plan.seeds_of(name)]


def expected(plan: Plan) -> list[Run]:
    """Return about the runs that the tables need; which settings of sEM are best is not known yet.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    runs = list(grid_runs(plan, plan.names, {}, {}).values())
    for name in plan.names:
        for rule in ("sgd", "natural", "sem"):
            runs += method_runs(plan, name, rule, {"sem": GRID[0]} if rule == "sem" else {})
    return runs


class Outcome(NamedTuple):
    """Runs and what they measured.

    Parameters
    ----------
    runs : dict
        Runs by data set and rule.
    results : dict
        Results by record name.
    best : dict
        The best settings of sEM by data set.
    """

    runs: dict[tuple[str, str], list[Run]]
    results: Results
    best: dict[str, dict[str, Any]]


def run(plan: Plan) -> Outcome:
    """Find the best settings of sEM, then measure all rules.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    tried = grid_runs(plan, plan.names, {}, {})
    found = plan.run(tried.values(), "streaming, grid of sEM")
    best = {n: grid(plan)[best_of(plan, found, tried, n, "max_component", True)] for n in plan.names}
    runs = {
        (name, rule): method_runs(plan, name, rule, {"sem": best[name]} if rule == "sem" else {})
        for name in plan.names
        for rule in ("sgd", "sem", "natural")
    }
    return Outcome(runs, plan.run([r for group in runs.values() for r in group], "streaming"), best)


def make(plan: Plan) -> list[Table]:
    """Make the tables.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted, results, best = run(plan)
    table = Table(
        "Streaming",
        f"K = 64, batch size 1, random initial means, {plan.passes} passes, test max-component log-likelihood, mean ± "
        "std over seeds. SGD: ε from 0.1 to 0.001, period 1000 (200 for ISOLET and Fruits 360). sEM: the best of 27 "
        "settings after one pass with seed 0 (on test data, as in the paper), one period of accumulation. natural: "
        "defaults. Bold: better by more than half a standard deviation (SGD against sEM). The verdict on the paper's "
        "figures follows the same rule.",
        ["data", "SGD (paper)", "SGD (ours)", "difference", "sEM (paper)", "sEM (ours)", "verdict (paper)",
         "verdict (ours)", "natural"],
    )  # fmt: skip
    more = Table(
        "Streaming, further figures",
        "Exact log-likelihood (log-sum-exp), mean maximum responsibility (published for SGD), and components of 64 "
        "that win a test sample (mean over seeds).",
        ["data", "exact: SGD", "sEM", "natural", "max p: SGD (paper)", "SGD (ours)", "sEM", "natural", "live: SGD",
         "sEM", "natural"],
    )  # fmt: skip
    for name in plan.names:
        responsibility, paper_sgd, paper_sem = STREAMING[name]
        sgd, sem, natural = (last(results, wanted[name, r], "max_component") for r in ("sgd", "sem", "natural"))
        who = verdict(sgd, sem, ("SGD", "sEM"))
        paper_who = verdict(paper_sgd, paper_sem, ("SGD", "sEM"))
        table.rows.append(
            [NAMES[name], shown(paper_sgd), shown(sgd, bold=who == "SGD"), f"{sgd.mean - paper_sgd.mean:+.1f}",
             shown(paper_sem), shown(sem, bold=who == "sEM"), paper_who, who, shown(natural)]
        )  # fmt: skip
        rules = ("sgd", "sem", "natural")
        exact = [shown(last(results, wanted[name, r], "log_likelihood")) for r in rules]
        top = [f"{last(results, wanted[name, r], 'responsibility').mean:.4f}" for r in rules]
        live = [f"{last(results, wanted[name, r], 'live').mean:.0f}" for r in rules]
        more.rows.append([NAMES[name], *exact, f"{responsibility:.4f}", *top, *live])
    chosen = Table("Streaming, settings of sEM", "The best settings of the grid.", ["data", *GRID[0]])
    chosen.rows = [[NAMES[n], *best[n].values()] for n in plan.names]
    return [table, more, chosen]
