"""Commands with silent pipes, columns in another order, other files, and folders left by a crash."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.runs.train import WARM_UP
from streamgmm.storage import load_model
from streamgmm.storage.model_file import read_run_facts
from streamgmm.storage.run_folder import EVENTS, MODEL
from tests.commands.command_line import COMMAND, streamgmm

SMALL = ["--components", "4", "--json"]


def rows(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal([0.2, 0.5, 0.8], [0.05, 0.1, 0.02], (count, 3))


def table(path: Path, x: np.ndarray, names: str = "a,b,c") -> Path:
    np.savetxt(path, x, delimiter=",", header=names, comments="", fmt="%.6f")
    return path


def train(*args: str | Path, ok: bool = True) -> dict[str, object]:
    """Learn in one pass: these tests count rows."""
    done = streamgmm("train", "--passes", "1", *args, *SMALL, fails=not ok)
    return json.loads(done.stdout) if ok else {"error": done.words}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_silent_pipe_can_be_left(tmp_path: Path, number: signal.Signals) -> None:
    command = [*COMMAND, "train", "-", "--out", str(tmp_path / "run"), *SMALL]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdin is not None
    process.stdin.write(table(tmp_path / "x.csv", rows(2500)).read_bytes())
    process.stdin.flush()
    events = tmp_path / "run" / EVENTS
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (events.exists() and '"samples": 2400' in events.read_text()):
        time.sleep(0.1)
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0, errors
    assert load_model(tmp_path / "run" / MODEL).trainer.n_samples == 2500


def test_a_run_that_has_enough_does_not_wait_for_the_pipe_to_end(tmp_path: Path) -> None:
    end, begin = os.pipe()
    os.write(begin, table(tmp_path / "x.csv", rows(1500)).read_bytes())
    command = [*COMMAND, "train", "-", "--samples", "1000", "--out", str(tmp_path / "run"), *SMALL]
    result = subprocess.run(command, stdin=end, capture_output=True, timeout=60)
    os.close(begin)
    os.close(end)
    assert result.returncode == 0, result.stderr


def test_columns_are_told_apart_by_name(tmp_path: Path) -> None:
    x = rows(6000)
    train(table(tmp_path / "x.csv", x), "--out", tmp_path / "run", "--scale", "standard")
    scores = {}
    for name, order in {"a,b,c": [0, 1, 2], "c,a,b": [2, 0, 1], "b,d,a,c": [1, 1, 0, 2]}.items():
        out = tmp_path / "scores.csv"
        given = table(tmp_path / "y.csv", rows(500, 1)[:, order], name)
        streamgmm("score", tmp_path / "run", given, "--out", out)
        scores[name] = out.read_text()
    assert scores["a,b,c"] == scores["c,a,b"] == scores["b,d,a,c"]
    strange = table(tmp_path / "z.csv", rows(10), "a,b,z")
    done = streamgmm("score", tmp_path / "run", strange, fails=True)
    assert done.code == 1
    assert "has no column 'c', a feature of the model" in done.words
    with pytest.warns(UserWarning, match="scaled by 'standard'"):
        loaded = StreamingGaussianMixture.load(tmp_path / "run" / MODEL)
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]


def test_another_file_is_learned_from_its_beginning(tmp_path: Path) -> None:
    first, second = table(tmp_path / "x.csv", rows(2000)), table(tmp_path / "y.csv", rows(700, 1))
    assert train(first, "--out", tmp_path / "run")["samples"] == 2000
    assert train(first, "--out", tmp_path / "run", "--resume")["samples"] == 2000
    assert train(second, "--out", tmp_path / "run", "--resume")["samples"] == 2700
    with second.open("a") as file:
        file.write("0.2,0.5,0.8\n")
    assert train(second, "--out", tmp_path / "run", "--resume")["samples"] == 2701


def test_a_kill_before_the_last_name_was_given(tmp_path: Path) -> None:
    given = table(tmp_path / "x.csv", rows(2000))
    train(given, "--out", tmp_path / "run")
    (tmp_path / "run" / MODEL).rename(tmp_path / "run" / f".{MODEL}.next")
    assert train(given, "--out", tmp_path / "run", "--resume")["samples"] == 2000
    assert (tmp_path / "run" / MODEL).exists()


def test_a_run_that_stopped_for_a_gap_goes_on_without_such_rows(tmp_path: Path) -> None:
    given = table(tmp_path / "x.csv", rows(3000))
    lines = given.read_text().splitlines()
    lines[2501] = "0.2,,0.8"
    given.write_text("\n".join(lines) + "\n")
    train(given, "--out", tmp_path / "run", "--checkpoint-every", "1000", ok=False)
    again = train(given, "--out", tmp_path / "run", "--resume", "--missing", "skip")
    assert (again["samples"], again["missing_rows"]) == (2999, 1)


def test_scores_do_not_overwrite_what_is_scored(tmp_path: Path) -> None:
    given = table(tmp_path / "x.csv", rows(2000))
    train(given, "--out", tmp_path / "run")
    done = streamgmm("score", tmp_path / "run", given, "--out", given, fails=True)
    assert done.code == 1
    assert "--out would overwrite the input" in done.words
    assert len(given.read_text().splitlines()) == 2001


def test_a_pipe_has_one_pass(tmp_path: Path) -> None:
    assert "read only once" in str(train("-", "--passes", "3", "--out", tmp_path / "run", ok=False)["error"])


def test_short_warm_ups_leave_their_events(tmp_path: Path) -> None:
    train(table(tmp_path / "x.csv", rows(900)), "--out", tmp_path / "run", "--scale", "minmax")
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run" / EVENTS).read_text().splitlines()]
    assert kinds.count("check") == 18


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_scores_of_no_rows_have_a_heading(tmp_path: Path, ending: str) -> None:
    train(table(tmp_path / "x.csv", rows(5000)), "--out", tmp_path / "run")
    (tmp_path / "none.csv").write_text("a,b,c\n")
    out = tmp_path / f"scores.{ending}"
    streamgmm("score", tmp_path / "run", tmp_path / "none.csv", "--out", out)
    if ending == "csv":
        assert out.read_text().strip() == "row,log_likelihood,component,responsibility,p_value,anomaly"
    else:
        import pyarrow.parquet as pq

        assert pq.read_table(out).schema.names[-1] == "anomaly"


def test_fewer_samples_than_a_scaling_needs_are_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.lines.LINES_PER_CHUNK", 100)
    path = table(tmp_path / "x.csv", rows(5000))
    report = train(path, "--out", tmp_path / "run", "--scale", "standard", "--samples", "300", "--shuffle", "no")
    assert report["samples"] == WARM_UP


def test_what_cannot_grow_is_said(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows(3000))
    args = ["train", tmp_path / "x.npy", "--out", tmp_path / "run", "--follow", "--samples", "2000", *SMALL]
    assert "x.npy cannot grow: --follow will wait until it is interrupted" in streamgmm(*args).words
    kinds = [json.loads(line)["kind"] for line in (tmp_path / "run" / EVENTS).read_text().splitlines()]
    assert kinds[-2:] == ["stop", "checkpoint"]
    assert "idle" not in kinds


def test_a_column_that_never_changes(tmp_path: Path) -> None:
    """The model that rows are judged by is part of a checkpoint, and of a feature without changes it knows more."""
    x = np.column_stack([rows(1500), np.full(1500, 7.0)])
    table(tmp_path / "log.csv", x[:1400], "a,b,c,mode")
    options = ["--components", "4", "--no-follow"]
    streamgmm("watch", "log.csv", "--out", "run", *options, folder=tmp_path)
    table(tmp_path / "log.csv", x, "a,b,c,mode")
    streamgmm("watch", "log.csv", "--out", "run", *options, "--resume", folder=tmp_path)
    streamgmm("watch", "log.csv", "--out", "whole", *options, folder=tmp_path)
    here, there = (load_model(tmp_path / name / MODEL) for name in ("run", "whole"))
    assert here.run is not None
    assert here.run["progress"]["samples"] == 1500
    np.testing.assert_array_equal(here.mixture.means, there.mixture.means)


def test_a_burst_of_rows_with_long_ids_is_resumed(tmp_path: Path) -> None:
    """Nanoseconds since 1970 are more than a float can count."""
    rng, first = np.random.default_rng(0), 1_700_000_000_000_000_000
    values = rng.normal(size=(3040, 2))
    values[2990:3000] += 80.0
    lines = [json.dumps({"time": first + i, "a": a, "b": b}) + "\n" for i, (a, b) in enumerate(values.tolist())]
    source, model = tmp_path / "x.ndjson", tmp_path / "run" / MODEL
    watch = ["watch", source, "--out", tmp_path / "run", "--id", "time", "--follow", "--components", "4"]
    source.write_text("".join(lines[:3000]))
    streamgmm(*watch, "--samples", "3000")
    burst = read_run_facts(model)["watch"]["burst"]
    assert first < burst["first_id"] < burst["last_id"] == first + 2999
    source.write_text("".join(lines))
    streamgmm(*watch, "--samples", "3040", "--resume")
    facts = read_run_facts(model)
    assert facts["progress"]["samples"] == 3040
    assert facts["watch"]["burst"]["first_id"] == burst["first_id"]


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_names_of_files_that_are_not_utf8(tmp_path: Path) -> None:
    source = table(tmp_path / os.fsdecode(b"x\xff.csv"), rows(800))
    train(source, "--out", tmp_path / "run")
    described = streamgmm("info", tmp_path / "run").stdout
    assert "x\ufffd.csv, in random order" in described
    assert streamgmm("score", tmp_path / "run", source).stdout.count("\n") == 801
