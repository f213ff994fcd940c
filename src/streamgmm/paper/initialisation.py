"""Robustness to the initial means, and what annealing adds: trained without class 0, tested on all classes."""

from __future__ import annotations

from typing import Any

from streamgmm.paper.comparison import ceiling, last, shown
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import INITIALISATION, Value
from streamgmm.paper.runs import Results, Run

RANGES = (0.1, 0.3, 0.5)
INFERRED, FIXED = "class 0", "class 0, δ 0.05"
UNANNEALED = "no annealing"
SLOW = {"learning_rate_init": 0.001, "learning_rate_min": 0.001}
RATES = (0.001, 0.003, 0.01, 0.03, 0.1)  # constant rates to try without annealing
Runs = dict[tuple[str, str], list[Run]]


def _mu(value: float) -> str:
    return f"μ {value}"


def starts(plan: Plan) -> dict[str, dict[str, Any]]:
    """Return the settings of each column.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    found: dict[str, dict[str, Any]] = {_mu(v): {"mean_range": v} for v in RANGES}
    if all(plan.classes(name) for name in plan.names):
        found |= {INFERRED: {"tol": None}, FIXED: {}} if plan.rule == "sgd" else {INFERRED: {}}
    if plan.rule != "sem":
        found[UNANNEALED] = {"annealing": False}
    return found


def _part(plan: Plan, name: str, start: str) -> dict[str, Any]:
    if not plan.classes(name):
        return plan.part(name)
    first = {"start_classes": [0]} if start in (INFERRED, FIXED) else {}
    return plan.part(name, all_but=[0], test_on="all", **first)


def _runs(plan: Plan, name: str, start: str, settings: dict[str, Any], seeds: range) -> list[Run]:
    given, part = plan.settings(plan.rule, **settings), _part(plan, name, start)
    return [Run(name, plan.rule, s, plan.passes, given, part) for s in seeds]


def rates(plan: Plan) -> tuple[float, ...]:
    """Return the constant rates to try without annealing.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return RATES[::2] if plan.quick else RATES


def runs(plan: Plan) -> Runs:
    """Return the runs by data set and start.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return {
        (name, start): _runs(plan, name, start, settings, plan.seeds_of(name))
        for name in plan.names
        for start, settings in starts(plan).items()
    }


def constant_runs(plan: Plan) -> Runs:
    """Return runs whose learning rate is 0.001 throughout, as the text of the paper can be read.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    if plan.rule != "sgd":
        return {}
    return {
        (name, _mu(v)): _runs(plan, name, _mu(v), {"mean_range": v, **SLOW}, plan.few_seeds(name))
        for name in plan.names
        for v in RANGES
    }


def rate_runs(plan: Plan, rate: float, seeds: int) -> Runs:
    """Return runs without annealing at a constant rate.

    Parameters
    ----------
    plan : Plan
        What to measure.
    rate : float
        The rate.
    seeds : int
        Seeds at most.
    """
    settings = {"annealing": False, **({} if rate == RATES[0] else {"learning_rate_min": rate})}
    return {
        (name, UNANNEALED): _runs(plan, name, UNANNEALED, settings, plan.seeds_of(name)[:seeds]) for name in plan.names
    }


def expected(plan: Plan) -> list[Run]:
    """Return about the runs that the tables need; which constant rate is best is not known yet.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    groups = [runs(plan), constant_runs(plan)]
    if plan.rule == "sgd":
        groups += [rate_runs(plan, rate, 1) for rate in rates(plan)] + [rate_runs(plan, 0.01, plan.seeds)]
    return [run for group in groups for some in group.values() for run in some]


def best_rates(plan: Plan) -> dict[str, float]:
    """Return the best constant rate without annealing for each set, by the training objective of one seed.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    tried = {rate: rate_runs(plan, rate, 1) for rate in rates(plan)}
    every = [run for group in tried.values() for some in group.values() for run in some]
    found = plan.run(every, "constant rates")

    def objective(name: str, rate: float) -> float:
        [run] = tried[rate][name, UNANNEALED]
        curve = found[run.file]["curve"]
        return float(curve[-1][2]) if curve else float(found[run.file]["passes"][-1]["max_component"])

    return {name: max(rates(plan), key=lambda rate, n=name: objective(n, rate)) for name in plan.names}  # type: ignore[misc]


