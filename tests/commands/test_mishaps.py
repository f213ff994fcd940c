"""Runs that meet other data, broken rows and broken sources, and what is left afterwards."""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.cli import app
from streamgmm.monitoring import StrangestRows
from streamgmm.monitoring.strangest import MAX_AGE
from streamgmm.storage import load_model
from streamgmm.storage.run_folder import EVENTS, MODEL, PREVIOUS, locked
from tests.commands.command_line import COMMAND, streamgmm

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")


def rows(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal([0.2, 0.5, 0.8], [0.3, 0.4, 0.2], (count, 3))


def table(path: Path, x: np.ndarray) -> Path:
    path.parent.mkdir(exist_ok=True)
    np.savetxt(path, x, delimiter=",", header="a,b,c", comments="", fmt="%.6f")
    return path


def run(*args: object, ok: bool = True) -> str:
    done = streamgmm(*args, fails=not ok)
    return done.stdout + done.words


def train(*args: object) -> Any:
    """Learn in one pass: these tests count rows."""
    return json.loads(streamgmm("train", "--passes", "1", *args, "--components", "4", "--json").stdout)


def kinds(folder: Path) -> list[str]:
    return [json.loads(line)["kind"] for line in (folder / EVENTS).read_text().splitlines()]


def test_another_file_of_the_same_name_is_learned_from_its_beginning(tmp_path: Path) -> None:
    first, second = table(tmp_path / "one" / "x.csv", rows(3000)), table(tmp_path / "two" / "x.csv", rows(5000, 1))
    train(first, "--out", tmp_path / "run")
    with first.open("a") as file:
        file.write("0.1,0.2,0.3\n" * 10)
    assert train(first, "--out", tmp_path / "run", "--resume")["samples"] == 3010  # it has grown
    assert train(second, "--out", tmp_path / "run", "--resume")["samples"] == 8010
    assert train(second, "--out", tmp_path / "run", "--resume")["samples"] == 8010


def test_rows_that_cannot_be_learned_are_left_out_and_told(tmp_path: Path) -> None:
    x = rows(5000)
    x[2500, 1], x[2600] = np.inf, np.nan
    path = table(tmp_path / "x.csv", x)
    words = run("train", path, "--out", tmp_path / "no", "--shuffle", "no", ok=False)
    assert "row 2500 of x.csv contains inf in column 'b'" in words
    assert load_model(tmp_path / "no" / MODEL).trainer.n_samples == 2000  # what came before is kept
    outcome = train(path, "--out", tmp_path / "run", "--bad-rows", "skip")
    assert (outcome["samples"], outcome["bad_rows"]) == (4998, 2)
    assert sorted(b["row"] for b in outcome["first_bad"]) == [2500, 2600]
    events = [json.loads(line) for line in (tmp_path / "run" / EVENTS).read_text().splitlines()]
    bad = [e for e in events if e["kind"] == "bad"]
    assert sorted(row["row"] for e in bad for row in e["first"]) == [2500, 2600]
    assert sum(e["count"] for e in bad) == 2
    words = run("score", tmp_path / "run", path, "--bad-rows", "skip", "--out", tmp_path / "s.csv")
    assert "skipped: row 2500 contains inf" in words
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 4999
    assert "skipped: row 2600 contains NaN" in run("train", path, "--out", tmp_path / "two", "--bad-rows", "skip")


def test_a_pipe_that_breaks_has_not_come_for_nothing(tmp_path: Path) -> None:
    text = io.StringIO()
    np.savetxt(text, rows(3500), delimiter=",")
    command = [*COMMAND, "train", "-", "--components", "4", "--out", str(tmp_path / "run")]
    done = subprocess.run(command, input=text.getvalue() + "1,oops,3\n", capture_output=True, text=True)
    assert done.returncode == 1
    assert "oops" in done.stderr
    assert load_model(tmp_path / "run" / MODEL).trainer.n_samples >= 2000
    assert kinds(tmp_path / "run")[-2:] == ["stop", "checkpoint"]
    again = subprocess.run([*command, "--resume"], input=text.getvalue(), capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    assert "rows of standard input are skipped: already processed" in again.stderr.replace("\n", " ")
    assert load_model(tmp_path / "run" / MODEL).trainer.n_samples == 3500


@pytest.mark.parametrize("scale", ["none", "standard"])
def test_strange_rows_keep_their_numbers(tmp_path: Path, scale: str) -> None:
    x = rows(6000)
    x[:700, 0] = np.nan
    np.save(tmp_path / "x.npy", x)
    train(tmp_path / "x.npy", "--out", tmp_path / "run", "--missing", "skip", "--scale", scale)
    kept = load_model(tmp_path / "run" / MODEL)
    assert kept.monitor is not None
    them = x[kept.monitor.strangest.numbers]
    if kept.scaling is not None:
        them = kept.scaling.apply(them, np.dtype(np.float64))
    assert len(them) > 0
    np.testing.assert_allclose(kept.monitor.strangest.rows, them, rtol=1e-5)


def test_strange_rows_grow_old_whatever_their_numbers() -> None:
    recent = StrangestRows()
    recent.add(np.ones((20, 2)), np.full(20, -9.0), np.arange(900_000, 900_020), 1000)
    recent.add(np.ones((5, 2)), np.arange(5.0), np.arange(5), 2000)
    assert recent.numbers.min() == 900_000
    recent.add(np.ones((5, 2)), np.arange(5.0), np.arange(5), 2000 + MAX_AGE)
    assert sorted(recent.numbers.tolist()) == [0, 1, 2, 3, 4]  # and none of them twice


def test_torn_checkpoints_are_cleared_away(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", rows(3000))
    train(path, "--out", tmp_path / "run")
    torn = tmp_path / "run" / f"..{MODEL}.next.abc123"
    torn.write_bytes(b"half of it")
    train(path, "--out", tmp_path / "run", "--resume")
    assert not torn.exists()


def test_a_second_name_that_a_crash_left_is_cleared_away(tmp_path: Path) -> None:
    path = table(tmp_path / "x.csv", rows(3000))
    train(path, "--out", tmp_path / "run")
    left = tmp_path / "run" / f".{PREVIOUS}.next"
    left.hardlink_to(tmp_path / "run" / MODEL)
    assert train(path, "--out", tmp_path / "run", "--resume")["samples"] == 3000
    assert not left.exists()


def test_a_saved_detector_brings_its_own_share(tmp_path: Path) -> None:
    x = rows(20_000)
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0), contamination=0.1)
    detector.partial_fit(x).save(tmp_path / "d.safetensors")
    np.save(tmp_path / "x.npy", x)
    run("score", tmp_path / "d.safetensors", tmp_path / "x.npy", "--out", tmp_path / "s.csv")
    flagged = (tmp_path / "s.csv").read_text().count("True")
    assert abs(flagged - (detector.predict(x) == -1).sum()) < 50


@pytest.mark.filterwarnings("ignore:the model was trained on data scaled")
@pytest.mark.parametrize("kind", [StreamingAnomalyDetector, StreamingGaussianMixture])
def test_scaling_survives_a_visit_to_python(tmp_path: Path, kind: Any) -> None:
    path = table(tmp_path / "x.csv", rows(20_000))
    train(path, "--out", tmp_path / "run", "--scale", "standard")
    model = kind.load(tmp_path / "run" / MODEL)
    model.save(tmp_path / "m.safetensors")
    scores = [
        json.loads(streamgmm("score", m, path, "--json", "--samples", "1").stdout)["log_likelihood"]
        for m in (tmp_path / "run", tmp_path / "m.safetensors")
    ]
    assert scores[0] == scores[1]
    fresh = StreamingGaussianMixture.load(tmp_path / "m.safetensors").fit(rows(1000))
    fresh.save(tmp_path / "n.safetensors")
    assert load_model(tmp_path / "n.safetensors").scaling is None


def test_long_runs_write_few_checks(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", rows(200_000))
    train(tmp_path / "x.npy", "--out", tmp_path / "run")
    events = [json.loads(line) for line in (tmp_path / "run" / EVENTS).read_text().splitlines()]
    samples = [e["samples"] for e in events if e["kind"] == "check"]
    assert 300 < len(samples) < 1500  # of 4000
    assert samples == sorted(set(samples))
    gaps = np.diff(samples)
    assert (gaps <= 0.005 * np.array(samples[1:]) + 50).all()


def test_rows_that_say_nothing_are_not_usual(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(0.5, 0.02, (30_000, 20))
    x[rng.random(len(x)) < 0.03] = np.nan
    odd = rng.normal(0.5, 0.02, (1000, 20))
    odd[:, 0] += 0.25
    settings = {"random_state": 0, "allow_nan": True, "precision_max": 5000}
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(2, **settings), contamination=0.01)
    assert (detector.partial_fit(x).predict(odd) == -1).mean() > 0.99
    assert (detector.fit(x).predict(odd) == -1).mean() > 0.99
    np.save(tmp_path / "x.npy", x)
    np.save(tmp_path / "odd.npy", odd)
    arguments = ["--missing", "learn", "--precision-max", "5000", "--components", "2", "--json"]
    outcome = json.loads(streamgmm("train", tmp_path / "x.npy", "--out", tmp_path / "run", *arguments).stdout)
    assert outcome["samples"] + outcome["missing_rows"] == 30_000
    run("score", tmp_path / "run", tmp_path / "odd.npy", "--out", tmp_path / "s.csv")
    assert (tmp_path / "s.csv").read_text().count("True") > 990


class TestIds:
    def score(self, folder: Path, ids: object, out: str) -> Path:
        x = rows(3000)
        table_ = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "key": ids})
        pq.write_table(table_, folder / "x.parquet")
        train(folder / "x.parquet", "--id", "key", "--out", folder / "run")
        run("score", folder / "run", folder / "x.parquet", "--id", "key", "--out", folder / out)
        return folder / out

    def test_times_as_json(self, tmp_path: Path) -> None:
        start = datetime(2026, 1, 1)
        out = self.score(tmp_path, [start + timedelta(seconds=i) for i in range(3000)], "s.ndjson")
        assert json.loads(out.read_text().splitlines()[1])["id"] == "2026-01-01T00:00:01"

    @pytest.mark.parametrize(
        "ids",
        [
            pa.array(np.arange(3000, dtype=np.uint64) + 2**63, pa.uint64()),
            pa.array(np.arange(3000, dtype=np.int64), pa.timestamp("ns")),
            pa.array([None] * 2000 + [f"n{i}" for i in range(1000)]),
        ],
        ids=["large", "nanoseconds", "late"],
    )
    def test_kinds_are_kept(self, tmp_path: Path, ids: Any) -> None:
        found = pq.read_table(self.score(tmp_path, ids, "s.parquet")).column("id")
        assert found.type == ids.type
        assert found.combine_chunks().equals(ids)

    def test_ids_of_two_kinds(self, tmp_path: Path) -> None:
        lines = [json.dumps({"a": 0.1 * (i % 7), "key": i if i < 1500 else f"n{i}"}) for i in range(3000)]
        (tmp_path / "x.ndjson").write_text("\n".join(lines))
        train(tmp_path / "x.ndjson", "--id", "key", "--out", tmp_path / "run")
        arguments = ["score", tmp_path / "run", tmp_path / "x.ndjson", "--id", "key", "--out"]
        run(*arguments, tmp_path / "s.csv")
        assert "Choose a .csv or .ndjson file for --out" in run(*arguments, tmp_path / "s.parquet", ok=False)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--columns", "a,a"], "expected distinct names"),
        (["--columns", ","], "expected distinct names"),
        (["--out", "no/s.csv"], "no does not exist"),
    ],
)
def test_clear_words_about_scores(tmp_path: Path, arguments: list[str], words: str) -> None:
    path = table(tmp_path / "x.csv", rows(3000))
    train(path, "--out", tmp_path / "run")
    assert words in run("score", tmp_path / "run", path, *arguments, ok=False)


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--rule", "foo", "--rule is 'foo'; expected 'natural', 'sem' or 'sgd'."),
        ("--jobs", "0", "--jobs is 0; expected a number of threads, or -1 for all cores."),
        ("--half-life", "0.5", "--half-life is 0.5; expected a number of at least 1."),
    ],
)
def test_clear_words_about_training(tmp_path: Path, option: str, value: str, words: str) -> None:
    path = table(tmp_path / "x.csv", rows(30))
    assert words in run("train", path, "--out", tmp_path / "run", option, value, ok=False)
    assert not (tmp_path / "run").exists()


