"""From a file to scores, as a newcomer would."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.sources import open_source
from streamgmm.storage import load_model
from tests.commands.command_line import streamgmm


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
    assert {p.name for p in (folder / "run").iterdir()} == {"model.safetensors", "events.jsonl", "settings.toml"}
    events = [json.loads(line) for line in (folder / "run" / "events.jsonl").read_text().splitlines()]
    kinds = [e["kind"] for e in events]
    assert kinds[0] == "start"
    assert kinds[-2:] == ["end", "checkpoint"]
    assert events[-1]["samples"] == 12_000  # two passes
    assert StreamingGaussianMixture.load(folder / "run" / "model.safetensors").n_samples_seen_ == 12_000


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
    assert list(rows[0]) == ["row", "id", "log_likelihood", "component", "responsibility", "p_value", "anomaly"]
    assert [r["id"] for r in rows] == [f"t{i}" for i in range(500)]
    model = StreamingGaussianMixture.load(folder / "run" / "model.safetensors")
    x = np.concatenate([c.rows for c in open_source(str(folder / "today.csv"), id_column="time").chunks()])
    np.testing.assert_allclose([float(r["log_likelihood"]) for r in rows], model.mixture_.log_prob(x))
    shares = model.mixture_.responsibilities(x)
    assert [int(r["component"]) for r in rows] == shares.argmax(1).tolist()
    np.testing.assert_allclose([float(r["responsibility"]) for r in rows], shares.max(1), rtol=1e-6)
    lowest = np.argsort([float(r["log_likelihood"]) for r in rows])[:5]
    assert set(lowest.tolist()) == set(range(5))  # the hot ones
    flagged = {i for i, r in enumerate(rows) if str(r["anomaly"]) == "True"}
    assert set(range(5)) <= flagged
    assert len(flagged) < 25
    assert all(float(r["p_value"]) < 0.001 for r in rows[:5])
    assert 0.4 < np.median([float(r["p_value"]) for r in rows[5:]]) < 0.6


def test_scores_on_standard_output(folder: Path) -> None:
    lines = streamgmm("score", "run", "today.csv", "--id", "time", folder=folder).stdout.splitlines()
    assert lines[0] == "row,id,log_likelihood,component,responsibility,p_value,anomaly"
    assert len(lines) == 501
    first = streamgmm("score", "run", "today.csv", "--id", "time", "--json", folder=folder).stdout.splitlines()[0]
    assert json.loads(first)["id"] == "t0"
    named = streamgmm("score", "run", "today.csv", "--id", "time", "--out", "-", folder=folder)
    assert named.stdout.splitlines() == lines
    assert "rows scored into" not in named.stderr
    assert not (folder / "-").exists()


def test_mistakes_are_told_in_a_line(folder: Path) -> None:
    def words(*arguments: str) -> str:
        return streamgmm(*arguments, folder=folder, fails=True).words

    chosen = words("train", "readings.csv", "--columns", "time,a", "--out", "other")
    assert "row 0 of readings.csv has 't0' in column time" in chosen
    assert "has no column 'z'" in words("train", "readings.csv", "--columns", "a,z", "--out", "other")
    assert "has no column 'c', a feature of the model" in words("score", "run", "readings.csv", "--columns", "a,b")
    assert "nothing.csv does not exist" in words("train", "nothing.csv", "--out", "other")
    assert "rule" in words("train", "readings.csv", "--out", "other", "--rule", "magic")
    assert "unknown format 'xlsx' of x.xlsx" in words("score", "run", "today.csv", "--id", "time", "--out", "x.xlsx")


def test_an_empty_source_has_nothing_to_learn_from(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n")
    done = streamgmm("train", "x.csv", "--out", "run", folder=tmp_path, fails=True)
    assert "x.csv has no rows to learn from" in done.stderr


def test_bad_rows_are_counted(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n" + "0.1,0.2\n" * 300 + "oops,1\n" + "0.3,0.1\n" * 300)
    done = streamgmm("train", "x.csv", "--out", "run", "--bad-rows", "skip", "--json", folder=tmp_path)
    outcome = json.loads(done.stdout)
    assert outcome["samples"] == 600 * outcome["passes"]
    assert outcome["passes"] > 1
    assert outcome["bad_rows"] == 1  # whatever the number of passes
    assert outcome["first_bad"][0]["row"] == 300


@pytest.mark.parametrize("scale", ["minmax", "standard"])
def test_raw_readings_are_scaled(tmp_path: Path, scale: str) -> None:
    """Degrees, pascals and a constant: what the model learns does not depend on units."""
    rng = np.random.default_rng(0)
    x = rng.normal(rng.integers(3, size=(5000, 1)), 0.2, (5000, 3)) * [10, 1e5, 0] + [300, 1e5, 7]
    x[17, :2] = 1e9  # within the warm-up: must not widen the scale
    np.save(tmp_path / "x.npy", x)
    order = ("--passes", "1", "--shuffle", "no")  # the scale is learned from the first rows
    done = streamgmm("train", "x.npy", "--out", "run", "--scale", scale, "--components", "9", *order, folder=tmp_path)
    assert f"--scale {scale} is deprecated" in done.words
    assert f"refer to data scaled by '{scale}'" in done.words
    trainer = load_model(tmp_path / "run" / "model.safetensors").trainer
    assert abs(trainer.mixture.means).max() < 3
    assert trainer.n_samples == 5000
    done = streamgmm("score", "run", "x.npy", "--json", folder=tmp_path)
    assert "likelihoods are in the units of the rows" in done.words
    scores = [json.loads(line) for line in done.stdout.splitlines()]
    inner = x[:1000][np.arange(1000) != 17]
    shift, width = (inner.min(0), np.ptp(inner, 0)) if scale == "minmax" else (inner.mean(0), inner.std(0))
    scaled = (x - shift) / np.where(width > 0, width, 1)
    expected = trainer.mixture.log_prob(scaled) - np.log(width[width > 0]).sum()  # the density of raw rows
    np.testing.assert_allclose([s["log_likelihood"] for s in scores], expected, rtol=1e-6)
    assert scores[17]["anomaly"]


def test_a_scale_survives_a_kill_and_short_sources(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).random((300, 2)) * 1000)
    arguments = ("--scale", "minmax", "--components", "2", "--passes", "1")
    streamgmm("train", "x.npy", "--out", "run", *arguments, folder=tmp_path)
    streamgmm("train", "x.npy", "--out", "run", "--passes", "2", "--resume", folder=tmp_path)
    trainer = load_model(tmp_path / "run" / "model.safetensors").trainer
    assert trainer.n_samples == 600
    assert abs(trainer.mixture.means).max() < 2


@pytest.mark.parametrize(("missing", "samples"), [("learn", 6), ("skip", 4)])
@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet"])
def test_missing_numbers(tmp_path: Path, missing: str, samples: int, kind: str) -> None:
    rows = [[0.1, 0.2], [0.3, None], [None, None], [0.2, 0.2], [None, 0.4], [0.1, 0.1], [0.3, 0.3]]
    path = tmp_path / f"x.{kind}"
    if kind == "csv":
        path.write_text("a,b\n" + "".join(",".join("" if v is None else str(v) for v in row) + "\n" for row in rows))
    elif kind == "ndjson":
        path.write_text("".join(json.dumps({"a": a, "b": b} if a else {"b": b}) + "\n" for a, b in [[1, 1], *rows][1:]))
        text = path.read_text().splitlines()
        path.write_text("\n".join(text) + "\n")
    else:
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({"a": [a for a, _ in rows], "b": [b for _, b in rows]}), path)
    done = streamgmm("train", path.name, "--out", "no", folder=tmp_path, fails=True)
    assert "--missing" in done.stderr
    arguments = ["--out", "run", "--missing", missing, "--components", "2", "--passes", "1", "--json"]
    outcome = json.loads(streamgmm("train", path.name, *arguments, folder=tmp_path).stdout)
    assert outcome["samples"] == samples
    assert outcome["missing_rows"] == 7 - samples
    model = StreamingGaussianMixture.load(tmp_path / "run" / "model.safetensors")
    assert model.n_samples_seen_ == samples
    assert model.allow_nan is (missing == "learn")
    if missing == "learn":
        done = streamgmm("score", "run", path.name, "--json", folder=tmp_path)
        assert [json.loads(line)["row"] for line in done.stdout.splitlines()] == [0, 1, 3, 4, 5, 6]
        assert "skipped: row 2 contains no number" in done.stderr or "skipped: row 2 has none" in done.stderr


def test_a_drift_is_an_event(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", rng.normal(0.2, 0.1, (20_000, 5)))
    np.save(tmp_path / "b.npy", rng.normal(0.9, 0.1, (20_000, 5)))
    source = "drift:sudden:15000:a.npy|b.npy"
    streamgmm("train", source, "--out", "run", "--components", "9", "--reheat", folder=tmp_path)
    events = [json.loads(line) for line in (tmp_path / "run" / "events.jsonl").read_text().splitlines()]
    drifts = [e["samples"] for e in events if e["kind"] == "drift"]
    assert len(drifts) == 1
    assert 15_000 < drifts[0] < 15_500
    assert events[-1]["samples"] == 35_000
