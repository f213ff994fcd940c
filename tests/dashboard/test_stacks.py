"""The page of a stack of layers: patches of the lowest mixture, and the state of every layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import DeepStreamingMixture, Fold, Pool, StreamingGaussianMixture
from streamgmm.dashboard.follower import Follower, read_model
from streamgmm.dashboard.page import Page
from streamgmm.sources.synthetic.glyphs import Glyphs

UPPER = {"scale": "none", "precision_max": 1000.0}


def stack(n_images: int, shape: tuple[int, ...] = (28, 28), first: Any = None) -> DeepStreamingMixture:
    layers = [first or Fold(8, 4), StreamingGaussianMixture(9), Fold(), StreamingGaussianMixture(4, **UPPER)]
    images = Glyphs(seed=0).take(0, n_images)[0]
    if len(shape) == 3:
        images = np.repeat(images[..., None], shape[2], -1).reshape(n_images, -1)
    return DeepStreamingMixture(layers, shape, random_state=0).partial_fit(images)


def test_patches_and_the_state_of_each_layer(tmp_path: Path) -> None:
    model = stack(1500)
    model.save(tmp_path / "model.safetensors")
    shown = read_model(tmp_path / "model.safetensors")
    assert shown is not None
    assert shown.stack is not None
    assert shown.image_shape == (8, 8)
    np.testing.assert_allclose(shown.means, model.mixture(0).means, rtol=1e-6)
    first, second = shown.stack.layers
    assert (first.patch, first.components, first.samples) == ("patches of 8×8", 9, 1500 * 36)
    assert (second.patch, second.samples) == ("whole images", model.levels_[1].trainers[0].n_samples)
    assert first.progress == "has annealed"
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.state.startswith("A stack of 2 layers that has learned 1,500 images: ")


def test_colours_and_pools(tmp_path: Path) -> None:
    path = tmp_path / "stack.safetensors"
    for channels, shape in ((3, (8, 8, 3)), (2, (8, 16))):
        model = stack(300, (28, 28, channels))
        model.save(path)
        shown = read_model(path)
        assert shown is not None
        assert shown.image_shape == shape
        means = model.mixture(0).means.reshape(-1, 8, 8, channels)
        pictures = shown.means.reshape(-1, *shape)
        np.testing.assert_allclose(pictures[:, :8, :8].reshape(len(means), 8, 8, -1)[..., 0], means[..., 0], rtol=1e-6)
    whole = DeepStreamingMixture([Pool(2), Fold(), StreamingGaussianMixture(4)], (28, 28), random_state=0)
    whole.partial_fit(Glyphs(seed=0).take(0, 300)[0]).save(path)
    shown = read_model(path)
    assert shown is not None
    assert shown.image_shape == (14, 14)


def test_the_page_follows_a_file_that_is_saved_again(tmp_path: Path) -> None:
    path = tmp_path / "letters.safetensors"
    model = stack(40)
    model.save(path)
    page = Page(Follower(path))
    page.update()
    state, facts = page.roots[0], page.roots[1]
    assert "saved" in state.css_classes
    assert "layer 0 is annealing" in state.text
    assert "has not begun; 4 components" in facts.text
    model.partial_fit(Glyphs(seed=0).take(40, 2000)[0]).save(path)
    later = Page(Follower(path))
    later.update()
    assert "2,040 images" in later.roots[0].text
    assert "has not begun" not in later.roots[1].text


def test_a_saved_mixture_says_that_it_has_no_record(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((300, 3))
    StreamingGaussianMixture(2).partial_fit(rows).save(tmp_path / "model.safetensors")
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.state == "A saved model, without a record of its training."


@pytest.mark.parametrize("kept", [100, 5000])
def test_damaged_stacks_are_not_shown(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "model.safetensors"
    stack(40).save(path)
    path.write_bytes(path.read_bytes()[:kept])
    assert read_model(path) is None
