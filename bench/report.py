"""The report: tables as Markdown and as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import streamgmm
from streamgmm import native
from streamgmm.paper import markdown_table

ORDER = [
    "Batch 1 against the memory limit",
    "Cost per sample over sizes",
    "Early abandoning",
    "Raw data",
    "Sample by sample",
    "Until as good as batch EM",
    "Cost of a pass",
    "Scoring",
    "Covariances that couple features",
    "Two threads",
    "Training from a stream",
    "The live page",
    "One row a call, K=16, D=12",
    "One row a call, K=8, D=10",
    "Data frames",
    "Small models in chunks",
    "One row through a pipe",
    "Start-up",
    "Batches and rules",
    "Memory",
]


class Table(markdown_table.Table):
    """A table that prints its rows as they are added. A cell may be a ratio: median, minimum and maximum."""

    def add(self, *cells: Any) -> None:
        """Add a row and print it.

        Parameters
        ----------
        *cells
            Values of the columns.
        """
        self.rows.append(list(cells))
        print("  " + " · ".join(show(c) for c in cells), flush=True)

    def markdown(self) -> str:
        """Return heading, caption and table as Markdown."""
        shown = [[show(c) for c in row] for row in self.rows]
        return markdown_table.Table(self.title, self.words, self.columns, shown).markdown()


def show(cell: Any) -> str:
    """Format a cell.

    Parameters
    ----------
    cell : object
        A value, or a ratio: median, minimum and maximum.
    """
    if isinstance(cell, tuple):
        middle, low, high = (f"{v:.2f}" if abs(v) < 10 else f"{v:,.0f}" for v in cell)
        return f"{middle} ({low}-{high})"
    if isinstance(cell, float):
        return f"{cell:.2f}" if abs(cell) < 10 else f"{cell:,.0f}"
    return str(cell)


def _known(path: Path) -> list[Table]:
    """Return the tables of a report; none if there is no readable one."""
    try:
        found = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return []
    tables = [Table(**t) for t in found["tables"]]
    for table in tables:
        table.rows = [[tuple(c) if isinstance(c, list) else c for c in row] for row in table.rows]
    return tables


def facts() -> dict[str, str]:
    """Return versions and the machine."""
    return {
        "streamgmm": streamgmm.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, vectors {native.width()}",
    }


def write(tables: list[Table], folder: Path) -> None:
    """Write the report; tables of an earlier report stay unless there is a new one with the same title.

    Parameters
    ----------
    tables : list of Table
        New tables.
    folder : Path
        Folder of the report.
    """
    folder.mkdir(parents=True, exist_ok=True)
    new = {t.title: t for t in tables}
    old = [t for t in _known(folder / "report.json") if t.title not in new]
    tables = sorted([*old, *tables], key=lambda t: ORDER.index(t.title) if t.title in ORDER else len(ORDER))
    about = "; ".join(f"{k} {v}" for k, v in facts().items())
    text = "\n".join(t.markdown() for t in tables)
    heading = f"{about}. Medians over interleaved rounds (minimum-maximum)."
    (folder / "report.md").write_text(f"{heading}\n\n{text}", "utf8")
    (folder / "report.json").write_text(json.dumps({"facts": facts(), "tables": [asdict(t) for t in tables]}, indent=1))
