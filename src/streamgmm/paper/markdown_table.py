"""A table, as plain data and as Markdown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """A table of results.

    Parameters
    ----------
    title : str
        Heading.
    words : str
        Caption: what was measured, and how.
    columns : list of str
        Names of the columns.
    rows : list of list
        Cells, row by row.
    """

    title: str
    words: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)

    def markdown(self) -> str:
        """Return heading, caption and table as Markdown."""
        lines = ["| " + " | ".join(self.columns) + " |", "|---" * len(self.columns) + "|"]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in self.rows]
        return f"### {self.title}\n\n{self.words}\n\n" + "\n".join(lines) + "\n"
