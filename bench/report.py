"""Tables for people and JSON for programs, from the same cells."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

import streamgmm
from streamgmm import kernels
from streamgmm.paper import plan

ORDER = [
    "Batch 1 against the memory limit",
    "Cost per sample over sizes",
    "Early abandoning",
    "Sample by sample",
    "Until as good as batch EM",
    "Scoring",
    "Two threads",
    "Training from a stream",
    "The live page",
    "Batches and rules",
    "Memory",
]


class Table(plan.Table):
    """A table that shows its rows as they come; cells may be ratios."""

    def add(self, *cells: Any) -> None:
        self.rows.append(list(cells))
        print("  " + " · ".join(show(c) for c in cells), flush=True)

    def markdown(self) -> str:
        shown = [[show(c) for c in row] for row in self.rows]
        return plan.Table(self.title, self.words, self.columns, shown).markdown()


def show(cell: Any) -> str:
    """Ratios are triples: median (lowest-highest)."""
    if isinstance(cell, tuple):
        middle, low, high = (f"{v:.2f}" if abs(v) < 10 else f"{v:,.0f}" for v in cell)
        return f"{middle} ({low}-{high})"
    if isinstance(cell, float):
        return f"{cell:.2f}" if abs(cell) < 10 else f"{cell:,.0f}"
    return str(cell)


def _known(path: Path) -> list[Table]:
    try:
        found = json.loads(path.read_text(encoding="utf8"))
    except (OSError, ValueError):
        return []
    tables = [Table(**t) for t in found["tables"]]
    for table in tables:
        table.rows = [[tuple(c) if isinstance(c, list) else c for c in row] for row in table.rows]
    return tables


def facts() -> dict[str, str]:
    return {
        "streamgmm": streamgmm.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, vectors {kernels.width()}",
    }


def write(tables: list[Table], folder: Path) -> None:
    """Tables replace those of the same title in the report that is there; every table was measured in one run."""
    folder.mkdir(parents=True, exist_ok=True)
    new = {t.title: t for t in tables}
    old = [t for t in _known(folder / "report.json") if t.title not in new]
    tables = sorted([*old, *tables], key=lambda t: ORDER.index(t.title) if t.title in ORDER else len(ORDER))
    about = "; ".join(f"{k} {v}" for k, v in facts().items())
    text = "\n".join(t.markdown() for t in tables)
    (folder / "report.md").write_text(f"{about}. Medians over interleaved rounds (lowest-highest).\n\n{text}", "utf8")
    (folder / "report.json").write_text(json.dumps({"facts": facts(), "tables": [asdict(t) for t in tables]}, indent=1))
