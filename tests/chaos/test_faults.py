"""Failing disks: a message, the last good checkpoint intact, and a resumed run ends with the same bits."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest

from streamgmm.storage.alert_log import ALERTS
from streamgmm.storage.run_folder import MODEL, latest_checkpoint
from tests.chaos.faults import FAULTS, Disk, failing
from tests.chaos.test_kills import assert_same, events
from tests.commands.command_line import invoke, streamgmm

TRAIN = ["--components", "4", "--checkpoint-every", "1000", "--passes", "1", "--shuffle", "no", "--keep", "2"]
WATCH = ["--components", "4", "--checkpoint-every", "1000", "--no-follow", "--max-p", "0.02", "--only-anomalies"]
COMMANDS = {"train": TRAIN, "watch": WATCH}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("source") / "x.csv"
    x = np.random.default_rng(0).normal(size=(3000, 2)) + np.repeat([[0, 0], [4, 1]], 1500, axis=0)
    path.write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in x))
    return path


@pytest.fixture(scope="module")
def whole(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that nothing has disturbed."""
    places = {command: tmp_path_factory.mktemp("whole") / "run" for command in COMMANDS}
    for command, out in places.items():
        streamgmm(command, source, "--out", out, *COMMANDS[command])
    return places


def moments(count: int, most: int) -> Iterator[int]:
    """At most so many numbers below a count, evenly spaced, with the first and the last."""
    yield from sorted({round(i) for i in np.linspace(0, count - 1, min(count, most))})


@patch("streamgmm.runs.event_log.MOST_BYTES", 2000)  # so that event files are thinned, too
def fail_and_resume(command: str, fault: str, source: Path, whole: Path, folder: Path, most: int) -> tuple[int, int]:
    """Let operations fail, one in each run; return how many, and how many of them stopped the run with a message."""
    kinds, number = FAULTS[fault]
    with failing(Disk(folder, kinds, number)) as disk:
        streamgmm(command, source, "--out", folder / "counted", *COMMANDS[command])
    tried = stopped = 0
    for at in moments(disk.count, most):
        out = folder / "run"
        with failing(Disk(folder, kinds, number, at, lasting=fault == "read-only folder")) as disk:
            done = invoke(command, source, "--out", out, *COMMANDS[command])
        if done.code:
            assert done.code == 1
            assert len(done.stderr.strip().splitlines()[-1]) > 20, done.stderr
        assert "Traceback" not in done.stderr
        if out.exists() and (out / MODEL).exists():
            assert latest_checkpoint(out) is not None
        streamgmm(command, source, "--out", out, *COMMANDS[command], "--resume")
        assert_same(out, whole)
        assert events(out)[-1]["samples"] == 3000
        if command == "watch":
            assert alerts(out) == alerts(whole)
        leftovers = {p.name for p in out.rglob(".*") if p.is_file()}
        assert leftovers == set(), (at, leftovers)
        shutil.rmtree(out)
        # how often deliveries are noted depends on timing, so the last operations may not happen again
        tried, stopped = tried + (disk.count > at), stopped + done.code
    return tried, stopped


def alerts(folder: Path) -> list[int]:
    return [json.loads(line)["row"] for line in (folder / ALERTS).read_text().splitlines()[1:]]


CASES = [(c, f) for c in COMMANDS for f in FAULTS if (c, f) != ("train", "file cannot be shortened")]  # it never is


@pytest.mark.parametrize(("command", "fault"), CASES)
def test_a_few_moments(command: str, fault: str, source: Path, whole: dict[str, Path], tmp_path: Path) -> None:
    assert fail_and_resume(command, fault, source, whole[command], tmp_path, most=3)[0]


@pytest.mark.soak
@pytest.mark.parametrize(("command", "fault"), CASES)
def test_every_moment(command: str, fault: str, source: Path, whole: dict[str, Path], tmp_path: Path) -> None:
    assert fail_and_resume(command, fault, source, whole[command], tmp_path, most=1000)[0]


def test_scores_on_a_full_disk_leave_the_old_file(source: Path, whole: dict[str, Path], tmp_path: Path) -> None:
    out = tmp_path / "scores.csv"
    command = ["score", whole["train"] / MODEL, source, "--out", out]
    streamgmm(*command)
    before = out.read_bytes()
    kinds, number = FAULTS["disk full"]
    with failing(Disk(tmp_path, kinds, number)) as disk:
        streamgmm(*command)
    for at in moments(disk.count, 6):
        with failing(Disk(tmp_path, kinds, number, at)):
            done = streamgmm(*command, fails=True)
        assert "no space left" in done.words
        assert out.read_bytes() == before
        assert [p.name for p in tmp_path.iterdir()] == ["scores.csv"]
