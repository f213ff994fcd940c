"""Mutated files and messages end in a sentence or an answer, quickly and in little memory."""

from __future__ import annotations

import pytest

from tests.fuzz.campaign import run_cases, run_seeds, seeds_of
from tests.fuzz.every_format import FORMATS

CASES = {"model": 800, "stack": 60, "round": 60, "commands": 40, "curve": 10, "pictures": 5}  # of at least 2000 in all
OTHERS = 120
SLOW = ("commands", "pictures")  # tried with the services, which have more time
SOAKED = {"model": 100_000, "commands": 5000, "curve": 1000, "pictures": 1000}
OTHERS_SOAKED = 20_000


@pytest.mark.parametrize("name", [pytest.param(n, marks=pytest.mark.services if n in SLOW else ()) for n in FORMATS])
def test_cases(name: str) -> None:
    assert run_cases(FORMATS[name], range(CASES.get(name, OTHERS))) == []


@pytest.mark.parametrize("name", [name for name, form in FORMATS.items() if seeds_of(form)])
def test_past_findings_stay_away(name: str) -> None:
    assert run_seeds(FORMATS[name]) == []


@pytest.mark.soak
@pytest.mark.parametrize("name", FORMATS)
def test_many_cases(name: str) -> None:
    assert run_cases(FORMATS[name], range(SOAKED.get(name, OTHERS_SOAKED))) == []
