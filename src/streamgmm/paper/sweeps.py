"""The effect of every parameter: one is varied, all others keep their defaults."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from streamgmm.paper.comparison import last, shown
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.runs import Results, Run

SETS = ("mnist", "fashionmnist", "devanagari")
SEEDS = 3
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
        Values to try; None stands for the default.
    rule : str, default="sgd"
        The rule.
    fixed : dict, default={}
        Other settings, the same for all values.
    """

    parameter: str
    symbol: str
    values: tuple[Any, ...]
    rule: str = "sgd"
    fixed: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Name of its figure."""
        return "-".join(["effect", self.parameter, *map(str, self.fixed.values()), self.rule])

    @property
    def has_curve(self) -> bool:
        """Whether its values are numbers that a curve can be drawn over."""
        return all(isinstance(value, int | float) for value in self.values)


SWEEPS = (
    Sweep("grid", "grid", ("torus", "ring")),
    Sweep("batch_size", "batch size", (1, 16, 100)),
    Sweep("batch_size", "batch size", (1, 16, 100), "natural"),
    Sweep("tol", "δ (tol)", (0.01, 0.02, 0.05, 0.1, 0.2)),
    Sweep("period", "1/α (period)", (200, 500, 1000, 2000, 5000)),
    Sweep("period", "1/α (period)", (50, 160, 500, 1000, 2000), "natural"),
    Sweep("sigma_init", "σ₀", (0.5, 1.0, 2.0, 3.0, 4.0, 8.0)),
    Sweep("sigma_init", "σ₀", (0.5, 1.0, 2.0, 3.0, 4.0, 8.0), "natural"),
    Sweep("sigma_init", "σ₀ on a ring", (2.0, 4.0, 8.0, 16.0), fixed={"grid": "ring"}),
    Sweep("sigma_min", "σ∞", (0.01, 0.1, 0.3, 0.5, 0.7)),
    Sweep("precision_max", "precision_max", (5.0, 10.0, 20.0, 40.0, 80.0)),
    Sweep("precision_max", "precision_max", (5.0, 10.0, 20.0, 40.0, 80.0), "natural"),
    Sweep("precision_start", "precision at the start", (1.0, 5.0, 10.0, 20.0)),
    Sweep("weights_start", "weights at the start", (None, "random", "one half")),
    Sweep("learning_rate_init", "ε₀", (0.01, 0.03, 0.1, 0.3)),
    Sweep("learning_rate_min", "ε∞", (0.0003, 0.001, 0.003, 0.01)),
    Sweep("n_components", "K", GRIDS),
    Sweep("n_components", "K", GRIDS, "natural"),
)


def names(plan: Plan) -> list[str]:
    """Return the data sets of a plan that sweeps are measured on.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [n for n in plan.names if n in SETS or plan.own is not None]


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
    found = {}
    for value in values:
        given = plan.settings(sweep.rule, **sweep.fixed)
        if value is not None:
            given[sweep.parameter] = value
        part = plan.part(name)
        found[value] = [Run(name, sweep.rule, s, plan.passes, given, part) for s in plan.few_seeds(name, SEEDS)]
    return found


def runs(plan: Plan) -> Iterator[Run]:
    """Yield the runs of all sweeps.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    for name in names(plan):
        for sweep in SWEEPS:
            for group in sweep_runs(plan, sweep, name).values():
                yield from group


def table(plan: Plan, found: Results, sweep: Sweep) -> Table:
    """Make the table of a sweep.

    Parameters
    ----------
    plan : Plan
        What to measure.
    found : dict
        Results by record name.
    sweep : Sweep
        The parameter and its values.
    """
    columns = list(sweep_runs(plan, sweep, names(plan)[0]))
    made = Table(
        f"Effect of {sweep.symbol}, {sweep.rule}",
        f"{_words(plan, sweep)}, test max-component log-likelihood, mean ± std over seeds (in "
        "parentheses: components that win a test sample). All other parameters have their defaults, and SGD's δ is "
        "0.05.",
        ["data", *(f"{sweep.symbol} {'uniform' if v is None else v}" for v in columns)],
    )
    for name in names(plan):
        cells = []
        for group in sweep_runs(plan, sweep, name).values():
            live = last(found, group, "live").mean
            cells.append(f"{shown(last(found, group, 'max_component'))} ({live:.0f})")
        made.rows.append([plan.title(name), *cells])
    return made


def _words(plan: Plan, sweep: Sweep) -> str:
    """Return the size of a plan without what the sweep varies."""
    varied = {"n_components": "K =", "batch_size": "batch size"}.get(sweep.parameter)
    return ", ".join(part for part in plan.size.split(", ") if varied is None or not part.startswith(varied))
