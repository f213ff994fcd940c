"""Kills at random moments: no sample lost, none learned twice."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from streamgmm.errors import ModelFileError
from streamgmm.sources import open_source, read_ahead
from streamgmm.storage.run_folder import EVENTS, MODEL, PREVIOUS, latest_checkpoint
from tests.commands.command_line import COMMAND, streamgmm
from tests.sources.brokers import Brokers

SETTINGS = ["--components", "16", "--checkpoint-every", "3000", "--passes", "2"]


def write(folder: Path, kind: str, rows: int) -> Path:
    rng = np.random.default_rng(0)
    x = (0.3 * rng.random((rows, 40)) + 0.5 * (rng.integers(4, size=(rows, 1)) == np.arange(40) % 4)).astype(np.float32)
    path = folder / f"x.{kind}"
    if kind == "npy":
        np.save(path, x)
    elif kind == "csv":
        path.write_text("".join(",".join(f"{v:.5f}" for v in row) + "\n" for row in x))
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(x.ravel()), 40)
        pq.write_table(pa.table({"v": vectors}), path, row_group_size=5000)
    return path


BROKERS: list[Brokers] = []


def in_kafka(folder: Path, rows: int) -> str:
    """The same rows as raw vectors in a topic of its own; the broker lives as long as the tests."""
    BROKERS[:] = BROKERS or [Brokers()]
    return BROKERS[0].fill(f"x{rows}", (row.tobytes() for row in np.load(write(folder, "npy", rows))))


def train(source: Path | str, out: Path, *more: str) -> None:
    streamgmm("train", source, "--out", out, *SETTINGS, *more)


def assert_same(here: Path, there: Path) -> None:
    found, expected = load_file(here / MODEL), load_file(there / MODEL)
    assert set(found) == set(expected)
    for name, values in found.items():
        np.testing.assert_array_equal(values, expected[name], err_msg=name)


def events(folder: Path) -> list[dict]:
    lines = (folder / EVENTS).read_text().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


def written(folder: Path) -> int:
    """When the events of a run were last written."""
    path = folder / EVENTS
    return path.stat().st_mtime_ns if path.exists() else 0


def kill_and_resume(tmp_path: Path, kind: str, rows: int, kills: int, *more: str) -> None:
    source = in_kafka(tmp_path, rows) if kind == "kafka" else write(tmp_path, kind, rows)
    kill_and_resume_source(tmp_path, source, kills, *more)


def kill_and_resume_source(tmp_path: Path, source: Path | str, kills: int, *more: str) -> None:
    train(source, tmp_path / "whole", *more)
    lasts = json.loads((tmp_path / "whole" / EVENTS).read_text().splitlines()[-1])["seconds"]
    moments, out, killed = random.Random(0), tmp_path / "killed", 0
    for number in range(kills):
        before = written(out)
        going = subprocess.Popen(
            [*COMMAND, "train", str(source), "--out", str(out), *SETTINGS, *more, "--resume"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        while going.poll() is None and written(out) == before:
            time.sleep(0.005)
        try:
            # the first one at once, so that a fast machine is killed, too
            going.wait(timeout=moments.uniform(0.0, 0.8 / kills) * lasts if number else 0)
        except subprocess.TimeoutExpired:
            os.killpg(going.pid, signal.SIGKILL)
            going.wait()
            killed += 1
    assert killed
    train(source, out, *more, "--resume")
    assert_same(out, tmp_path / "whole")
    assert events(out) == events(tmp_path / "whole")


ROWS = {"npy": 200_000, "csv": 30_000, "parquet": 100_000, "kafka": 40_000}
KINDS = [
    pytest.param("npy", marks=pytest.mark.soak),
    "csv",
    "parquet",
    pytest.param("kafka", marks=pytest.mark.services),
]


@pytest.mark.parametrize("kind", KINDS)
def test_three_kills(tmp_path: Path, kind: str) -> None:
    kill_and_resume(tmp_path, kind, ROWS[kind], 3)


@pytest.mark.services
def test_three_kills_in_the_order_of_the_file(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "csv", 30_000, 3, "--shuffle", "no")


@pytest.mark.services
def test_three_kills_of_a_file_larger_than_the_buffer(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "npy", 450_000, 3, "--passes", "1", "--seed", "5")


@pytest.mark.services
def test_three_kills_of_a_small_file_that_is_refined(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "csv", 500, 3, "--passes", "auto", "--checkpoint-every", "500")
    assert events(tmp_path / "killed")[-2]["refined"]


def test_a_kill_during_refinement(tmp_path: Path) -> None:
    source, out = write(tmp_path, "csv", 400), tmp_path / "killed"
    train(source, tmp_path / "whole", "--passes", "auto")
    code = (
        "import os, signal, sys\n"
        "from streamgmm.core.trainer import Trainer\n"
        "from streamgmm.cli.app import run\n"
        "Trainer.refine = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "sys.exit(run())"
    )
    arguments = ["train", str(source), "--out", str(out), *SETTINGS, "--passes", "auto"]
    done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True)
    assert done.returncode == -signal.SIGKILL
    train(source, out, "--passes", "auto", "--resume")
    assert events(out)[-2]["refined"]
    assert_same(out, tmp_path / "whole")
    assert events(out) == events(tmp_path / "whole")


@pytest.mark.services
def test_three_kills_of_a_scaled_stream_with_gaps(tmp_path: Path) -> None:
    x = np.load(write(tmp_path, "npy", 100_000))
    x[np.random.default_rng(1).random(x.shape) < 0.05] = np.nan
    np.save(tmp_path / "x.npy", x)
    kill_and_resume_source(tmp_path, tmp_path / "x.npy", 3, "--scale", "standard", "--missing", "learn", "--reheat")


@pytest.mark.services
def test_three_kills_with_threads(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "npy", 100_000, 3, "--jobs", "2", "--rule", "sgd")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "rows"),
    [
        ("npy", 1_500_000),
        ("csv", 120_000),
        ("parquet", 1_500_000),
        pytest.param("kafka", 85_000, marks=pytest.mark.services),
    ],
)
def test_twenty_kills(tmp_path: Path, kind: str, rows: int) -> None:
    kill_and_resume(tmp_path, kind, rows, 20, *(["--passes", "20"] if kind == "kafka" else []))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_polite_stop_leaves_a_checkpoint(tmp_path: Path, number: int) -> None:
    out = tmp_path / "run"
    command = [*COMMAND, "train", "glyphs:A-J", "--out", str(out), "--json"]
    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    while not (out / EVENTS).exists():
        assert going.poll() is None
        time.sleep(0.05)
    going.send_signal(number)
    printed, _ = going.communicate(timeout=60)
    outcome = json.loads(printed)
    assert going.returncode == 0
    assert not outcome["finished"]
    known = latest_checkpoint(out)
    assert known is not None
    saved, progress = known[0], known[1].progress
    assert progress.position is not None
    assert progress.samples == outcome["samples"] == saved.trainer.n_samples == progress.position["row"]


@pytest.mark.services
def test_following_a_file_that_grows(tmp_path: Path) -> None:
    """Idle and resumed are events, and what was learned while idle is safe."""
    path, out = tmp_path / "x.csv", tmp_path / "run"
    line = "0.1,0.2,0.3\n"
    path.write_text(line * 500)
    command = [*COMMAND, "train", str(path), "--out", str(out), "--follow", "--components", "4", "--json"]
    going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)

    def wait_for(kind: str, count: int) -> None:
        while not (out / EVENTS).exists() or [e["kind"] for e in events(out)].count(kind) < count:
            assert going.poll() is None
            time.sleep(0.05)

    wait_for("idle", 1)
    with path.open("a") as file:
        file.write(line * 300)
    wait_for("idle", 2)
    going.send_signal(signal.SIGTERM)
    outcome = json.loads(going.communicate(timeout=60)[0])
    assert outcome["samples"] == 800
    assert not outcome["finished"]
    kinds = [e["kind"] for e in events(out) if e["kind"] in ("start", "idle", "resumed", "end")]
    assert kinds == ["start", "idle", "resumed", "idle"]


class TestDamage:
    """Checkpoints that are torn, cut short, or exchanged."""

    @pytest.fixture
    def run(self, tmp_path: Path) -> Path:
        source = write(tmp_path, "npy", 12_000)
        train(source, tmp_path / "run")
        assert (tmp_path / "run" / PREVIOUS).exists()
        return tmp_path / "run"

    def test_the_previous_one_is_used(self, run: Path, tmp_path: Path) -> None:
        whole = (run / MODEL).read_bytes()
        expected = load_file(run / MODEL)
        (run / MODEL).write_bytes(whole[: len(whole) // 2])
        with pytest.warns(UserWarning, match="the newest checkpoint cannot be used"):
            known = latest_checkpoint(run)
        assert known is not None
        assert known[1].progress.samples > 0
        assert not known[1].progress.finished
        train(tmp_path / "x.npy", run, "--resume")
        for name, values in load_file(run / MODEL).items():
            np.testing.assert_array_equal(values, expected[name], err_msg=name)

    def test_without_any_the_reason_is_given(self, run: Path) -> None:
        for name in (MODEL, PREVIOUS):
            (run / name).write_bytes(b"nothing of use")
        with pytest.raises(ModelFileError, match=r"no checkpoint of .* can be used.*damaged"):
            latest_checkpoint(run)

    def test_another_source_does_not_fit(self, run: Path, tmp_path: Path) -> None:
        np.save(tmp_path / "y.npy", np.zeros((30_000, 7), np.float32))
        done = streamgmm("train", tmp_path / "y.npy", "--out", run, "--passes", "3", "--resume", fails=True)
        assert done.code == 1
        assert "have 7 features; the model has 40" in done.words

    def test_killed_between_two_renames(self, run: Path) -> None:
        (run / MODEL).rename(run / f".{MODEL}.next")
        known = latest_checkpoint(run)
        assert known is not None
        assert known[1].progress.samples == 24_000
        assert known[1].progress.finished

    def test_an_empty_folder_starts_from_the_beginning(self, tmp_path: Path) -> None:
        (tmp_path / "empty").mkdir()
        assert latest_checkpoint(tmp_path / "empty") is None


def test_a_finished_run_stays_finished(tmp_path: Path) -> None:
    source = write(tmp_path, "npy", 5000)
    train(source, tmp_path / "run")
    before = (tmp_path / "run" / MODEL).read_bytes()
    train(source, tmp_path / "run", "--resume")
    assert (tmp_path / "run" / MODEL).read_bytes() == before


def test_a_full_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("mine")
    done = streamgmm("train", "glyphs:A", "--out", tmp_path, fails=True)
    assert done.code == 1
    assert "is not empty. Continue with --resume" in done.words


def test_read_ahead_gives_everything_and_passes_on_trouble(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("1,2\n" * 3000 + "1,x\n")
    got = read_ahead(open_source(str(path)).chunks())
    assert sum(len(next(got).rows) for _ in range(3)) == 3000
    with pytest.raises(ValueError, match=r"row 3000 of x\.csv"):
        next(got)
