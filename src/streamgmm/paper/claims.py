"""The effect of every parameter, and claims that the paper makes without a table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from streamgmm.paper.comparison import ceiling, last, shown, summary
from streamgmm.paper.durations import SIZES
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Results, Run

SEEDS = 3
SETS = ("mnist", "fashionmnist", "devanagari")
WINDOW = 9  # points of the moving mean; a curve has about 200
PATCHES = (6, 10, 14, 20, 28)
GRIDS = (16, 36, 64, 100, 144, 256)


@dataclass(frozen=True)
class Sweep:
    """Values of one parameter; all others keep their defaults.

    Parameters
    ----------
    parameter : str
        Name of the parameter.
    symbol : str
        Its symbol in tables and figures.
    values : tuple
        Values to try.
    rule : str, default="sgd"
        The rule.
    """

    parameter: str
    symbol: str
    values: tuple[Any, ...]
    rule: str = "sgd"


SWEEPS = (
    Sweep("grid", "grid", ("torus", "ring")),
    Sweep("batch_size", "batch size", (1, 16, 100)),
    Sweep("batch_size", "batch size", (1, 16, 100), "natural"),
    Sweep("tol", "δ (tol)", (0.01, 0.02, 0.05, 0.1, 0.2)),
    Sweep("period", "1/α (period)", (200, 500, 1000, 2000, 5000)),
    Sweep("period", "1/α (period)", (50, 160, 500, 1000, 2000), "natural"),
    Sweep("sigma_init", "σ₀", (0.5, 1.0, 2.0, 3.0, 4.0)),
    Sweep("sigma_init", "σ₀", (0.5, 1.0, 2.0, 3.0, 4.0), "natural"),
    Sweep("sigma_min", "σ∞", (0.01, 0.1, 0.3, 0.5, 0.7)),
    Sweep("precision_max", "precision_max", (5.0, 10.0, 20.0, 40.0, 80.0)),
    Sweep("precision_max", "precision_max", (5.0, 10.0, 20.0, 40.0, 80.0), "natural"),
    Sweep("learning_rate_init", "ε₀", (0.01, 0.03, 0.1, 0.3)),
    Sweep("learning_rate_min", "ε∞", (0.0003, 0.001, 0.003, 0.01)),
    Sweep("n_components", "K", GRIDS),
    Sweep("n_components", "K", GRIDS, "natural"),
)


def names(plan: Plan) -> list[str]:
    """Return the data sets of a plan that the claims are measured on.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [n for n in plan.names if n in SETS]


def _seeds(plan: Plan) -> range:
    return range(1 if plan.quick else min(SEEDS, plan.seeds))


def sweep_runs(plan: Plan, sweep: Sweep, name: str) -> dict[Any, list[Run]]:
    """Return the runs of a sweep on one data set, by value of the parameter.

    Parameters
    ----------
    plan : Plan
        What to measure.
    sweep : Sweep
        The parameter and its values.
    name : str
        The data set.
    """
    values = sweep.values[:: max(1, len(sweep.values) - 1)] if plan.quick else sweep.values
    return {
        value: [
            Run(name, sweep.rule, s, plan.passes, {"rule": sweep.rule, sweep.parameter: value}, plan.part(name))
            for s in _seeds(plan)
        ]
        for value in values
    }


def _pass_runs(plan: Plan, name: str, rule: str) -> list[Run]:
    passes = 2 if plan.quick else 4
    return [Run(name, rule, s, passes, {"rule": rule}, plan.part(name)) for s in _seeds(plan)]


def _patch_runs(plan: Plan, side: int) -> list[Run]:
    return [Run("mnist", "sgd", s, plan.passes, {"rule": "sgd"}, plan.part("mnist", patch=side)) for s in _seeds(plan)]


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the claims need.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return list(_all(plan))


def _all(plan: Plan) -> Iterable[Run]:
    for name in names(plan):
        for sweep in SWEEPS:
            for group in sweep_runs(plan, sweep, name).values():
                yield from group
        for rule in ("sgd", "natural"):
            yield from _pass_runs(plan, name, rule)
    if "mnist" in plan.names:
        for side in PATCHES:
            yield from _patch_runs(plan, side)


