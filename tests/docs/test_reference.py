"""The reference lists every public name, and the gallery every example."""

from __future__ import annotations

import importlib
import re
import sys

import pytest

from tests.docs.pages import DOCS, ROOT

pytestmark = pytest.mark.source
PUBLIC = (
    "streamgmm",
    "streamgmm.core.covariance",
    "streamgmm.core.rules",
    "streamgmm.engines",
    "streamgmm.layers",
    "streamgmm.monitoring",
    "streamgmm.plots",
    "streamgmm.sinks",
    "streamgmm.sinks.alerts",
    "streamgmm.sources",
    "streamgmm.storage",
)


def public_names() -> set[str]:
    """Names that users may rely on, by the module that offers them first."""
    found: dict[int, str] = {}
    names = set()
    for module_name in PUBLIC:
        module = importlib.import_module(module_name)
        for name in module.__all__:
            if name.startswith("Online"):
                pytest.importorskip("river")
            value = getattr(module, name)
            if isinstance(value, type) or callable(value):
                names.add(found.setdefault(id(value), f"{module_name}.{name}"))
            else:
                names.add(f"{module_name}.{name}")
    return names


def listed_names() -> set[str]:
    """Names in the tables of the reference, and those that it describes by hand."""
    names = set()
    for path in (DOCS / "api").glob("*.md"):
        module = ""
        for line in path.read_text(encoding="utf8").splitlines():
            if found := re.match(r"\.\. currentmodule:: (\S+)", line):
                module = found[1]
            elif found := re.match(r"(?:   |\.\. py:data:: )(\w+)$", line):
                names.add(f"{module}.{found[1]}")
    return names


def test_every_public_name_is_listed() -> None:
    assert public_names() - listed_names() == set()


def test_every_listed_name_exists() -> None:
    for name in listed_names():
        module, _, attribute = name.rpartition(".")
        assert hasattr(importlib.import_module(module), attribute), name


def test_every_command_has_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(DOCS))
    from typer.main import get_command

    from streamgmm.cli.app import app

    page = importlib.import_module("command_page").page()
    sys.modules.pop("command_page")
    for name, command in get_command(app).commands.items():
        assert f"\n## streamgmm {name}\n" in page
        options = [
            p.opts[0] for p in command.params if p.opts[0].startswith("--") and not p.hidden and p.name != "help"
        ]
        section = page.partition(f"\n## streamgmm {name}\n")[2].partition("\n## ")[0]
        assert [option for option in options if option not in section] == []


def test_the_gallery_has_an_order() -> None:
    text = (DOCS / "gallery.py").read_text(encoding="utf8")
    order = re.findall(r'^    "(\w+)",$', text, re.M)
    assert sorted(order) == sorted(path.stem for path in (ROOT / "examples").glob("*.py"))
    assert len(order) >= 10
