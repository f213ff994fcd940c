"""`streamgmm plot` and `streamgmm sample`, on a run of images and on one of plain numbers."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from tests.commands.test_train_score import streamgmm

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
    assert {Path(name).stem for name in written} == PICTURES
    for name in written:
        content = (folder / name).read_bytes()
        assert content.startswith(b"\x89PNG")
        assert 2000 < len(content) < 400_000
    assert {p.name for p in (folder / run).iterdir()} == before


def test_samples(folder: Path) -> None:
    streamgmm("sample", "images", "-n", "20", "--out", "s.png", folder=folder)
    assert (folder / "s.png").read_bytes().startswith(b"\x89PNG")
    streamgmm("sample", "numbers", "-n", "2000", "--out", "s.npz", folder=folder)
    found = np.load(folder / "s.npz")
    assert found["x"].shape == (2000, 3)
    assert found["components"].max() < 4
    assert 950 < found["x"].mean() < 1100  # in the units of the source


def test_mistakes(folder: Path) -> None:
    def words(*arguments: str) -> str:
        return " ".join(streamgmm(*arguments, folder=folder, fails=True).stderr.split())

    assert "'20x20' does not fit 784 features" in words("plot", "images", "--shape", "20x20")
    assert "neither a .png nor a .npz" in words("sample", "images", "--out", "s.txt")
    assert "does not exist" in words("plot", "nothing")
