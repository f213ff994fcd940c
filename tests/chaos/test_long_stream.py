"""Memory, descriptors and files of a watch do not grow, whatever its source does."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.long_stream import EVENT_BYTES, figures, simulate

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def watch_for(folder: Path, hours: float, restart_minutes: int, settled: int) -> None:
    used, counted = simulate(folder, hours, restart_minutes)
    found = figures(used, settled)
    print(found, counted)
    assert counted["learned"] == counted["written"]
    assert counted["bad"] == counted["bad written"]
    assert counted["alerts"] > 0
    assert counted["failed deliveries"] > 0
    assert found["memory"] < 10e6
    assert found["descriptors"] == 0, found["opened since"]
    assert found["event bytes"] < 1.3 * EVENT_BYTES
    assert found["alert bytes"] < 1e6


@pytest.mark.services
def test_an_hour(tmp_path: Path) -> None:
    watch_for(tmp_path, 1.2, 20, 1)


@pytest.mark.soak
def test_twelve_hours(tmp_path: Path) -> None:
    watch_for(tmp_path, 12, 60, 2)
