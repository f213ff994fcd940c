from __future__ import annotations

import json
from pathlib import Path

import pytest

from streamgmm.core.control import Check
from streamgmm.storage import events

CHECK = Check(1000, float("nan"), 4.0, 2.0, 0.1, 64, True)


def test_a_record_has_the_agreed_fields() -> None:
    row = events.record("check", CHECK, 1.23456, note="x")
    agreed = {"v", "kind", "samples", "loss", "max_component", "sigma", "learning_rate", "live", "seconds"}
    assert agreed <= set(row)
    assert row["loss"] is None
    assert (row["seconds"], row["note"]) == (1.235, "x")
    with pytest.raises(ValueError, match="'party' is unknown"):
        events.record("party", CHECK, 0.0)


def test_lines_are_written_and_read(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    rows = [events.record("start", CHECK, 0.0), events.record("end", CHECK, 2.0)]
    events.append(path, rows[0])
    events.append(path, rows[1])
    with path.open("a") as file:
        file.write('{"v": 1, "kind": "che')  # still being written
    assert list(events.read(path)) == rows
    events.append(path, rows[1])  # after a crash: the torn line is left behind
    assert list(events.read(path)) == [*rows, rows[1]]
    assert len([json.loads(line) for line in path.read_text().splitlines()[:2]]) == 2
