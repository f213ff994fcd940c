"""Commands given the file of a stack: some show it, the others say what to do."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm import DeepStreamingMixture, Fold, StreamingGaussianMixture
from tests.commands.command_line import streamgmm


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("stack")
    rng = np.random.default_rng(0)
    kinds = rng.random((4, 64))
    images = np.clip(kinds[rng.integers(4, size=800)] + rng.normal(0, 0.1, (800, 64)), 0, 1)
    upper = StreamingGaussianMixture(4, period=20, scale="none", precision_max=1000.0)
    layers = [Fold(4, 2), StreamingGaussianMixture(9, period=20), Fold(), upper]
    DeepStreamingMixture(layers, (8, 8), random_state=0).partial_fit(images).save(place / "stack.safetensors")
    np.save(place / "x.npy", images[:20])
    return place


def test_plot_draws_every_layer_and_samples(folder: Path, tmp_path: Path) -> None:
    done = streamgmm("plot", "stack.safetensors", "--out", tmp_path, "--json", folder=folder)
    assert [Path(name).name for name in json.loads(done.stdout)] == ["layer0.png", "layer1.png", "samples.png"]
    assert all((tmp_path / name).stat().st_size > 1000 for name in ("layer0.png", "layer1.png", "samples.png"))


def test_a_layer_that_has_not_begun_is_left_out(tmp_path: Path) -> None:
    model = DeepStreamingMixture.from_shape((8, 8), n_components=4, random_state=0)
    model.partial_fit(np.random.default_rng(0).random((20, 64))).save(tmp_path / "model.safetensors")
    streamgmm("plot", ".", folder=tmp_path)
    assert sorted(path.name for path in tmp_path.glob("*.png")) == ["layer0.png"]
    assert "has not begun" in streamgmm("info", ".", folder=tmp_path).stdout
    done = streamgmm("sample", ".", "--out", "x.npz", folder=tmp_path, fails=True)
    assert "layer 1 has not begun: layer 0 is still annealing" in done.words


def test_info_tells_how_far_each_layer_has_come(folder: Path) -> None:
    known = json.loads(streamgmm("info", "stack.safetensors", "--json", folder=folder).stdout)
    assert (known["images"], known["shape"]) == (800, [8, 8])
    assert [layer["components"] for layer in known["layers"]] == [9, 4]
    assert known["layers"][0]["positions"] == [3, 3]
    assert known["layers"][0]["samples"] == 7200
    words = streamgmm("info", "stack.safetensors", folder=folder).stdout
    assert "800 of shape 8×8" in words
    assert "patches of 4×4 at 3×3 positions; 7,200 samples, annealed" in words


def test_samples_are_those_of_the_estimator(folder: Path, tmp_path: Path) -> None:
    model = DeepStreamingMixture.load(folder / "stack.safetensors").set_params(random_state=5)
    expected, components = model.sample(12)
    streamgmm("sample", "stack.safetensors", "-n", 12, "--seed", 5, "--out", tmp_path / "x.npz", folder=folder)
    found = np.load(tmp_path / "x.npz")
    np.testing.assert_array_equal(found["x"], expected)
    np.testing.assert_array_equal(found["components"], components)
    streamgmm("sample", "stack.safetensors", "-n", 12, "--out", tmp_path / "x.png", folder=folder)
    assert (tmp_path / "x.png").stat().st_size > 1000


@pytest.mark.parametrize("arguments", [("score",), ("impute", "--out", "y.csv")])
def test_other_commands_refuse_a_stack_and_say_what_to_do(folder: Path, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    done = streamgmm(command, "stack.safetensors", "x.npy", *options, folder=folder, fails=True)
    assert "holds a stack of layers. The commands plot, sample, info and dashboard show it" in done.words
    assert "streamgmm.DeepStreamingMixture.load" in done.words


@pytest.mark.parametrize("command", ["train", "watch"])
def test_a_stack_is_not_resumed(folder: Path, command: str) -> None:
    (folder / "run").mkdir(exist_ok=True)
    (folder / "run" / "model.safetensors").write_bytes((folder / "stack.safetensors").read_bytes())
    done = streamgmm(command, "x.npy", "--out", "run", "--resume", folder=folder, fails=True)
    assert "holds a stack of layers. Load it with streamgmm.DeepStreamingMixture.load" in done.words
