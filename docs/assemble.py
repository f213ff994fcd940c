"""Insert measured tables into docs/results.md and README.md (``make results``).

Text between ``<!-- begin NAME -->`` and ``<!-- end NAME -->`` is replaced by the Markdown file that NAME stands for, or
by one of its tables (``NAME: title of the table``) or some columns of it (``NAME: title; column; column``), in some
rows (``NAME: title; column=value; column``), so that no figure is copied by hand.
"""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAPER = (
    "differences",
    "streaming",
    "initialisation",
    "clustering",
    "readings",
    "drift",
    "claims",
    "figures",
    "rules",
    "layers",
)
SOURCES = {
    **{f"paper {name}": f"runs/paper/{name}.md" for name in PAPER},
    "bench": "runs/bench/report.md",
    "compare": "runs/compare/report.md",
}
PICTURES = ("centroids-", "sem-", "sparse", "filters", "curve-mnist", "effect-", "half-life", "samples-", "outliers")
LARGEST = 300_000  # bytes of a committed picture


def assemble(text: str) -> str:
    """Return a document with all marked parts replaced; parts whose file is missing stay as they are.

    Parameters
    ----------
    text : str
        The document.
    """

    def part(found: re.Match[str]) -> str:
        name, only = found[1].partition(": ")[::2]
        if name not in SOURCES:
            raise SystemExit(f"marker {name!r} is unknown; expected one of {', '.join(SOURCES)}.")
        path = ROOT / SOURCES[name]
        if not path.exists():
            print(f"{SOURCES[name]} does not exist; {name!r} is left unchanged.", file=sys.stderr)
            return found[0]
        text = path.read_text(encoding="utf8").strip()
        if only:
            title, *columns = only.split("; ")
            text = select(table(text, title), columns) if columns else table(text, title)
        return f"<!-- begin {found[1]} -->\n{text}\n<!-- end {found[1]} -->"

    return re.sub(r"<!-- begin (.+?) -->.*?<!-- end \1 -->", part, text, flags=re.S)


def table(text: str, title: str) -> str:
    """Return the rows of the table under a heading.

    Parameters
    ----------
    text : str
        A Markdown document.
    title : str
        The heading.
    """
    below = text.partition(f"### {title}\n")[2]
    if not below:
        raise SystemExit(f"table {title!r} does not exist.")
    rows = below.partition("###")[0].splitlines()
    return "\n".join(line for line in rows if line.startswith("|"))


def select(rows: str, columns: list[str]) -> str:
    """Return a table with some of its columns, and some of its rows.

    Parameters
    ----------
    rows : str
        The lines of a Markdown table.
    columns : list of str
        Headings of the columns to keep, in their new order; ``heading=value`` keeps the rows with this value.
    """
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in rows.splitlines()]
    conditions = [name.split("=", 1) for name in columns if "=" in name]
    names = [name for name in columns if "=" not in name]
    if missing := [name for name in [*names, *(name for name, _ in conditions)] if name not in cells[0]]:
        raise SystemExit(f"the table has no column {missing[0]!r}; its columns are {', '.join(cells[0])}.")
    for name, value in conditions:
        place = cells[0].index(name)
        cells = cells[:2] + [line for line in cells[2:] if line[place] == value]
    kept = [cells[0].index(name) for name in names]
    lines = ["| " + " | ".join(line[i] for i in kept) + " |" for line in cells]
    lines[1] = "|" + "---|" * len(kept)
    return "\n".join(lines)


def copy_pictures() -> None:
    """Copy figures of the paper to the documentation, unless they are too large."""
    target = ROOT / "docs" / "pictures" / "paper"
    target.mkdir(parents=True, exist_ok=True)
    for path in sorted((ROOT / "runs" / "paper" / "pictures").glob("*.png")):
        if path.name.startswith(PICTURES) and path.stat().st_size <= LARGEST:
            shutil.copyfile(path, target / path.name)


def main() -> None:
    """Update both documents and the figures."""
    for name in ("docs/results.md", "README.md"):
        path = ROOT / name
        path.write_text(assemble(path.read_text(encoding="utf8")), encoding="utf8")
    copy_pictures()


if __name__ == "__main__":
    main()
