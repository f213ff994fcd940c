"""What the page reads: bounded memory, files left unchanged, no error whatever the folder holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from streamgmm.core.grid import ring, torus
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.dashboard.follower import Follower, read_model
from streamgmm.dashboard.history import MARKS, POINTS, History
from streamgmm.engines import Serial
from streamgmm.storage import SavedModel, load_model, save_model
from tests.dashboard.trainings import train, training

FORMAT2 = Path(__file__).parents[1] / "data" / "format2"


def check(samples: int, kind: str = "check", **fields: object) -> dict[str, object]:
    values = {"samples": samples, "loss": 1.0, "max_component": 2.0, "sigma": 0.5, "learning_rate": 0.1, "live": 9}
    return {"v": 1, "kind": kind, **values, "seconds": samples / 1000, **fields}


def test_ten_million_samples(tmp_path: Path) -> None:
    """62 500 checks and 5 000 checkpoints: curves and marks are thinned, the file is not."""
    lines = [json.dumps(check(160 * i)) + "\n" for i in range(1, 62_501)]
    for i in range(5000):
        lines.insert(12 * i, json.dumps(check(2000 * i, "checkpoint")) + "\n")
    path = tmp_path / "events.jsonl"
    path.write_text("".join(lines))
    before = path.read_bytes()
    follower = Follower(tmp_path)
    tracemalloc.start()
    assert follower.poll()
    kept, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    points = follower.history.points
    assert POINTS / 2 <= len(points["samples"]) <= POINTS
    assert points["samples"][-1] > 0.99 * 10_000_000
    assert all(len(values) == len(points["samples"]) for values in points.values())
    assert np.allclose(np.diff(points["samples"]), 160 * follower.history.step)
    assert len(follower.history.marks) == MARKS
    assert kept < 3e6
    assert peak < 6e6
    assert path.read_bytes() == before
    assert not follower.poll()


def test_marks_that_matter_outlive_checkpoints() -> None:
    history = History()
    history.add(check(100, sigma=0.3))
    history.add(check(200, sigma=0.01))
    history.add(check(300, "drift"))
    for i in range(1000):
        history.add(check(400 + i, "checkpoint"))
    assert [m["kind"] for m in history.marks[:2]] == ["annealed", "drift"]
    assert history.marks[0]["samples"] == 200
    assert len(history.marks) == MARKS


def test_rates() -> None:
    history = History()
    history.add({"kind": "start", "samples": 0, "seconds": 5.0})
    for i in range(1, 100):
        history.add(check(100 * i, seconds=5.0 + i // 10 * 0.5))  # ten checks at a time
    known = [r for r in history.points["rate"] if r == r]
    np.testing.assert_allclose(known, 2000, rtol=0.01)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "[1]",
        '{"kind": "check"}',
        '{"kind": "drift", "samples": "x"}',
        '{"kind": "stop", "samples": null}',
        "nonsense",
        "null",
        "[" * 100_000,
        "\udcff",
    ],
    ids=range(9),
)
def test_odd_lines_are_skipped(tmp_path: Path, line: str) -> None:
    path = tmp_path / "events.jsonl"
    lines = [json.dumps(check(100)), line, json.dumps(check(200))]
    path.write_bytes(b"".join(text.encode(errors="surrogateescape") + b"\n" for text in lines))
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.history.points["samples"] == [100, 200]
    assert follower.state == "There is no complete model file yet; curves are shown as they arrive."


def test_a_run_that_starts_again(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("".join(json.dumps(check(100 * i)) + "\n" for i in range(1, 9)))
    follower = Follower(tmp_path)
    follower.poll()
    path.write_text(json.dumps(check(100)) + "\n")
    assert follower.poll()
    assert follower.history.points["samples"] == [100]


def test_it_is_light() -> None:
    code = "import sys, streamgmm.dashboard.follower; print(' '.join({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"sklearn", "scipy", "matplotlib", "bokeh", "typer", "rich", "pyarrow"} & set(loaded)


def test_a_model_file_is_shown(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(5, 2, (9000, 3)))
    train(tmp_path / "run", str(tmp_path / "x.npy"), 10**9, "standard")
    saved, shown = load_model(tmp_path / "run" / "model.safetensors"), Follower(tmp_path / "run")
    shown.poll()
    assert shown.state == "The run has ended."
    model, trainer, monitor = shown.model, saved.trainer, saved.monitor
    assert model is not None
    assert monitor is not None
    scaling = saved.scaling
    assert scaling is not None
    np.testing.assert_allclose(model.means, scaling.invert(trainer.mixture.means), rtol=1e-6)
    np.testing.assert_allclose(model.weights, trainer.mixture.weights)
    np.testing.assert_array_equal(model.usage, trainer.usage)
    np.testing.assert_allclose(model.strange_rows, np.load(tmp_path / "x.npy")[monitor.strangest.numbers], rtol=1e-5)
    np.testing.assert_allclose(model.strange_scores, monitor.strangest.scores + np.log(scaling.factor).sum())
    np.testing.assert_array_equal(model.strange_numbers, monitor.strangest.numbers)
    assert len(model.strange_rows) == 12
    assert (model.grid, model.scaling) == (torus(16), "standard")


def test_a_model_without_a_run_is_shown(tmp_path: Path) -> None:
    trainer = Trainer(Settings(6, grid="ring"), 4, engine=Serial(), seed=0)
    save_model(tmp_path / "model.safetensors", SavedModel(trainer))
    model = read_model(tmp_path / "model.safetensors")
    assert model is not None
    assert (model.grid, model.scaling, model.strange_rows.shape) == (ring(6), "none", (0, 4))


def test_damaged_model_files_are_ignored(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(path, SavedModel(Trainer(Settings(6), 4, engine=Serial(), seed=0)))
    whole = path.read_bytes()
    for content in (b"", b"x", whole[:100], whole[:-1], whole.replace(b"torus", b"other")):
        path.write_bytes(content)
        assert read_model(path) is None
    path.unlink()
    assert read_model(path) is None
    path.mkdir()
    assert read_model(path) is None


def test_a_torn_model_file_leaves_the_last_one(tmp_path: Path) -> None:
    run = training(tmp_path / "run", samples=4000)
    follower = Follower(tmp_path / "run")
    assert follower.state.startswith("The run has not written anything yet")
    for _ in run.go():
        follower.poll()
    follower.poll()
    model, path = follower.model, tmp_path / "run" / "model.safetensors"
    assert model is not None
    path.write_bytes(path.read_bytes()[:1000])
    follower.poll()
    assert follower.model is model
    assert follower.state == "The run was stopped and can be resumed."


def test_a_folder_that_is_gone(tmp_path: Path) -> None:
    train(tmp_path / "run", samples=2000)
    follower = Follower(tmp_path / "run")
    follower.poll()
    (tmp_path / "run").rename(tmp_path / "other")
    assert follower.poll()
    assert follower.state == "Folder run does not exist: the run has not started, or it was moved or deleted."
    assert follower.model is None
    assert not follower.poll()


def test_a_quiet_run(tmp_path: Path) -> None:
    save_model(tmp_path / "model.safetensors", SavedModel(Trainer(Settings(6), 4, engine=Serial(), seed=0)))
    path = tmp_path / "events.jsonl"
    path.write_text(json.dumps(check(100)) + "\n")
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.state == "The run is in progress."
    os.utime(path, (0, 0))
    assert follower.state.startswith("The run has written nothing for")
    for kind in ("idle", "checkpoint"):
        with path.open("a") as file:
            file.write(json.dumps(check(100, kind)) + "\n")
    follower.poll()
    assert follower.state == "The run is waiting for data."


@pytest.mark.parametrize("path", sorted(FORMAT2.glob("*.safetensors")), ids=lambda path: path.stem)
def test_files_of_earlier_versions_are_shown(path: Path) -> None:
    model, saved = read_model(path), load_model(path)
    assert model is not None
    means = saved.trainer.mixture.means
    expected = means if saved.scaling is None else saved.scaling.invert(means)
    np.testing.assert_allclose(model.means, expected.astype(np.float32), rtol=1e-6)
    assert model.grid == saved.trainer.grid
    assert model.scaling == ("none" if saved.scaling is None else saved.scaling.kind)
