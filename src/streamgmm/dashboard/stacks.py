"""What the page shows of a stack of layers: the patches of its lowest mixture, and how far each layer has come."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.grid import Grid
from streamgmm.core.trainer import Trainer
from streamgmm.storage.stack_file import load_stacked_models


class LayerState(NamedTuple):
    """One mixture of a stack, or one for each position.

    ``patch`` says what it sees, ``live`` counts the components in use at the first position, ``samples`` the patches
    learned at all positions, and ``sigma`` is the width of annealing.
    """

    patch: str
    components: int
    live: int
    samples: int
    sigma: float
    annealed: bool

    @property
    def progress(self) -> str:
        """How far annealing has come, in words."""
        if not self.samples:
            return "has not begun"
        return "has annealed" if self.annealed else f"is annealing (σ is {self.sigma:.2g})"


class StackState(NamedTuple):
    """A stack: the lowest mixture as images, and the state of all layers from the bottom up."""

    means: npt.NDArray[np.float32]
    weights: npt.NDArray[np.float64]
    usage: npt.NDArray[np.float64]
    grid: Grid
    shape: tuple[int, ...]
    layers: tuple[LayerState, ...]
    n_images: int

    @property
    def sentence(self) -> str:
        """One sentence about the state of the stack."""
        known = f"A stack of {len(self.layers)} layers that has learned {self.n_images:,} images"
        for number, layer in enumerate(self.layers):
            if not (layer.samples and layer.annealed):
                return f"{known}: layer {number} {layer.progress}."
        return f"{known}: all layers have annealed."


def read_stack(path: Path) -> StackState:
    """Read the file of a stack; raise ModelFileError if it is damaged.

    Parameters
    ----------
    path : Path
        A file written by ``DeepStreamingMixture.save``.
    """
    saved = load_stacked_models(path)
    folds = [layer["fold"] for layer in saved.layers if "fold" in layer]
    layers = [
        _state([model.trainer for model in models], fold) for models, fold in zip(saved.models, folds, strict=True)
    ]
    lowest = saved.models[0][0].trainer
    mixture = lowest.mixture
    sides = _sides(folds[0]["patch"], saved.parameters["shape"], saved.layers)
    channels = mixture.n_features // (sides[0] * sides[1])
    shape = (*sides, channels) if channels == 3 else (sides[0], sides[1] * channels)  # other channels: side by side
    means = mixture.means.astype(np.float32)
    if channels == 3:  # colours are drawn within [0, 1], and bytes reach 255
        means = means / max(1.0, float(means.max()))
    elif channels > 1:
        means = means.reshape(-1, *sides, channels).transpose(0, 1, 3, 2).reshape(len(means), -1)
    return StackState(
        means, mixture.weights.astype(np.float64), lowest.usage, lowest.grid, shape, tuple(layers), saved.n_images
    )


def _state(trainers: list[Trainer], fold: dict[str, Any]) -> LayerState:
    first = trainers[0]
    return LayerState(
        patch="whole images" if fold["patch"] is None else f"patches of {_times(fold['patch'])}",
        components=first.n_components,
        live=first.live,
        samples=sum(trainer.n_samples for trainer in trainers),
        sigma=max(trainer.sigma for trainer in trainers),
        annealed=all(trainer.annealed for trainer in trainers),
    )


def _sides(patch: int | list[int] | None, shape: list[int], layers: list[dict[str, Any]]) -> tuple[int, int]:
    """Height and width of what the lowest mixture sees, after the pools in front of it."""
    if patch is not None:
        return _pair(patch)
    height, width = shape[:2]
    for layer in layers:
        if "pool" not in layer:
            break
        down, across = _pair(layer["pool"]["size"])
        height, width = height // down, width // across
    return height, width


def _pair(sides: int | list[int]) -> tuple[int, int]:
    return (sides, sides) if isinstance(sides, int) else (sides[0], sides[1])


def _times(sides: int | list[int]) -> str:
    return "×".join(map(str, _pair(sides)))