def results(plan: Plan) -> Results:
    """Measure all runs of the claims.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return plan.run(_all(plan), "claims")


def make(plan: Plan) -> list[Table]:
    """Make the tables of the claims.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    found = results(plan)
    if not found:
        return []
    tables = [_sweep_table(plan, found, sweep) for sweep in SWEEPS]
    return [
        *tables,
        _passes(plan, found),
        _speed(plan, found),
        *([_bound(plan, found)] if "mnist" in plan.names else []),
    ]


def _sweep_table(plan: Plan, found: Results, sweep: Sweep) -> Table:
    columns = list(sweep_runs(plan, sweep, names(plan)[0]))
    table = Table(
        f"Effect of {sweep.symbol}, {sweep.rule}",
        f"Test max-component log-likelihood after {plan.passes} passes, mean ± std over {len(_seeds(plan))} seeds (in "
        "parentheses: components that win a test sample). All other parameters have their defaults.",
        ["data", *(f"{sweep.symbol} {v}" for v in columns)],
    )
    for name in names(plan):
        cells = []
        for group in sweep_runs(plan, sweep, name).values():
            live = last(found, group, "live").mean
            cells.append(f"{shown(last(found, group, 'max_component'))} ({live:.0f})")
        table.rows.append([NAMES[name], *cells])
    return table


def _passes(plan: Plan, found: Results) -> Table:
    count = 2 if plan.quick else 4
    table = Table(
        "Claim: convergence within two passes",
        "Test max-component log-likelihood after each pass, and the gain of the passes after the second in percent of "
        "the largest possible value, 0.579·D.",
        ["data", "rule", *(f"pass {i + 1}" for i in range(count)), "after the second"],
    )
    for name in names(plan):
        for rule in ("sgd", "natural"):
            records = [found[r.file]["passes"] for r in _pass_runs(plan, name, rule)]
            values = [summary([p[i]["max_component"] for p in records]) for i in range(count)]
            gain = 100 * (values[-1].mean - values[1].mean) / ceiling(SIZES[name][2])
            table.rows.append([NAMES[name], rule, *map(shown, values), f"{gain:+.2f} %"])
    return table


def _speed(plan: Plan, found: Results) -> Table:
    """Make the table of samples until the log-likelihood of the stream settles, by K."""
    table = Table(
        "Claim: convergence time against K",
        "Samples until the max-component log-likelihood of the stream (a moving mean over a twentieth of the run) "
        "first comes within 1 % of its final value, relative to the largest possible value; three passes.",
        ["data", "rule", *(f"K {k}" for k in GRIDS)],
    )
    for name in names(plan):
        for rule in ("sgd", "natural"):
            sweep = next(s for s in SWEEPS if s.parameter == "n_components" and s.rule == rule)
            groups = sweep_runs(plan, sweep, name)
            cells = []
            for k in GRIDS:
                times = [_settled(found[r.file]["curve"], 0.01 * ceiling(SIZES[name][2])) for r in groups.get(k, [])]
                cells.append(f"{summary(times).mean:,.0f}" if times else "–")
            table.rows.append([NAMES[name], rule, *cells])
    return table


def _settled(curve: list[list[float]], margin: float) -> float:
    """Return when a moving mean of the curve first comes within ``margin`` of its end; single points are noisy."""
    if len(curve) < WINDOW:
        return float("nan")
    smooth = np.convolve([row[2] for row in curve], np.ones(WINDOW) / WINDOW, mode="valid")
    return float(curve[int(np.argmax(smooth >= smooth[-1] - margin)) + WINDOW // 2][0])


def _bound(plan: Plan, found: Results) -> Table:
    table = Table(
        "Claim: the max-component bound is tight in many dimensions",
        "SGD on patches from the middle of MNIST images: exact and max-component log-likelihood of test data, their "
        "difference in nats (at most log 64 = 4.16), and the mean maximum responsibility.",
        ["patch", "D", "exact", "max-component", "difference", "max p"],
    )
    for side in PATCHES:
        group = _patch_runs(plan, side)
        exact, top = last(found, group, "log_likelihood"), last(found, group, "max_component")
        table.rows.append(
            [f"{side}×{side}", side * side, shown(exact, 2), shown(top, 2), f"{exact.mean - top.mean:.3f}",
             f"{last(found, group, 'responsibility').mean:.4f}"]
        )  # fmt: skip
    return table
