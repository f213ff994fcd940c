"""Random trainings on odd rows; `python -m tests.quality.odd_trainings 0 20000` tries more, and shows what fails."""

from __future__ import annotations

import pytest

from tests.quality.odd_trainings import problem_of

QUICKLY, SOAKED = 60, 20_000
FOUND = (
    *(5, 43, 130, 313, 393, 565, 943, 1095, 1340, 1382, 1436, 1712, 1908, 2117, 2207, 2351, 2662, 2799, 3147, 3341),
    *(3612, 3679, 3983, 4276, 4818, 4971, 5227, 5545, 5690, 5908, 6108, 6913, 7085, 11309, 12680, 14563, 17925, 19075),
)  # that failed once


def problems(first: int, stop: int) -> list[str]:
    return [f"{number}: {problem}" for number in range(first, stop) if (problem := problem_of(number)) is not None]


def test_some_trainings() -> None:
    assert problems(0, QUICKLY) == []


@pytest.mark.parametrize("number", FOUND)
def test_past_findings_stay_away(number: int) -> None:
    assert problem_of(number) is None


@pytest.mark.soak
def test_many_trainings() -> None:
    found = problems(0, SOAKED)
    print(f"{SOAKED} odd trainings, {len(found)} problems")
    assert found == []
