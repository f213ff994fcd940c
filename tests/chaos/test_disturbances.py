"""Disturbed runs end with the same bits, or with a message and a good checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chaos.disturbances import DISTURBANCES


@pytest.mark.parametrize("what", DISTURBANCES)
def test_a_disturbed_run(what: str, tmp_path: Path) -> None:
    assert DISTURBANCES[what](tmp_path)