def make(plan: Plan) -> list[Table]:
    """Make the tables.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted = runs(plan)
    tried = [rate_runs(plan, rate, 1) for rate in rates(plan)] if plan.rule == "sgd" else []
    every = [r for groups in (wanted, constant_runs(plan), *tried) for group in groups.values() for r in group]
    found = plan.run(every, "initialisation")
    tables = [_main_table(plan, wanted, found)]
    if plan.rule == "sgd":
        tables += [_annealing_table(plan, wanted, found), _other_readings(plan, wanted, found)]
    return tables


def _main_table(plan: Plan, wanted: Runs, found: Results) -> Table:
    columns = list(starts(plan))
    where = "all classes but 0, test data of all classes" if all(map(plan.classes, plan.names)) else "all rows"
    table = Table(
        "Initialisation",
        f"{plan.method}, {plan.size}, trained on {where}; max-component log-likelihood of test data, mean ± std over "
        "seeds. 'μ': range of the random initial means. 'class 0': initial means from one pass over class 0, with the "
        "tolerance inferred from noise; 'δ 0.05': the same with the paper's tolerance, which all other columns have. "
        "SGD's ε falls from 0.1 to 0.001; without annealing it is 0.001. Its period is 1000, and 200 for ISOLET and "
        "Fruits 360. 'spread': largest difference between the three μ columns, in percent of the largest possible "
        "value, 0.579·D.",
        ["data", *(h for c in columns for h in ((f"{c} (paper)", f"{c} (ours)") if c != FIXED else (f"{c} (ours)",))),
         "spread, ours"],
    )  # fmt: skip
    for name in plan.names:
        published = _published(plan, name)
        cells = []
        for column in columns:
            if column != FIXED:
                cells.append(shown(published.get(column)))
            cells.append(shown(last(found, wanted[name, column], "max_component")))
        means = [last(found, wanted[name, _mu(v)], "max_component").mean for v in RANGES]
        spread = 100 * (max(means) - min(means)) / ceiling(plan.sizes(name)[2])
        table.rows.append([plan.title(name), *cells, f"{spread:.2f} %"])
    return table


def _published(plan: Plan, name: str) -> dict[str, Value]:
    values = plan.published(INITIALISATION, name)
    return {} if values is None else dict(zip((*map(_mu, RANGES), INFERRED, UNANNEALED), values, strict=True))


def _annealing_table(plan: Plan, wanted: Runs, found: Results) -> Table:
    chosen = best_rates(plan)
    fair = {n: rate_runs(plan, chosen[n], plan.seeds)[n, UNANNEALED] for n in plan.names}
    found = found | plan.run([r for group in fair.values() for r in group], "no annealing, best rates")
    table = Table(
        "What annealing adds",
        f"SGD, {plan.size}, trained and tested as above, from random means in ±0.1. In parentheses: components that "
        f"win a test sample. 'best ε': the best constant rate of {', '.join(map(str, rates(plan)))}, by the training "
        "objective of seed 0. 'added': annealed minus not annealed, in nats.",
        ["data", "annealed", "none, ε 0.001", "none, best ε", "best ε", "added (paper)", "added, ε 0.001",
         "added, best ε"],
    )  # fmt: skip
    for name in plan.names:
        groups = (wanted[name, _mu(RANGES[0])], wanted[name, UNANNEALED], fair[name])
        values = [last(found, group, "max_component") for group in groups]
        live = [last(found, group, "live").mean for group in groups]
        published = plan.published(INITIALISATION, name)
        paper = f"{published[0].mean - published[4].mean:+.1f}" if published else "–"
        cells = [f"{shown(v)} ({n:.0f})" for v, n in zip(values, live, strict=True)]
        added = [f"{values[0].mean - v.mean:+.1f}" for v in values[1:]]
        table.rows.append([plan.title(name), *cells, chosen[name], paper, *added])
    return table


def _other_readings(plan: Plan, wanted: Runs, found: Results) -> Table:
    slow = constant_runs(plan)
    table = Table(
        "Initialisation, read otherwise",
        "Two readings that do not give the published values. Columns 'trained': the runs of the first table, tested "
        "on the classes that they were trained on. Columns 'ε 0.001': the rate is constant during annealing, too, so "
        "steps are too small for means that start farther away; tested on all classes, at most 3 seeds.",
        ["data", *(f"{_mu(v)}, trained" for v in RANGES), *(f"{_mu(v)}, ε 0.001" for v in RANGES)],
    )
    for name in plan.names:
        seen = [
            shown(last(found, wanted[name, _mu(v)], "max_component_seen")) if plan.classes(name) else "–"
            for v in RANGES
        ]
        constant = [shown(last(found, slow[name, _mu(v)], "max_component")) for v in RANGES]
        table.rows.append([plan.title(name), *seen, *constant])
    return table