def test_only_one_run_learns_into_a_folder(tmp_path: Path) -> None:
    source = table(tmp_path / "a.csv", rows(500))
    run("train", source, "--out", tmp_path / "run", "--components", 4)
    with locked(tmp_path / "run"):
        words = run("train", source, "--out", tmp_path / "run", "--resume", "--passes", 2, ok=False)
    assert "another run is writing to" in words
    run("train", source, "--out", tmp_path / "run", "--resume", "--passes", 2)


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "events.jsonl").write_text("a log\n")
    run("train", tmp_path / "nothing.csv", "--out", other, "--resume", ok=False)
    run("train", tmp_path / "nothing.csv", "--out", tmp_path / "new", ok=False)
    assert not (tmp_path / "new").exists()
    source = table(tmp_path / "a.csv", rows(500))
    assert "was not written by a run" in run("train", source, "--out", other, "--resume", ok=False)
    assert (other / "events.jsonl").read_text() == "a log\n"
    run("train", source, "--out", tmp_path / "run", "--components", 4)
    assert "holds the model of a training" in run("demo", "--out", tmp_path / "run", "--samples", 100, ok=False)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_scores_are_whole_or_as_they_were(tmp_path: Path, form: str) -> None:
    run("train", table(tmp_path / "a.csv", rows(500)), "--out", tmp_path / "run", "--components", 4)
    out = tmp_path / "scores" / f"s.{form}"
    out.parent.mkdir()
    run("score", tmp_path / "run", tmp_path / "a.csv", "--out", out)
    before = out.read_bytes()
    broken = table(tmp_path / "b.csv", rows(20_000)).read_text() + "1,2,three\n"
    (tmp_path / "b.csv").write_text(broken)
    assert "three" in run("score", tmp_path / "run", tmp_path / "b.csv", "--out", out, ok=False)
    assert out.read_bytes() == before
    assert list(out.parent.iterdir()) == [out]


