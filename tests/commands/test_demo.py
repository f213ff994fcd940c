from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgmm import StreamingGaussianMixture, __version__, events


def streamgmm(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "streamgmm.cli", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("demo")
    done = streamgmm("demo", "--samples", "25000", "--components", "25", "--json", cwd=folder)
    assert done.returncode == 0, done.stderr
    return folder / "runs" / "demo", json.loads(done.stdout)


def test_annealing_wins(run: tuple[Path, dict]) -> None:
    natural, annealed, plain = run[1]["runs"]
    assert natural["log_likelihood"] > annealed["log_likelihood"]
    assert annealed["log_likelihood"] > plain["log_likelihood"] + 20
    assert min(natural["live"], annealed["live"]) >= 24
    assert plain["live"] < 15


def test_the_run_folder(run: tuple[Path, dict]) -> None:
    folder, _ = run
    assert {p.name for p in folder.iterdir()} == {"model.safetensors", "events.jsonl", "centroids.png", "curve.png"}
    for name in ("centroids.png", "curve.png"):
        with Image.open(folder / name) as picture:
            assert min(picture.size) > 400
            assert np.asarray(picture.convert("L")).std() > 10
    records = list(events.read(folder / "events.jsonl"))
    assert [r["kind"] for r in records] == ["start"] + ["check"] * (25_000 // 62) + ["end"]
    assert all(r["v"] == 1 for r in records)
    assert records[0]["sigma"] == 1.25
    assert records[-1]["samples"] == 25_000
    assert records[-1]["sigma"] < 0.5
    assert [r["samples"] for r in records] == sorted(r["samples"] for r in records)
    model = StreamingGaussianMixture.load(folder / "model.safetensors")
    assert model.n_samples_seen_ == 25_000


def test_people_read_standard_error(tmp_path: Path) -> None:
    done = streamgmm("demo", "--samples", "1500", "--components", "4", "--out", "here", cwd=tmp_path)
    assert done.returncode == 0
    assert done.stdout == ""
    assert "not annealed" in done.stderr
    assert (tmp_path / "here" / "centroids.png").is_file()


def test_mistakes_are_told_in_a_line(tmp_path: Path) -> None:
    wrong = streamgmm("demo", "--samples", "0", cwd=tmp_path)
    assert wrong.returncode == 2
    (tmp_path / "file").write_text("in the way")
    blocked = streamgmm("demo", "--samples", "100", "--out", "file", cwd=tmp_path)
    assert blocked.returncode == 1
    assert "Traceback" not in blocked.stderr
    assert "file" in blocked.stderr
    assert "Traceback" in streamgmm("--debug", "demo", "--samples", "100", "--out", "file", cwd=tmp_path).stderr
    assert streamgmm("--version", cwd=tmp_path).stdout.strip() == __version__
