"""Laws of stacks: one layer is the plain estimator, chunks and files change nothing, folding loses nothing."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgmm import DeepStreamingMixture, Fold, Natural, Pool, StreamingGaussianMixture
from streamgmm.core import reference as eq
from streamgmm.layers.downward import agreement, sharpen
from tests.conftest import assert_same_training, scales

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

UPPER = {"scale": "none", "precision_max": 20.0}


def pictures(count: int, side: int = 6, seed: int = 0) -> np.ndarray:
    """Noisy images of four kinds, as flat rows within [0, 1]."""
    rng = np.random.default_rng(seed)
    kinds = np.random.default_rng(7).random((4, side * side))
    return np.clip(kinds[rng.integers(4, size=count)] + rng.normal(0, 0.1, (count, side * side)), 0, 1)


def mixture(n_components: int = 4, **more: Any) -> StreamingGaussianMixture:
    return StreamingGaussianMixture(n_components, period=20, **more)


STACKS = {
    "tiles": [Fold(3, 3), mixture(), Fold(), mixture(**UPPER)],
    "overlaps": [Fold(4, 2), mixture(), Fold(), mixture(**UPPER, batch_size=3)],
    "one per position": [Fold(3, 3, shared=False), mixture(), Fold(), mixture(**UPPER)],
    "three": [Fold(3, 1), mixture(), Pool(2), Fold(1), mixture(**UPPER), Fold(), mixture(**UPPER)],
}
stacks = pytest.mark.parametrize("name", list(STACKS))


def stack(name: str) -> DeepStreamingMixture:
    return DeepStreamingMixture(STACKS[name], (6, 6), random_state=3)


def assert_identical(a: DeepStreamingMixture, b: DeepStreamingMixture) -> None:
    assert a.n_samples_seen_ == b.n_samples_seen_
    for here, there in zip(a.levels_, b.levels_, strict=True):
        for one, other in zip(here.trainers, there.trainers, strict=True):
            assert_same_training(one, other)


@pytest.mark.parametrize("dtype", [np.uint8, np.float32, np.float64])
@scales
def test_one_layer_of_whole_images_is_the_plain_estimator(dtype: type, scale: str) -> None:
    x = pictures(450)
    x = (255 * x).astype(np.uint8) if dtype == np.uint8 else x.astype(dtype)
    cap = 20 / 255**2 if dtype == np.uint8 else None
    if dtype == np.uint8 and scale == "none":
        pytest.skip("bytes from 0 to 255 need a scale")
    own = mixture(scale=scale, precision_max=cap)
    deep = DeepStreamingMixture([Fold(), own], (6, 6), random_state=0)
    plain = mixture(scale=scale, precision_max=cap, random_state=0)
    for part in np.array_split(x, 4):
        deep.partial_fit(part)
        plain.partial_fit(part)
    assert_same_training(deep.levels_[0].trainers[0], plain.trainer_)
    np.testing.assert_array_equal(deep.score_samples(x), plain.score_samples(x))
    for found, expected in zip(deep.sample(9), plain.sample(9), strict=True):
        np.testing.assert_array_equal(found, expected)
    assert_same_training(deep.fit(x).levels_[0].trainers[0], plain.fit(x).trainer_)


@stacks
@pytest.mark.parametrize("chunk", [1, 77])
def test_chunks_change_nothing(name: str, chunk: int) -> None:
    x = pictures(750)
    whole, cut = stack(name).partial_fit(x), stack(name)
    for start in range(0, len(x), chunk):
        cut.partial_fit(x[start : start + chunk])
    assert all(level.begun for level in whole.levels_)
    assert_identical(whole, cut)
    np.testing.assert_array_equal(whole.score_samples(x), cut.score_samples(x))


@settings(max_examples=15)
@given(cuts=st.lists(st.integers(1, 499), max_size=5), name=st.sampled_from(["tiles", "overlaps"]))
def test_any_cuts_change_nothing(cuts: list[int], name: str) -> None:
    x = pictures(500)
    whole, cut = stack(name).partial_fit(x), stack(name)
    for part in np.split(x, sorted(set(cuts))):
        cut.partial_fit(part)
    assert_identical(whole, cut)


@stacks
@pytest.mark.parametrize("cut", [30, 430])
def test_saving_in_mid_stream_changes_nothing(name: str, cut: int, tmp_path: Path) -> None:
    x = pictures(750)
    whole, half = stack(name).partial_fit(x), stack(name).partial_fit(x[:cut])
    half.save(tmp_path / "half.safetensors")
    resumed = DeepStreamingMixture.load(tmp_path / "half.safetensors")
    assert repr(resumed) == repr(half)
    assert_identical(half, resumed)
    assert_identical(whole, resumed.partial_fit(x[cut:]))


def test_bytes_and_rules_of_one_s_own_survive_a_file(tmp_path: Path) -> None:
    x = (255 * pictures(650)).astype(np.uint8)
    layers = [Fold(4, 2), mixture(rule=Natural(growth=0.3)), Fold(), mixture(**UPPER)]
    model = DeepStreamingMixture(layers, (6, 6), random_state=1).partial_fit(x[:333])
    model.save(tmp_path / "model.safetensors")
    resumed = DeepStreamingMixture.load(tmp_path / "model.safetensors")
    assert resumed.layers[1].rule == Natural(growth=0.3)
    assert_identical(model.partial_fit(x[333:]), resumed.partial_fit(x[333:]))


@pytest.mark.parametrize(("dtype", "brightest"), [(np.uint8, 255), (np.float32, 1), (np.float64, 1)])
def test_noise_of_pixels_is_relative_to_full_brightness(dtype: type, brightest: int, tmp_path: Path) -> None:
    x = (brightest * pictures(650)).astype(dtype)
    model = DeepStreamingMixture(STACKS["overlaps"], (6, 6), pixel_noise=0.2, random_state=3).partial_fit(x[:333])
    least = float(np.sqrt(model.mixture(0).variances.min())) / brightest
    assert least == pytest.approx(0.2, rel=1e-3)
    assert float(np.sqrt(stack("overlaps").partial_fit(x).mixture(0).variances.min())) / brightest < 0.15
    model.save(tmp_path / "model.safetensors")
    resumed = DeepStreamingMixture.load(tmp_path / "model.safetensors")
    assert repr(resumed) == repr(model)
    assert resumed.layers[1].precision_max is None
    assert_identical(model.partial_fit(x[333:]), resumed.partial_fit(x[333:]))


def test_a_limit_of_the_mixture_counts_more_than_noise() -> None:
    layers = [Fold(4, 2), mixture(precision_max=4.0), Fold(), mixture(**UPPER)]
    model = DeepStreamingMixture(layers, (6, 6), pixel_noise=0.2, random_state=3).partial_fit(pictures(300))
    assert model.mixture(0).variances.min() >= 0.2499


shapes = st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 3))


@given(tile=shapes, counts=shapes, seed=st.integers(0, 99))
def test_patches_that_tile_lose_nothing(tile: tuple, counts: tuple, seed: int) -> None:
    shape = (tile[0] * counts[0], tile[1] * counts[1], tile[2])
    images = np.random.default_rng(seed).normal(size=(3, *shape))
    fold = Fold(tile[:2], tile[:2])
    rows = fold.fold(images)
    assert rows.shape == (3, *fold.output_shape(shape))
    np.testing.assert_array_equal(fold.unfold(rows, shape), images)
    np.testing.assert_array_equal(fold.fold(fold.unfold(rows, shape)), rows)


@given(patch=shapes, gaps=shapes, seed=st.integers(0, 99), data=st.data())
def test_patches_that_overlap_lose_nothing_but_rounding(patch: tuple, gaps: tuple, seed: int, data: Any) -> None:
    stride = tuple(data.draw(st.integers(1, size)) for size in patch[:2])
    shape = (patch[0] + gaps[0] * stride[0], patch[1] + gaps[1] * stride[1], patch[2])
    rng = np.random.default_rng(seed)
    images = rng.normal(size=(2, *shape))
    fold = Fold(patch[:2], stride)
    rows = fold.fold(images)
    np.testing.assert_allclose(fold.unfold(rows, shape), images, rtol=1e-12)
    np.testing.assert_allclose(fold.unfold(rows, shape, rng.uniform(0.1, 9, rows.shape)), images, rtol=1e-12)


@pytest.mark.parametrize("name", ["overlaps", "three"])
def test_sharpening_never_lowers_what_it_raises(name: str) -> None:
    model = stack(name).partial_fit(pictures(750))
    level = model.levels_[0]
    rng = np.random.default_rng(0)
    images = rng.random((5, 6, 6, 1))
    control = rng.dirichlet(np.full(4, 0.3), (5, *level.stage.positions))
    climbed = [agreement(level, sharpen(level, images, control, steps), control).sum() for steps in range(8)]
    assert all(after >= before - 1e-6 * abs(before) for before, after in pairwise(climbed))
    assert climbed[-1] > climbed[0] + 1


def test_sharpening_takes_the_steps_of_the_reference() -> None:
    model = stack("overlaps").partial_fit(pictures(750))
    level = model.levels_[0]
    rng = np.random.default_rng(1)
    image = rng.random((1, 6, 6, 1))
    control = rng.dirichlet(np.ones(4), (1, *level.stage.positions))
    fold, mix = Fold(4, 2), model.mixture(0)
    places = fold.fold(np.arange(36).reshape(1, 6, 6, 1)).reshape(-1, 16)
    rows, weights = fold.fold(image).reshape(-1, 16), control.reshape(-1, 4)
    shares = [eq.shares_from_above(x, c, mix.means, mix.variances, 1.0) for x, c in zip(rows, weights, strict=True)]
    expected = eq.sharpened(np.array(shares), mix.means, mix.variances, places, 36)
    np.testing.assert_allclose(sharpen(level, image, control, 1).ravel(), expected, rtol=1e-9)


def test_evidence_that_counts_less_leaves_more_to_the_weights_from_above() -> None:
    x, c = np.array([1.0, np.nan]), np.array([0.3, 0.7])
    mean, variance = np.array([[1.0, 5.0], [0.0, 5.0]]), np.ones((2, 2))
    odds = [np.divide(*eq.shares_from_above(x, c, mean, variance, doubt)) for doubt in (1.0, 4.0)]
    np.testing.assert_allclose(odds, 3 / 7 * np.exp([0.5, 0.125]))
