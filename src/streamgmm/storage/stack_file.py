"""Files of stacks: the models of all layers in one safetensors file, in the form of model files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import ModelFileError
from streamgmm.storage.container import DAMAGE
from streamgmm.storage.model_file import (
    FORMAT,
    SavedModel,
    pack_model,
    read_model_file,
    unpack_model,
    write_model_file,
)

WAITING = "waiting"


@dataclass
class SavedStack:
    """What the file of a stack holds.

    Attributes
    ----------
    models : list of list of SavedModel
        The models of each layer, one or one for each position, from the bottom up.
    layers : list of dict
        Plain data that describe the layers.
    parameters : dict
        Plain data about the estimator.
    waiting : array of shape (n, height, width, channels)
        Images that wait for the end of their block.
    n_images : int
        Images learned.
    """

    models: list[list[SavedModel]]
    layers: list[dict[str, Any]]
    parameters: dict[str, Any]
    waiting: npt.NDArray[Any]
    n_images: int


def save_stacked_models(path: str | os.PathLike[str], saved: SavedStack) -> None:
    """Write a stack atomically."""
    tensors: dict[str, npt.NDArray[Any]] = {WAITING: saved.waiting}
    headers: list[list[dict[str, Any]]] = []
    for number, group in enumerate(saved.models):
        headers.append([])
        for place, model in enumerate(group):
            header, own = pack_model(model)
            headers[-1].append(header)
            tensors |= {f"{number}.{place}.{name}": value for name, value in own.items()}
    header = {
        "format": FORMAT,
        "layers": saved.layers,
        "models": headers,
        "parameters": saved.parameters,
        "n_images": saved.n_images,
    }
    write_model_file(Path(path), header, tensors)


def load_stacked_models(path: str | os.PathLike[str]) -> SavedStack:
    """Read the file of a stack; raise ModelFileError for other files and for damaged ones."""
    place = Path(path)
    header, tensors = read_model_file(place)
    if "layers" not in header:
        raise ModelFileError(f"{place} holds one mixture. Load it with streamgmm.StreamingGaussianMixture.load.")
    try:
        models = [
            [_unpack(own, tensors, f"{number}.{position}.", place) for position, own in enumerate(group)]
            for number, group in enumerate(header["models"])
        ]
        waiting = tensors[WAITING]
        gaps = models[0][0].trainer.settings.allow_nan
        if waiting.dtype.kind == "f" and (np.isinf(waiting) if gaps else ~np.isfinite(waiting)).any():
            raise ValueError(f"tensor '{WAITING}' holds values that are not finite")
        return SavedStack(models, list(header["layers"]), dict(header["parameters"]), waiting, int(header["n_images"]))
    except ModelFileError:
        raise
    except DAMAGE as problem:
        raise ModelFileError(f"{place} is damaged: {problem!s:.200}. Use another copy, or train again.") from problem


def _unpack(header: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], prefix: str, path: Path) -> SavedModel:
    own = {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}
    return unpack_model(header, own, path)
