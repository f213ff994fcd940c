"""From a file to scores, as a newcomer would."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.streams import open_source


def streamgmm(*arguments: str, folder: Path, fails: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamgmm.cli", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == fails, done.stderr
    assert "Traceback" not in done.stderr
    return done


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Readings of two machines, with times; today one of them is hot."""
    place = tmp_path_factory.mktemp("readings")
    rng = np.random.default_rng(0)

    def write(name: str, count: int, hot: int = 0) -> None:
        x = rng.normal(rng.integers(2, size=(count, 1)) * 0.5 + 0.2, 0.1, (count, 4))
        x[:hot] += 3
        rows = [["time", "a", "b", "c", "d"], *([f"t{i}", *map(float, row)] for i, row in enumerate(x.tolist()))]
        with (place / name).open("w", newline="") as file:
            csv.writer(file).writerows(rows)

    write("readings.csv", 6000)
    write("today.csv", 500, hot=5)
    streamgmm("train", "readings.csv", "--id", "time", "--out", "run", "--components", "4", folder=place)
    return place


def test_the_run_folder(folder: Path) -> None:
    assert {p.name for p in (folder / "run").iterdir()} == {"model.safetensors", "events.jsonl"}
    events = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    kinds = [e["kind"] for e in events]
    assert kinds[0] == "start"
    assert kinds[-2:] == ["end", "checkpoint"]
    assert events[-1]["samples"] == 6000
    assert StreamingGaussianMixture.load(folder / "run" / "model.safetensors").n_samples_seen_ == 6000


@pytest.mark.parametrize("form", ["csv", "ndjson", "parquet"])
def test_scores_in_every_form(folder: Path, form: str) -> None:
    out = folder / f"scores.{form}"
    streamgmm("score", "run", "today.csv", "--id", "time", "--out", out.name, folder=folder)
    if form == "csv":
        with out.open() as file:
            rows = list(csv.DictReader(file))
    elif form == "ndjson":
        rows = [json.loads(line) for line in out.read_text().splitlines()]
    else:
        import pyarrow.parquet as pq

        rows = pq.read_table(out).to_pylist()
    assert list(rows[0]) == ["row", "id", "log_likelihood", "component", "responsibility"]
    assert [r["id"] for r in rows] == [f"t{i}" for i in range(500)]
    model = StreamingGaussianMixture.load(folder / "run" / "model.safetensors")
    x = np.concatenate([c.rows for c in open_source(str(folder / "today.csv"), id_column="time").chunks()])
    np.testing.assert_allclose([float(r["log_likelihood"]) for r in rows], model.score_samples(x))
    lowest = np.argsort([float(r["log_likelihood"]) for r in rows])[:5]
    assert set(lowest.tolist()) == set(range(5))  # the hot ones


def test_scores_on_standard_output(folder: Path) -> None:
    lines = streamgmm("score", "run", "today.csv", "--id", "time", folder=folder).stdout.splitlines()
    assert lines[0] == "row,id,log_likelihood,component,responsibility"
    assert len(lines) == 501
    first = streamgmm("score", "run", "today.csv", "--id", "time", "--json", folder=folder).stdout.splitlines()[0]
    assert json.loads(first)["id"] == "t0"


def test_mistakes_are_told_in_a_line(folder: Path) -> None:
    def words(*arguments: str) -> str:
        return " ".join(streamgmm(*arguments, folder=folder, fails=True).stderr.split())

    assert "row 0 of readings.csv has 't0' in column 0" in words("train", "readings.csv", "--out", "other")
    assert "has no column 'z'" in words("train", "readings.csv", "--columns", "a,z", "--out", "other")
    assert "have 2 features; the model has 4" in words("score", "run", "readings.csv", "--columns", "a,b")
    assert "nothing.csv does not exist" in words("train", "nothing.csv", "--out", "other")
    assert "rule" in words("train", "readings.csv", "--out", "other", "--rule", "magic")
    assert "cannot be written as 'xlsx'" in words("score", "run", "today.csv", "--id", "time", "--out", "x.xlsx")


def test_an_empty_source_has_nothing_to_learn_from(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n")
    done = streamgmm("train", "x.csv", "--out", "run", folder=tmp_path, fails=True)
    assert "x.csv has no rows to learn from" in done.stderr


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "0.1,0.2\n" * 300 + "oops,1\n" + "0.3,0.1\n" * 300)
    done = streamgmm("train", "x.csv", "--out", "run", "--bad-rows", "skip", "--json", folder=tmp_path)
    outcome = json.loads(done.stdout)
    assert outcome["samples"] == 600
    assert outcome["bad_rows"] == 1


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")
@pytest.mark.parametrize("kind", ["npy", "csv", "ndjson", "parquet", "glyphs"])
def test_memory_does_not_grow_with_the_stream(tmp_path: Path, kind: str) -> None:
    from streamgmm import running

    count, width = 200_000, 8
    x = np.random.default_rng(0).random((1000, width)).round(3)
    path = tmp_path / f"x.{kind}"
    if kind == "npy":
        np.save(path, np.tile(x, (count // 1000, 1)))
    elif kind == "csv":
        path.write_text("".join(",".join(map(str, row)) + "\n" for row in x.tolist()) * (count // 1000))
    elif kind == "ndjson":
        path.write_text("".join(json.dumps(row) + "\n" for row in x.tolist()) * (count // 1000))
    elif kind == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(
            pa.table({str(i): np.tile(x[:, i], count // 1000) for i in range(width)}), path, row_group_size=10_000
        )
    name = "glyphs:A-C" if kind == "glyphs" else str(path)
    limit = 30_000 if kind == "glyphs" else count
    model = StreamingGaussianMixture(4, random_state=0)
    out = tmp_path / "run"
    out.mkdir()
    journey = running.Journey(out, open_source(name), model, checkpoint_every=50_000)
    journey.stop = lambda: journey.place.samples >= limit
    before = None
    for word in journey.go():
        if before is None and word.samples >= limit // 2:
            before = resident()
    assert before is not None
    assert resident() - before < 10e6
