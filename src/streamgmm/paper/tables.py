"""All tables by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamgmm.checkpoint import write_atomically
from streamgmm.paper import claims, clustering, drift, figures, initialisation, rules_table, streaming
from streamgmm.paper.plan import Plan, Table
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Run, versions


class Maker(NamedTuple):
    """How a table is made, and about which runs that will take."""

    make: Callable[[Plan], list[Table]]
    expected: Callable[[Plan], list[Run]]


TABLES: dict[str, Maker] = {
    "streaming": Maker(streaming.make, streaming.expected),
    "initialisation": Maker(
        initialisation.make, lambda plan: [r for group in initialisation.runs(plan).values() for r in group]
    ),
    "clustering": Maker(clustering.make, clustering.expected),
    "drift": Maker(drift.make, lambda plan: [r for group in drift.runs(plan).values() for r in group]),
    "claims": Maker(claims.make, claims.expected),
    "figures": Maker(figures.pictures, figures.expected),
    "rules": Maker(rules_table.make, rules_table.expected),
}
OF_THE_PAPER = [name for name in TABLES if name != "rules"]


def seconds(names: list[str], plan: Plan) -> float:
    """Roughly how long it will take to make these tables from the records that are there."""
    return plan.seconds([run for name in names for run in TABLES[name].expected(plan)])


def make(name: str, plan: Plan) -> list[Table]:
    """Makes a table, and leaves it as Markdown beside the records."""
    tables = TABLES[name].make(plan)
    if not any(t.rows for t in tables):
        raise ValueError(f"{name} has nothing to say about {', '.join(plan.names)}; try it with mnist.")
    about = "; ".join(f"{k} {v}" for k, v in versions().items())
    few = {"claims": f"{claims.SEEDS} seeds", "figures": "one seed"}.get(name, f"{plan.seeds} seeds (Fruits 360: 3)")
    seeds = "quick form: few rows, one pass, one seed" if plan.quick else few
    text = f"{seeds}; tables made with {about}.\n\n" + "\n".join(t.markdown() for t in tables)
    plan.folder.mkdir(parents=True, exist_ok=True)
    part = "" if set(plan.names) == set(NAMES) else "-" + "-".join(plan.names)
    write_atomically(plan.folder / f"{name}{part}.md", text.encode())
    return tables
