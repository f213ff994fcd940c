"""What the page reads: bounded memory, files left as they are, nothing of the training imported."""

from __future__ import annotations

import json
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from streamgmm.dashboard.reading import MARKS, POINTS, Follower, History


def check(samples: int, kind: str = "check", **fields: object) -> dict[str, object]:
    values = {"samples": samples, "loss": 1.0, "max_component": 2.0, "sigma": 0.5, "learning_rate": 0.1, "live": 9}
    return {"v": 1, "kind": kind, **values, "seconds": samples / 1000, **fields}


def test_ten_million_samples(tmp_path: Path) -> None:
    """62 500 checks and 5 000 checkpoints: curves and marks are thinned, the file is not."""
    lines = [json.dumps(check(160 * i)) + "\n" for i in range(1, 62_501)]
    for i in range(5000):
        lines.insert(12 * i, json.dumps(check(2000 * i, "checkpoint")) + "\n")
    path = tmp_path / "events.jsonl"
    path.write_text("".join(lines))
    before = path.read_bytes()
    follower = Follower(tmp_path)
    tracemalloc.start()
    assert follower.look()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    points = follower.history.points
    assert POINTS / 2 <= len(points["samples"]) <= POINTS
    assert points["samples"][-1] > 0.99 * 10_000_000
    assert all(len(values) == len(points["samples"]) for values in points.values())
    assert np.allclose(np.diff(points["samples"]), 160 * follower.history.step)
    assert len(follower.history.marks) == MARKS
    assert kept < 3e6
    assert peak < 6e6
    assert path.read_bytes() == before
    assert not follower.look()


def test_marks_that_matter_outlive_checkpoints() -> None:
    history = History()
    history.add(check(100, sigma=0.3))
    history.add(check(200, sigma=0.01))
    history.add(check(300, "drift"))
    for i in range(1000):
        history.add(check(400 + i, "checkpoint"))
    assert [m["kind"] for m in history.marks[:2]] == ["annealed", "drift"]
    assert history.marks[0]["samples"] == 200
    assert len(history.marks) == MARKS


def test_rates() -> None:
    history = History()
    history.add({"kind": "start", "samples": 0, "seconds": 5.0})
    for i in range(1, 100):
        history.add(check(100 * i, seconds=5.0 + i // 10 * 0.5))  # ten checks at a time
    known = [r for r in history.points["rate"] if r == r]
    np.testing.assert_allclose(known, 2000, rtol=0.01)


@pytest.mark.parametrize(
    "line", ["{}", "[1]", '{"kind": "check"}', '{"kind": "drift", "samples": "x"}', "nonsense", "null"]
)
def test_odd_lines_are_passed_over(tmp_path: Path, line: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(check(100)) + "\n" + line + "\n" + json.dumps(check(200)) + "\n")
    follower = Follower(tmp_path)
    follower.look()
    assert follower.history.points["samples"] == [100, 200]


def test_a_run_that_begins_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(check(100 * i)) + "\n" for i in range(1, 9)))
    follower = Follower(tmp_path)
    follower.look()
    path.write_text(json.dumps(check(100)) + "\n")
    assert follower.look()
    assert follower.history.points["samples"] == [100]


def test_it_never_imports_the_training() -> None:
    code = "import sys, streamgmm.dashboard.reading; print([m for m in sys.modules if m.startswith('streamgmm.')])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert eval(found) == ["streamgmm.dashboard", "streamgmm.dashboard.reading"]


def test_a_long_run_is_painted_less_often(tmp_path: Path) -> None:
    from streamgmm.dashboard.page import _Page

    def happens(kind: str, samples: int) -> int:
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write(json.dumps(check(samples, kind)) + "\n")
        page.update()
        return len(page._curve.data["samples"])

    follower = Follower(tmp_path)
    page = _Page(follower)
    assert happens("check", 10_000) == 1
    assert happens("check", 10_100) == 1  # one per cent more can wait
    assert happens("check", 10_300) == 3
    assert happens("check", 10_301) == 3
    assert happens("drift", 10_302) > 3  # news cannot
