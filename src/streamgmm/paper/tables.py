"""All tables, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from streamgmm.errors import StreamGMMError
from streamgmm.paper import (
    claims,
    clustering,
    differences,
    drift,
    figures,
    initialisation,
    layers_table,
    readings,
    rules_table,
    streaming,
    sweeps,
)
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
    "readings": Maker(readings.make, readings.expected),
    "drift": Maker(drift.make, drift.expected),
    "claims": Maker(claims.make, claims.expected),
    "figures": Maker(figures.make, figures.expected),
    "differences": Maker(differences.make, differences.expected),
    "rules": Maker(rules_table.make, rules_table.expected),
    "layers": Maker(layers_table.make, layers_table.expected),
}
OF_THE_PAPER = [name for name in TABLES if name not in ("rules", "layers")]
OF_ANY_DATA = ["streaming", "initialisation", "clustering", "claims", "rules"]


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
        where = "the paper's own sets" if plan.own else "mnist, which has all but readings"
        raise StreamGMMError(f"{name} has no table for {', '.join(plan.names)}; use {where}.")
    if not plan.has_published:
        tables = [table.without_empty_columns() for table in tables]
    about = "; ".join(f"{k} {v}" for k, v in versions().items())
    text = f"{_seeds(name, plan)}; tables made with {about}.\n\n" + "\n".join(t.markdown() for t in tables)
    plan.folder.mkdir(parents=True, exist_ok=True)
    part = "" if set(plan.names) == set(NAMES) else "-" + "-".join(plan.names)
    write_atomically(plan.folder / f"{name}{part}.md", text.encode())
    return tables


def _seeds(name: str, plan: Plan) -> str:
    if plan.quick:
        return "Quick form: few rows, one pass, one seed"
    most = {"claims": sweeps.SEEDS, "figures": 1, "layers": 3, "readings": 3}.get(name, plan.seeds)
    count = min(most, plan.seeds)
    words = "1 seed" if count == 1 else f"{count} seeds"
    return words + (" (Fruits 360: 3)" if "fruits360" in plan.names and count > 3 else "")
