"""The pages of the documentation, and the code in them."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
GENERATED = {"commands.md"}  # written by docs/command_page.py from the commands themselves


def pages() -> list[Path]:
    """Return the README and every page of the site that is in the repository."""
    found = [p for folder in (DOCS, DOCS / "guide", DOCS / "decisions") for p in sorted(folder.glob("*.md"))]
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(p for p in found if p.name not in GENERATED)]


def blocks(path: Path, language: str) -> list[str]:
    """Return the blocks of code in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```", path.read_text(encoding="utf8"), re.S | re.M)
