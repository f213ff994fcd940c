"""Runs that follow brokers lose nothing without a word, and learn nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.broker_disturbances import BROKERS, OUTAGES

pytestmark = pytest.mark.services


@pytest.mark.parametrize("what", OUTAGES)
def test_an_outage(what: str, tmp_path: Path) -> None:
    assert OUTAGES[what](tmp_path, 4.0)


@pytest.mark.soak
@pytest.mark.parametrize("what", OUTAGES)
def test_an_outage_of_a_minute(what: str, tmp_path: Path) -> None:
    assert OUTAGES[what](tmp_path, 60.0)


@pytest.mark.parametrize("what", BROKERS)
def test_a_broker_that_misbehaves(what: str, tmp_path: Path) -> None:
    assert BROKERS[what](tmp_path)