def test_enough_is_enough(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", rows(30_000))
    command = ("train", tmp_path / "a.npy", "--out", tmp_path / "run", "--components", 4, "--json", "--samples", 2000)
    learned = json.loads(streamgmm(*command).stdout)["samples"]
    again = json.loads(streamgmm(*command, "--resume").stdout)["samples"]
    assert again == learned < 30_000


def test_rows_without_a_number_are_nothing_to_learn_from(tmp_path: Path) -> None:
    source = tmp_path / "a.csv"
    source.write_text("a,b\n" + ",\n" * 50)
    assert "none of its 50 rows holds a number" in run(
        "train", source, "--out", tmp_path / "run", "--missing", "learn", ok=False
    )


def test_ids_that_are_no_numbers_are_null_in_json(tmp_path: Path) -> None:
    columns = {"a": rows(300)[:, 0], "b": rows(300)[:, 1], "k": np.array([1.5, np.nan, np.inf] * 100)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    run("train", tmp_path / "a.parquet", "--id", "k", "--out", tmp_path / "run", "--components", 4)
    lines = streamgmm("score", tmp_path / "run", tmp_path / "a.parquet", "--id", "k", "--json").stdout.splitlines()
    found = [json.loads(line, parse_constant=pytest.fail)["id"] for line in lines]
    assert found == [1.5, None, None] * 100


def test_a_run_is_never_without_its_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = table(tmp_path / "a.csv", rows(500))
    run("train", source, "--out", tmp_path / "run", "--components", 4, "--passes", 1)
    replace, model = os.replace, tmp_path / "run" / MODEL

    def watched(*names: Any) -> None:
        assert model.exists()
        replace(*names)
        assert model.exists()

    monkeypatch.setattr("streamgmm.storage.run_folder.os.replace", watched)
    run("train", source, "--out", tmp_path / "run", "--resume", "--passes", 3)
    assert StreamingGaussianMixture.load(tmp_path / "run" / PREVIOUS).n_samples_seen_ == 500


def test_errors_of_the_system_name_the_place_and_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Temporary files have names that nobody knows."""
    said: list[str] = []
    monkeypatch.setattr("streamgmm.cli.console.complain", said.append)
    for problem in (
        PermissionError(errno.EACCES, "Permission denied", "out/.x.csv.15605"),
        PermissionError(errno.EACCES, "Permission denied", "x.csv"),
        OSError(errno.ENOSPC, "No space left on device", "run/.model.safetensors.0a1b"),
        FileNotFoundError(errno.ENOENT, "No such file or directory", "gone/y.csv"),
    ):
        monkeypatch.setattr("streamgmm.cli.app.app", Mock(side_effect=problem))
        assert app.run() == 1
    assert said == [
        "no permission for out. Choose another place, or change its permissions.",
        "no permission for x.csv. Choose another place, or change its permissions.",
        "there is no space left for run. Free some, or choose another place.",
        "gone/y.csv: no such file or directory.",
    ]


def test_a_pipe_that_is_shorter_than_what_was_learned_says_so(tmp_path: Path) -> None:
    lines = "".join(f"{i % 7},{i % 5}\n" for i in range(3000))
    command = [*COMMAND, "train", "-", "--components", "2", "--out", str(tmp_path / "run")]
    subprocess.run(command, input=lines, text=True, check=True)
    again = subprocess.run([*command, "--resume"], input=lines[:2000], capture_output=True, text=True, check=True)
    words = " ".join(again.stderr.split())
    assert "standard input has only 500 of the 3,000 rows that were read before: nothing is new." in words
