"""Files of stacks: the models of all layers in one safetensors file, in the form of model files."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import LIMITS
from streamgmm.core.settings import LONGEST_PERIOD
from streamgmm.errors import ModelFileError
from streamgmm.storage.container import DAMAGE, plain, read_header
from streamgmm.storage.format3 import MOST_JOBS, SEED
from streamgmm.storage.model_file import (
    FORMAT,
    SavedModel,
    pack_model,
    read_model_file,
    unpack_model,
    write_model_file,
)
from streamgmm.storage.schema import COUNT, anything, choice, either, flag, list_of, number, optional, record

WAITING = "waiting"
MOST_LAYERS, MOST_MODELS, LARGEST_SIDE = 1000, 1_000_000, 1 << 20
SIDE = number(1, LARGEST_SIDE, whole=True)
SIDES = either(SIDE, list_of(SIDE, length=2))
PRECISION, NOISE = number(1e-20, 1e30), number(1e-6, 1e6)
EPOCHS = either(choice("auto"), number(1, whole=True))
MIXTURE = {
    "period": optional(number(1, LONGEST_PERIOD, whole=True)),
    "n_jobs": optional(number(-MOST_JOBS, MOST_JOBS, whole=True)),
}
ESTIMATOR = {"n_epochs": EPOCHS, "shuffle": flag, "verbose": either(flag, COUNT), "random_state": optional(SEED)}
LAYER = record(
    {},
    {
        "fold": record({"patch": optional(SIDES), "stride": SIDES, "shared": flag}),
        "pool": record({"size": SIDES, "kind": choice("max", "mean")}),
        "mixture": record({**ESTIMATOR, **MIXTURE}, {"precision_max": optional(PRECISION)}),
    },
)
HEADER = record(
    {
        "layers": list_of(LAYER),
        "models": list_of(list_of(record({}, unknown=anything))),
        "parameters": record({**ESTIMATOR, "shape": list_of(SIDE)}, {"pixel_noise": optional(NOISE)}),
        "n_images": COUNT,
    },
    unknown=anything,
)


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
    """Write a stack atomically; raise ModelFileError rather than replace a good file by one that cannot be read."""
    tensors: dict[str, npt.NDArray[Any]] = {WAITING: saved.waiting}
    headers: list[list[dict[str, Any]]] = []
    for level, group in enumerate(saved.models):
        headers.append([])
        for place, model in enumerate(group):
            header, own = pack_model(model)
            headers[-1].append(header)
            tensors |= {f"{level}.{place}.{name}": value for name, value in own.items()}
    header = {
        "format": FORMAT,
        "layers": saved.layers,
        "models": headers,
        "parameters": saved.parameters,
        "n_images": saved.n_images,
    }
    try:
        _check_header(plain(header))
    except ValueError as problem:
        raise ModelFileError(f"the stack cannot be saved: it could not be loaded again, as {problem}.") from problem
    write_model_file(Path(path), header, tensors)


def holds_stack(path: str | os.PathLike[str]) -> bool:
    """Return whether a file can be read and holds a stack of layers; tensors are left unread."""
    try:
        return "layers" in read_header(Path(path))
    except (*DAMAGE, OSError):
        return False


def load_stacked_models(path: str | os.PathLike[str]) -> SavedStack:
    """Read the file of a stack; raise ModelFileError for other files and for damaged ones."""
    place = Path(path)
    header, tensors = read_model_file(place)
    if "layers" not in header:
        raise ModelFileError(f"{place} holds one mixture. Load it with streamgmm.StreamingGaussianMixture.load.")
    try:
        _check_header(header)
        own = _by_model(tensors)
        models = [
            [
                unpack_model(facts, own.get((str(level), str(position)), {}), place)
                for position, facts in enumerate(group)
            ]
            for level, group in enumerate(header["models"])
        ]
        waiting = tensors[WAITING]
        _check_waiting(waiting, gaps=bool(models[0][0].trainer.settings.allow_nan))
        return SavedStack(models, list(header["layers"]), dict(header["parameters"]), waiting, int(header["n_images"]))
    except ModelFileError:
        raise
    except DAMAGE as problem:
        raise ModelFileError(f"{place} is damaged: {problem!s:.200}. Use another copy, or train again.") from problem


def _check_header(header: dict[str, Any]) -> None:
    """Raise ValueError for a header that no stack has written, before anything is built from it."""
    HEADER(header, "the header")
    layers, models = header["layers"], header["models"]
    if len(layers) > MOST_LAYERS or sum(map(len, models)) > MOST_MODELS:
        raise ValueError(f"{len(layers)} layers and {sum(map(len, models))} models")
    if any(len(layer) != 1 for layer in layers) or sum("mixture" in layer for layer in layers) != len(models):
        raise ValueError(f"{len(models)} groups of models for {len(layers)} layers; expected one for each mixture")
    if not models or not all(models):
        raise ValueError("there is a layer without a model")


def _by_model(tensors: dict[str, npt.NDArray[Any]]) -> dict[tuple[str, str], dict[str, npt.NDArray[Any]]]:
    """Sort tensors by the level and the position in front of their names."""
    found: dict[tuple[str, str], dict[str, npt.NDArray[Any]]] = {}
    for name, value in tensors.items():
        level, _, rest = name.partition(".")
        position, _, inner = rest.partition(".")
        found.setdefault((level, position), {})[inner] = value
    return found


def _check_waiting(images: npt.NDArray[Any], *, gaps: bool) -> None:
    """Raise ValueError for images that could not be learned."""
    if images.dtype == np.uint8:
        return
    if images.dtype not in LIMITS:
        raise ValueError(f"tensor '{WAITING}' has type {images.dtype}; expected uint8, float32 or float64")
    if (np.isinf(images) if gaps else ~np.isfinite(images)).any():
        raise ValueError(f"tensor '{WAITING}' holds values that are not finite")
    if images.size and np.nanmax(np.abs(images), initial=0.0) > LIMITS[images.dtype]:
        raise ValueError(f"tensor '{WAITING}' holds values that are too large for its type")
