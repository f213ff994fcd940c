"""What the package says about itself, and the files that others read."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest

from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.source
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["project"]


def test_who_made_it_and_where_it_is() -> None:
    assert PROJECT["authors"]
    assert {"Documentation", "Source", "Issues", "Changelog"} <= set(PROJECT["urls"])


def test_the_citation_names_this_version_and_the_paper() -> None:
    text = (ROOT / "CITATION.cff").read_text(encoding="utf8")
    assert f"\nversion: {PROJECT['version']}\n" in text
    assert PROJECT["license"] in text
    assert {"Gepperth", "Pfülb"} <= set(re.findall(r"family-names: (\w+)", text))


def test_every_python_that_we_claim_is_tested_and_built() -> None:
    claimed = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert PROJECT["requires-python"] == f">={claimed[0]}"
    tests = (ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf8")
    assert re.findall(r'"(3\.\d+)"', re.findall(r"python: \[.*\]", tests)[0]) == claimed
    wheels = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf8"))["tool"]["cibuildwheel"]["build"]
    assert wheels.split() == [f"cp{version.replace('.', '')}-*" for version in claimed]


def test_targets_of_workflows_exist() -> None:
    known = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf8"), re.M)
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for line in re.findall(r"run: make (.+)", path.read_text(encoding="utf8")):
            assert set(line.split()) <= set(known), path.name


def test_every_extra_is_explained() -> None:
    table = (DOCS / "start.md").read_text(encoding="utf8").partition("| extra |")[2].partition("\n\n")[0]
    for_users = set(PROJECT["optional-dependencies"]) - {"dev", "docs", "bench", "paper"}
    assert for_users == {
        name for cell in re.findall(r"^\| ([^|]+) \|", table, re.M) for name in re.findall(r"`(\w+)`", cell)
    }
