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

    def without_empty_columns(self) -> Table:
        """Return the table without columns that hold nothing but dashes."""
        kept = [i for i in range(len(self.columns)) if any(row[i] != "–" for row in self.rows)]
        rows = [[row[i] for i in kept] for row in self.rows]
        return Table(self.title, self.words, [self.columns[i] for i in kept], rows)

    def markdown(self) -> str:
        """Return heading, caption and table as Markdown."""
        lines = ["| " + " | ".join(self.columns) + " |", "|---" * len(self.columns) + "|"]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in self.rows]
        return f"### {self.title}\n\n{self.words}\n\n" + "\n".join(lines) + "\n"
