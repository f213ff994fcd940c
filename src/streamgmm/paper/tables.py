"""All tables, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamgmm.errors import StreamGMMError
from streamgmm.paper import claims, clustering, drift, figures, initialisation, layers_table, rules_table, streaming
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Run, versions
from streamgmm.storage.atomic import write_atomically


class Maker(NamedTuple):
    """How to make a table.

    Parameters
    ----------
    make : callable
        Makes the tables of a plan.
    expected : callable
        Returns about the runs that this takes.
    """

    make: Callable[[Plan], list[Table]]
    expected: Callable[[Plan], list[Run]]


TABLES: dict[str, Maker] = {
    "streaming": Maker(streaming.make, streaming.expected),
    "initialisation": Maker(initialisation.make, initialisation.expected),
    "clustering": Maker(clustering.make, clustering.expected),
    "drift": Maker(drift.make, drift.expected),
    "claims": Maker(claims.make, claims.expected),
    "figures": Maker(figures.make, figures.expected),
    "rules": Maker(rules_table.make, rules_table.expected),
    "layers": Maker(layers_table.make, layers_table.expected),
}
OF_THE_PAPER = [name for name in TABLES if name not in ("rules", "layers")]


def seconds(names: list[str], plan: Plan) -> float:
    """Estimate how long it takes to make tables, given the records that exist.

    Parameters
    ----------
    names : list of str
        Tables out of ``TABLES``.
    plan : Plan
        What to measure.
    """
    return plan.seconds([run for name in names for run in TABLES[name].expected(plan)])


def make(name: str, plan: Plan) -> list[Table]:
    """Make tables, and write them as Markdown to the folder of the records.

    Parameters
    ----------
    name : str
        One of ``TABLES``.
    plan : Plan
        What to measure.
    """
    tables = TABLES[name].make(plan)
    if not any(t.rows for t in tables):
        raise StreamGMMError(f"{name} has no table for {', '.join(plan.names)}; mnist is in all of them.")
    about = "; ".join(f"{k} {v}" for k, v in versions().items())
    few = {"claims": f"{claims.SEEDS} seeds", "figures": "one seed", "layers": "one seed"}.get(
        name, f"{plan.seeds} seeds (Fruits 360: 3)"
    )
    seeds = "quick form: few rows, one pass, one seed" if plan.quick else few
    text = f"{seeds}; tables made with {about}.\n\n" + "\n".join(t.markdown() for t in tables)
    plan.folder.mkdir(parents=True, exist_ok=True)
    part = "" if set(plan.names) == set(NAMES) else "-" + "-".join(plan.names)
    write_atomically(plan.folder / f"{name}{part}.md", text.encode())
    return tables
