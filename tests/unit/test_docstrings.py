"""Every public name has a docstring; where users are at home, it describes every parameter."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterator
from typing import Any

import pytest

import streamgmm
from streamgmm import core, engines

FOR_USERS = ["streamgmm", "streamgmm.sources", "streamgmm.sinks", "streamgmm.sinks.alerts", "streamgmm.storage",
             "streamgmm.plots", "streamgmm.datasets", "streamgmm.layers"]  # fmt: skip
INSIDE = [
    "streamgmm.errors",
    "streamgmm.monitoring",
    "streamgmm.native",
    *(m.name for package in (core, engines) for m in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")),
]


def public_names(module_name: str) -> Iterator[tuple[str, Any]]:
    """Classes and functions that a module offers: those of ``__all__``, or its own without an underscore."""
    module = importlib.import_module(module_name)
    names = getattr(module, "__all__", None) or [n for n in vars(module) if not n.startswith("_")]
    for name in names:
        if name.startswith("Online"):
            pytest.importorskip("river")
        value = getattr(module, name)
        own = hasattr(module, "__all__") or getattr(value, "__module__", None) == module_name
        if own and (inspect.isclass(value) or inspect.isfunction(value)):
            yield f"{module_name}.{name}", value


def methods(owner: str, kind: type) -> Iterator[tuple[str, Any]]:
    """Public methods and properties that our own classes define."""
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        home = next((c for c in kind.__mro__ if name in vars(c)), kind)
        if name.startswith("_") or not home.__module__.startswith("streamgmm"):
            continue
        if isinstance(value, classmethod | staticmethod):
            value = value.__func__
        if inspect.isfunction(value) or isinstance(value, property):
            yield f"{owner}.{name}", (kind, name, value)


def undocumented(module_name: str) -> list[str]:
    missing = []
    for name, value in public_names(module_name):
        if not (value.__doc__ or "").strip() or re.match(
            rf"{value.__name__}\(", value.__doc__
        ):  # as dataclass makes it
            missing.append(name)
        if inspect.isclass(value):
            for inner, (kind, member, _) in methods(name, value):
                if not (inspect.getdoc(getattr(kind, member)) or "").strip():  # it may be inherited
                    missing.append(inner)
    return missing


def described(docstring: str) -> set[str]:
    """Names in the numpydoc sections of parameters and attributes."""
    found = set()
    for _, section in re.findall(
        r"^(Parameters|Attributes)\n-+\n(.*?)(?=^\S[^\n]*\n-+\n|\Z)", inspect.cleandoc(docstring), re.M | re.S
    ):
        for entry in re.findall(r"^\*{0,2}(\w[\w, *]*?)(?: :|$)", section, re.M):
            found |= {name.strip(" *") for name in entry.split(",")}
    return found


def parameters(function: Any) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def inherited(kind: type, member: str | None = None) -> set[str]:
    """What a class, or one of its methods, describes here or where it overrides something."""
    places = [c if member is None else getattr(c, member, None) for c in kind.__mro__]
    return {name for place in places for name in described(getattr(place, "__doc__", None) or "")}


def undescribed(module_name: str) -> list[str]:
    missing = []
    for name, value in public_names(module_name):
        known = inherited(value) if inspect.isclass(value) else described(value.__doc__ or "")
        missing += [f"{name}({p})" for p in parameters(value) if p not in known]
        if inspect.isclass(value):
            for inner, (kind, member, function) in methods(name, value):
                if inspect.isfunction(function):
                    known = inherited(kind, member)
                    missing += [f"{inner}({p})" for p in parameters(function) if p not in known]
    return missing


@pytest.mark.parametrize("module", [*FOR_USERS, *INSIDE])
def test_every_public_name_has_a_docstring(module: str) -> None:
    assert undocumented(module) == []


@pytest.mark.parametrize("module", FOR_USERS)
def test_every_parameter_is_described(module: str) -> None:
    assert undescribed(module) == []


def test_the_walk_finds_what_there_is() -> None:
    assert {name.split(".")[-1] for name, _ in public_names("streamgmm")} == set(streamgmm.__all__) - {"__version__"}
    found = {name for name, _ in methods("Mixture", streamgmm.Mixture)}
    assert {"Mixture.sample", "Mixture.from_parameters", "Mixture.weights"} <= found
    assert described("Text.\n\nParameters\n----------\na, b : int\n    Numbers.\n**more\n    Others.\n") == {
        "a",
        "b",
        "more",
    }
