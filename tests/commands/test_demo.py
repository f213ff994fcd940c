from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgmm import StreamingGaussianMixture
from streamgmm.storage import events
from streamgmm.storage.run_folder import latest_checkpoint
from tests.commands.command_line import invoke, streamgmm


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    folder = tmp_path_factory.mktemp("demo")
    done = streamgmm("demo", "--samples", "25000", "--components", "25", "--json", folder=folder)
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
    kinds = [r["kind"] for r in records]
    assert kinds == ["start"] + ["check"] * (len(kinds) - 3) + ["end", "checkpoint"]
    annealing = [r for r in records if r["kind"] == "check" and r["sigma"] > 0.01]
    assert [r["samples"] for r in annealing] == [62 * i for i in range(1, len(annealing) + 1)]  # later ones are fewer
    assert all(r["v"] == 1 for r in records)
    assert records[0]["sigma"] == 1.25
    assert records[-1]["samples"] == 25_000
    assert records[-1]["sigma"] < 0.5
    assert [r["samples"] for r in records] == sorted(r["samples"] for r in records)
    model = StreamingGaussianMixture.load(folder / "model.safetensors")
    assert model.n_samples_seen_ == 25_000


def test_it_is_a_run_as_any_other(run: tuple[Path, dict]) -> None:
    known = latest_checkpoint(run[0])
    assert known is not None
    saved, record = known
    assert record.source == "demo glyphs"
    assert (record.progress.samples, record.progress.position) == (25_000, {"row": 25_000})
    assert record.progress.finished
    assert saved.monitor is not None
    assert saved.monitor.reference.known
    assert len(saved.monitor.strangest.numbers) > 0


def test_people_read_standard_error(tmp_path: Path) -> None:
    done = streamgmm("demo", "--samples", "1500", "--components", "4", "--out", "here", folder=tmp_path)
    assert done.stdout == ""
    assert "not annealed" in done.stderr
    assert (tmp_path / "here" / "centroids.png").is_file()


def test_mistakes_are_told_in_a_line(tmp_path: Path) -> None:
    assert invoke("demo", "--samples", "0", folder=tmp_path).code == 2
    (tmp_path / "file").write_text("in the way")
    blocked = streamgmm("demo", "--samples", "100", "--out", "file", folder=tmp_path, fails=True)
    assert blocked.code == 1
    assert "file" in blocked.stderr
    assert len(blocked.stderr.splitlines()) == 1
    with pytest.raises(FileExistsError):
        invoke("demo", "--debug", "--samples", "100", "--out", "file", folder=tmp_path)


def test_a_saved_estimator_is_not_overwritten(tmp_path: Path) -> None:
    model = StreamingGaussianMixture(4, random_state=0).partial_fit(np.random.default_rng(0).random((50, 3)))
    model.save(tmp_path / "model.safetensors")
    before = (tmp_path / "model.safetensors").read_bytes()
    done = invoke("demo", "--out", tmp_path, "--samples", "100")
    assert done.code == 1
    assert "Choose another folder for the demo" in done.words
    assert (tmp_path / "model.safetensors").read_bytes() == before
