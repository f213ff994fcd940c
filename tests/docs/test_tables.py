"""Tables that ``make results`` copies: a page shows the figures of the table that it names."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from types import ModuleType

import pytest

from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.source
TABLE = "| data | a | b |\n|---|---|---|\n| x | 1 | 2 |\n| y | 3 | 4 |"


@pytest.fixture
def assemble(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module("assemble")
    sys.modules.pop("assemble")


def test_some_columns_of_a_table(assemble: ModuleType) -> None:
    assert assemble.select(TABLE, ["data", "b"]) == "| data | b |\n|---|---|\n| x | 2 |\n| y | 4 |"


def test_some_rows_of_a_table(assemble: ModuleType) -> None:
    assert assemble.select(TABLE, ["a=3", "data", "b"]) == "| data | b |\n|---|---|\n| y | 4 |"


def test_a_column_that_is_not_there(assemble: ModuleType) -> None:
    with pytest.raises(SystemExit, match="no column 'c'; its columns are data, a, b"):
        assemble.select(TABLE, ["c"])


def test_the_readme_shows_figures_of_the_results(assemble: ModuleType) -> None:
    """Its table of quality is a part of the table of densities."""
    readme = (ROOT / "README.md").read_text(encoding="utf8")
    found = re.search(r"<!-- begin compare: (.+?) -->\n(.*?)\n<!-- end", readme, re.S)
    assert found
    title, *columns = found[1].split("; ")
    full = assemble.table((DOCS / "results.md").read_text(encoding="utf8"), title)
    assert found[2] == assemble.select(full, columns)
