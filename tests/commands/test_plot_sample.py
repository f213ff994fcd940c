"""`streamgmm plot` and `streamgmm sample`, on a run of images and on one of plain numbers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands.command_line import invoke, streamgmm

PICTURES = {"centroids", "deviations", "filters", "samples", "usage", "curve", "scores", "density"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("runs")
    rng = np.random.default_rng(0)
    np.save(place / "x.npy", 1000 + 50 * rng.normal(rng.integers(2, size=(6000, 1)), 0.2, (6000, 3)))
    streamgmm("train", "glyphs:A-C", "--samples", "8000", "--components", "9", "--out", "images", folder=place)
    streamgmm("train", "x.npy", "--scale", "minmax", "--components", "4", "--out", "numbers", folder=place)
    return place


@pytest.mark.parametrize("run", ["images", "numbers"])
def test_all_pictures(folder: Path, run: str) -> None:
    before = {p.name for p in (folder / run).iterdir()}
    written = json.loads(streamgmm("plot", run, "--out", f"pictures-{run}", "--json", folder=folder).stdout)
    assert {Path(name).stem for name in written} == (PICTURES if run == "images" else {*PICTURES, "strangest"})
    for name in written:
        content = (folder / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 2000 < len(content) < 400_000
    assert {p.name for p in (folder / run).iterdir()} == before


def test_pictures_of_named_columns(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = np.c_[rng.normal(1000, 50, 2000), rng.normal(0.02, 0.001, 2000), np.arange(2000)]
    values[777, 1] = 0.5
    np.savetxt(tmp_path / "x.csv", values, delimiter=",", header="$pressure$,\x1b[31mflow,n", comments="")
    train = ("train", "x.csv", "--id", "n", "--out", "run", "--components", "2")
    streamgmm(*train, folder=tmp_path)
    written = json.loads(streamgmm("plot", "run", "--json", folder=tmp_path).stdout)
    assert {Path(name).stem for name in written} == {*PICTURES, "strangest"}


def test_samples(folder: Path) -> None:
    streamgmm("sample", "images", "-n", "20", "--out", "s.png", folder=folder)
    assert (folder / "s.png").read_bytes().startswith(b"\x89PNG")
    streamgmm("sample", "numbers", "-n", "2000", "--out", "s.npz", folder=folder)
    found = np.load(folder / "s.npz")
    assert found["x"].shape == (2000, 3)
    assert found["components"].max() < 4
    assert 950 < found["x"].mean() < 1100  # in the units of the source


@pytest.mark.parametrize("form", ["csv", "ndjson"])
def test_samples_as_text(folder: Path, form: str) -> None:
    done = streamgmm("sample", "numbers", "-n", "50", "--seed", "3", "--out", f"s.{form}", folder=folder)
    assert f"50 samples in s.{form}" in done.stderr
    text = (folder / f"s.{form}").read_text().splitlines()
    rows = list(csv.DictReader(text)) if form == "csv" else [json.loads(line) for line in text]
    assert len(rows) == 50
    assert list(rows[0]) == ["x0", "x1", "x2", "component"]
    streamgmm("sample", "numbers", "-n", "50", "--seed", "3", "--out", "s.npz", folder=folder)
    found = np.load(folder / "s.npz")
    np.testing.assert_allclose([[float(row[f"x{i}"]) for i in range(3)] for row in rows], found["x"])
    assert [int(row["component"]) for row in rows] == found["components"].tolist()


def test_samples_on_standard_output(folder: Path) -> None:
    streamgmm("sample", "numbers", "-n", "50", "--out", "s.csv", folder=folder)
    done = streamgmm("sample", "numbers", "-n", "50", "--out", "-", folder=folder)
    assert done.stdout == (folder / "s.csv").read_text()
    assert done.stderr == ""
    assert not (folder / "-").exists()


def test_samples_have_the_names_of_features(folder: Path) -> None:
    (folder / "x.csv").write_text("hum,temp\n" + "0.1,0.2\n0.3,0.1\n" * 50)
    streamgmm("train", "x.csv", "--components", "2", "--out", "named", folder=folder)
    done = streamgmm("sample", "named", "-n", "3", "--out", "-", folder=folder)
    assert done.stdout.splitlines()[0] == "hum,temp,component"


def test_mistakes(folder: Path) -> None:
    def words(*arguments: str) -> str:
        return streamgmm(*arguments, folder=folder, fails=True).words

    assert "'20x20' does not fit 784 features" in words("plot", "images", "--shape", "20x20")
    assert "unsupported extension; expected .png, .csv, .ndjson, .npz" in words("sample", "images", "--out", "s.txt")
    assert "does not exist" in words("plot", "nothing")


def test_a_feature_called_component_keeps_its_column(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal([100.0, 5.0], 1.0, (400, 2))
    np.savetxt(tmp_path / "x.csv", values, delimiter=",", header="component,b", comments="")
    train = ("train", tmp_path / "x.csv", "--out", tmp_path / "run", "--components", "2", "--scale", "auto")
    assert invoke(*train).code == 0
    drawn = invoke("sample", tmp_path / "run", "-n", "3", "--out", "-")
    heading, first, *_ = drawn.stdout.splitlines()
    assert heading == "component,b,_component"
    assert 90 < float(first.split(",")[0]) < 110
    assert invoke("sample", tmp_path / "run", "--seed", "-1", "--out", "-").code == 2
