"""From the top of a stack to images: samples, their sharpening, and hidden pixels."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.layers.fold import Images, ImageShape
from streamgmm.layers.level import Level
from streamgmm.layers.stack import Stack

STRONGEST = 3  # components that a sample may choose from at a position
LEAST_CONTROL = 1e-6  # share of a component that the level above has never seen at a position
LEAST_WINNER = 1e-3  # chance of a winner that a component has never seen
LOOKS = 2  # at hidden pixels: the second one uses what the first one found of their neighbours
LEAST_GAIN = 1e-6  # of the objective, per step and as a share of it, below which sharpening ends


def draw(stack: Stack, n: int, sharpening: int, rng: np.random.Generator) -> tuple[Images, npt.NDArray[np.int64]]:
    """Draw images from the top down; return them with the components of the top level, (n, down, across)."""
    top, lowest = stack.levels[-1], stack.levels[0]
    control, chosen = _by_weight(top, n), None
    for level in reversed(stack.levels):
        components = _pick(control, rng)
        chosen = components if chosen is None else chosen
        rows = level.draw(components, rng) if level is lowest else level.means_of(components)
        images = level.stage.unfold(rows)
        if sharpening and level.stage.overlaps:
            weights = _one_hot(components, level.stage.n_components) if level is top else control
            images = sharpen(level, images, weights, sharpening)
        images = level.stage.unpool(images)
        control = _strongest(images)
    assert chosen is not None
    return images, chosen


def sharpen(level: Level, images: Images, control: Images, steps: int) -> Images:
    """[E34] Move pooled images uphill: the likelihood of their patches, with weights (N, down, across, K) from above.

    Averages of overlapping patches are blurred. Each step divides every patch between the components and moves each
    pixel to the best place for these shares, so that the likelihood never falls.
    """
    means, precisions = level.means(), 1 / level.variances()
    before = -np.inf
    for _ in range(steps):
        shares, likelihoods = _posterior(level, level.log_joint(level.stage.fold.fold(images)), control)
        total = float(likelihoods.sum())
        if total - before <= LEAST_GAIN * abs(total):
            break
        before = total
        weights = level.expected(shares, precisions)
        rows = level.expected(shares, precisions * means) / weights
        images = level.stage.unfold(rows, weights)
    return images


def agreement(level: Level, images: Images, control: Images) -> npt.NDArray[np.float64]:
    """[E34] Return what `sharpen` raises, for each image: (N,)."""
    return _posterior(level, level.log_joint(level.stage.fold.fold(images)), control)[1].sum((1, 2))


def fill(stack: Stack, images: Images) -> Images:
    """[E33] Return images with their hidden pixels, which are NaN, replaced by the values expected from the others."""
    seen, lowest = [images], stack.levels[0]
    for level in stack.levels[:-1]:
        seen.append(level.responsibilities(seen[-1]))
    repeats = lowest.stage.overlap
    control: Images | None = None
    for level, known in zip(stack.levels[:0:-1], seen[:0:-1], strict=True):
        shares, _ = _posterior(level, _winner_scores(level, known), control, repeats)
        control = _probabilities(level.stage.unpool(level.stage.unfold(level.expected(shares, level.means()))))
    scores = lowest.log_joint(lowest.stage.rows(images))
    for look in range(LOOKS):
        shares, _ = _posterior(lowest, scores, control, repeats)
        found = _expected_pixels(lowest, shares)
        if look + 1 < LOOKS and lowest.stage.overlaps:
            scores = _noisy_scores(lowest, images, found)
    return np.where(np.isnan(images), lowest.stage.unpool(found.mean), images).astype(images.dtype)


class Pixels(NamedTuple):
    """Mean and variance of every pixel of pooled images."""

    mean: Images
    variance: Images


def prototypes(stack: Stack, number: int) -> Images:
    """Return what each component of a level expects to see, in pixels: (K, height, width, channels)."""
    level = stack.levels[number]
    stage, means = level.stage, level.means()[0]
    down, across, channels = stage.pooled
    if stage.fold.patch is not None:
        down, across = stage.fold.sides(stage.pooled)[0]
    images = stage.unpool(means.reshape(-1, down, across, channels))
    for lower in reversed(stack.levels[:number]):
        control = _probabilities(images)
        rows = control @ lower.means()[0] if lower.stage.fold.shared else lower.expected(control, lower.means())
        images = lower.stage.unpool(lower.stage.fold.unfold(rows, _seen_by(lower, images.shape[1:3])))
    return images


def _seen_by(level: Level, positions: tuple[int, ...]) -> ImageShape:
    """Shape of what so many neighbouring positions of a level see together."""
    patch, stride = level.stage.fold.sides(level.stage.pooled)
    height, width = (p + (n - 1) * s for p, n, s in zip(patch, positions, stride, strict=True))
    return height, width, level.stage.pooled[2]


def _expected_pixels(level: Level, shares: Images) -> Pixels:
    """Average overlapping patches; those that are more certain count more."""
    means, variances = level.means().astype(np.float64), level.variances().astype(np.float64)
    rows = level.expected(shares, means)
    squares = level.expected(shares, variances + means**2)
    spread = np.maximum(squares - rows**2, 0.0)
    weights = 1 / (spread + spread.mean() + np.finfo(np.float64).tiny)
    mean = level.stage.unfold(rows, weights)
    return Pixels(mean, np.maximum(level.stage.unfold(squares, weights) - mean**2, 0.0))


def _noisy_scores(level: Level, images: Images, found: Pixels) -> npt.NDArray[np.float64]:
    """Scores of patches in which hidden pixels count as observations, as noisy as they are uncertain."""
    for pool in level.stage.pools:
        images = pool.pool(images)
    hidden = np.isnan(images)
    rows = level.stage.fold.fold(np.where(hidden, found.mean, images))
    noise = level.stage.fold.fold(np.where(hidden, found.variance, 0.0))
    means, variances = (a.astype(np.float64).swapaxes(0, 1) for a in (level.means(), level.variances()))
    scores = np.empty((*rows.shape[:3], level.stage.n_components))
    for k, (mean, variance) in enumerate(zip(means, variances, strict=True)):
        places = level.stage.positions if len(mean) > 1 else (1, 1)
        spread = variance.reshape(*places, -1) + noise
        scores[..., k] = -0.5 * ((rows - mean.reshape(*places, -1)) ** 2 / spread + np.log(spread)).sum(-1)
    return scores + np.log(np.maximum(level.weights(), np.finfo(np.float64).tiny))


def _winner_scores(level: Level, known: Images) -> npt.NDArray[np.float64]:
    """Score winners below a level, of which some are hidden (NaN), by how often each component has seen them."""
    rows = level.stage.rows(known).astype(np.float64)
    means = level.means().astype(np.float64)
    winners = np.maximum(means.reshape(*means.shape[:2], -1, level.stage.pooled[2]), LEAST_WINNER)
    winners /= winners.sum(-1, keepdims=True)
    scores = level.expected(np.nan_to_num(rows), np.log(winners).reshape(means.shape).swapaxes(1, 2))
    return scores + np.log(np.maximum(level.weights(), np.finfo(np.float64).tiny))


def _posterior(
    level: Level, scores: npt.NDArray[np.float64], control: Images | None, doubt: float = 1.0
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """[E33] Shares of components, with weights from above instead of their own, and log-likelihoods.

    Overlapping patches repeat what they know. ``doubt`` divides the evidence in ``scores``, but not the weights.
    """
    own = np.log(np.maximum(level.weights(), np.finfo(np.float64).tiny))
    with np.errstate(divide="ignore"):
        scores = (scores - own) / doubt + (own if control is None else np.log(control))
    best = scores.max(-1, keepdims=True)
    scores = np.exp(scores - best)
    total = scores.sum(-1, keepdims=True)
    return scores / total, (best + np.log(total))[..., 0]


def _probabilities(images: Images) -> Images:
    """Turn expected responsibilities into weights; no component is impossible."""
    control = np.maximum(images.astype(np.float64), LEAST_CONTROL)
    return control / control.sum(-1, keepdims=True)


def _strongest(images: Images) -> Images:
    """Keep the strongest channels at each position, as probabilities."""
    control = np.maximum(images.astype(np.float64), 0.0)
    if control.shape[-1] > STRONGEST:
        least = np.partition(control, -STRONGEST, -1)[..., -STRONGEST, None]
        control[control < least] = 0.0
    total = control.sum(-1, keepdims=True)
    return np.where(total > 0, control / np.where(total > 0, total, 1.0), 1 / control.shape[-1])


def _pick(control: Images, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    """Pick a component at each position, by its probability."""
    ends = np.cumsum(control, -1)
    marks = rng.random((*control.shape[:-1], 1)) * ends[..., -1:]
    return np.minimum((ends <= marks).sum(-1), control.shape[-1] - 1)


def _by_weight(level: Level, n: int) -> Images:
    """The weights of the components at each position, for n images."""
    return np.broadcast_to(level.weights(), (n, *level.stage.positions, level.stage.n_components))


def _one_hot(components: npt.NDArray[np.int64], count: int) -> Images:
    return np.eye(count)[components]
