"""Whole training state ↔ one safetensors file.

A file holds tensors and one JSON text: no code, nothing to unpickle. It is written beside its place, flushed to disk
and renamed, so a reader finds the old file or the new one and never half of one.
"""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from streamgmm import rules
from streamgmm.annealing import Annealing, Schedule
from streamgmm.grid import Grid
from streamgmm.kernels import Parameters
from streamgmm.training import TrainingState

FORMAT_VERSION = 1
KEY = "streamgmm"


class ModelFileError(ValueError):
    """A file that cannot be used as a model; the message says why and what to do."""


class Loaded(NamedTuple):
    """A state, and what else its writer had put into the file."""

    state: TrainingState
    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]


def save(
    path: str | os.PathLike[str],
    state: TrainingState,
    facts: dict[str, Any] | None = None,
    arrays: dict[str, npt.NDArray[Any]] | None = None,
) -> None:
    """Writes ``state`` atomically, with JSON-ready ``facts`` and further named ``arrays`` of the caller's."""
    header = {
        "format": FORMAT_VERSION,
        "n_features": state.parameters.n_features,
        "grid": [state.grid.rows, state.grid.columns],
        "schedule": asdict(state.schedule),
        "annealing": asdict(state.annealing),
        "rule": state.rule.settings(),
        "rng": state.rng.bit_generator.state,
        "batch_size": state.batch_size,
        "scale_max": state.scale_max,
        "facts": facts or {},
    }
    tensors: dict[str, npt.NDArray[Any]] = {
        "means": state.parameters.means,
        "scales": state.parameters.scales,
        "logits": state.parameters.logits,
        "pending": state.pending,
        "wins": state.wins,
        "usage": state.usage,
        **{f"rule.{name}": value for name, value in state.rule_state.items()},
        **{f"extra.{name}": value for name, value in (arrays or {}).items()},
    }
    contiguous = {name: np.array(value, order="C") for name, value in tensors.items()}
    write_atomically(Path(path), to_bytes(contiguous, {KEY: json.dumps(header, allow_nan=False)}))


def load(path: str | os.PathLike[str]) -> Loaded:
    """Reads what ``save`` wrote; training goes on from it as if it had never stopped."""
    place = Path(path)
    header, tensors = _read(place)
    version = header.get("format")
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise ModelFileError(
            f"{place} has format version {version!r}; this streamgmm reads up to {FORMAT_VERSION}. "
            "Install a newer streamgmm to read it."
        )
    try:
        state = _restore(header, tensors)
        extra = {name[6:]: value for name, value in tensors.items() if name.startswith("extra.")}
        return Loaded(state, dict(header["facts"]), extra)
    except (KeyError, TypeError, ValueError) as problem:
        raise ModelFileError(f"{place} is damaged: {problem!s:.200}. Use another copy, or train anew.") from problem


def _read(place: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    if not place.is_file():
        raise FileNotFoundError(f"{place} does not exist or is not a file; expected a model written by save().")
    try:
        with safe_open(place, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        header = json.loads(metadata[KEY])
        if not isinstance(header, dict):
            raise TypeError("the header is not an object")
        return header, tensors
    except KeyError as problem:
        raise ModelFileError(
            f"{place} is a safetensors file but not a streamgmm model: it has no header '{KEY}'."
        ) from problem
    except (SafetensorError, ValueError, TypeError, OSError) as problem:
        raise ModelFileError(
            f"{place} is truncated or not a model: {problem!s:.200}. Use another copy, or train anew."
        ) from problem


def _restore(header: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> TrainingState:
    grid = Grid(*map(int, header["grid"]))
    shape = (grid.size, int(header["n_features"]))
    expected = {"means": shape, "scales": shape, "logits": shape[:1], "wins": shape[:1], "usage": shape[:1]}
    for name, wanted in expected.items():
        if tensors[name].shape != wanted:
            raise ValueError(f"tensor '{name}' has shape {tensors[name].shape}; its header wants {wanted}")
    pending = tensors["pending"]
    if pending.ndim != 2 or pending.shape[1] != shape[1]:
        raise ValueError(f"tensor 'pending' has shape {pending.shape}; expected (rows, {shape[1]})")
    for name in ("means", "scales", "logits"):
        if not np.isfinite(tensors[name]).all():
            raise ValueError(f"tensor '{name}' holds values that are not finite")
    if (tensors["scales"] <= 0).any():
        raise ValueError("tensor 'scales' holds values that are not positive")
    bits = np.random.PCG64()
    bits.state = header["rng"]
    return TrainingState(
        parameters=Parameters(tensors["means"], tensors["scales"], tensors["logits"]),
        grid=grid,
        schedule=Schedule(**header["schedule"]),
        annealing=Annealing(**header["annealing"]),
        rule=rules.from_settings(header["rule"]),
        rule_state={name[5:]: np.array(value) for name, value in tensors.items() if name.startswith("rule.")},
        rng=np.random.Generator(bits),
        batch_size=int(header["batch_size"]),
        scale_max=float(header["scale_max"]),
        pending=pending,
        wins=tensors["wins"].astype(np.int64),
        usage=tensors["usage"].astype(np.float64),
    )


def write_atomically(place: Path, content: bytes) -> None:
    """Puts ``content`` at ``place`` so that a crash at any moment leaves the old file or the new one."""
    handle, name = tempfile.mkstemp(dir=place.parent, prefix=f".{place.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, place)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must reach the disk; Windows has no such call
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
