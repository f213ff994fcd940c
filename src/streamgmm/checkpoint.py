"""Whole training state ↔ one safetensors file.

A file holds tensors and one JSON text: no code, nothing to unpickle. It is written beside its place, flushed to disk
and renamed, so a reader finds the old file or the new one and never half of one.
"""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from streamgmm import engines
from streamgmm.annealing import Annealing, Schedule
from streamgmm.drift import Watch
from streamgmm.grid import Grid
from streamgmm.kernels import Parameters, aligned_copy
from streamgmm.rules import Moment
from streamgmm.training import Pending, TrainingState

FORMAT_VERSION = 2
KEY = "streamgmm"
ROWS = ("pending", "extra.also.odd_rows")  # tensors that hold samples, which may lack features


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
        "watch": asdict(state.watch),
        "reheats": state.reheats,
        "allow_nan": state.allow_nan,
        "skipped": state.skipped,
        "facts": facts or {},
    }
    tensors: dict[str, npt.NDArray[Any]] = {
        "means": state.parameters.means,
        "scales": state.parameters.scales,
        "logits": state.parameters.logits,
        "pending": state.pending.rows,
        "pending_shares": state.pending.shares,
        "wins": state.wins,
        "usage": state.usage,
        **{f"rule.{name}": value for name, value in state.rule_state.items()},
        **{f"extra.{name}": value for name, value in (arrays or {}).items()},
    }
    contiguous = {name: np.array(value, order="C") for name, value in tensors.items()}
    for name, value in contiguous.items():
        _require_sound(name, value, state.allow_nan)  # rather than replace a file that can be read by one that cannot
    write_atomically(Path(path), to_bytes(contiguous, {KEY: json.dumps(header, allow_nan=False, default=_plain)}))


def load(path: str | os.PathLike[str]) -> Loaded:
    """Reads what ``save`` wrote; training goes on from it as if it had never stopped."""
    place = Path(path)
    header, tensors = _read(place)
    version = header.get("format")
    if version != FORMAT_VERSION:
        raise ModelFileError(
            f"{place} has format version {version!r}; this streamgmm reads version {FORMAT_VERSION}. "
            "Install the streamgmm that wrote it, or train anew."
        )
    try:
        state = _restore(header, tensors)
        extra = {name[6:]: value for name, value in tensors.items() if name.startswith("extra.")}
        return Loaded(state, dict(header["facts"]), extra)
    except (KeyError, TypeError, ValueError, OverflowError, RecursionError) as problem:
        raise ModelFileError(f"{place} is damaged: {problem!s:.200}. Use another copy, or train anew.") from problem


def _read(place: Path) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    if not place.is_file():
        raise FileNotFoundError(f"{place} does not exist or is not a file; expected a model written by save().")
    try:
        with safe_open(place, framework="numpy") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
        header = json.loads(metadata[KEY], parse_constant=_refuse)
        if not isinstance(header, dict):
            raise TypeError("the header is not an object")
        return header, tensors
    except KeyError as problem:
        raise ModelFileError(
            f"{place} is a safetensors file but not a streamgmm model: it has no header '{KEY}'."
        ) from problem
    except (SafetensorError, ValueError, TypeError, OSError, RecursionError) as problem:
        raise ModelFileError(
            f"{place} is truncated or not a model: {problem!s:.200}. Use another copy, or train anew."
        ) from problem


def _restore(header: dict[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> TrainingState:
    rows, columns = map(int, header["grid"])
    _require(rows > 0 and columns > 0, f"grid is {rows}×{columns}")
    grid = Grid(rows, columns)
    shape = (grid.size, int(header["n_features"]))
    expected = {"means": shape, "scales": shape, "logits": shape[:1], "wins": shape[:1], "usage": shape[:1]}
    for name, wanted in expected.items():
        found = tensors[name].shape
        _require(found == wanted, f"tensor '{name}' has shape {found}; its header wants {wanted}")
    for name, tensor in tensors.items():
        _require_sound(name, tensor, header["allow_nan"] is True)
    _require((tensors["scales"] > 0).all(), "tensor 'scales' holds values that are not positive")
    schedule, control = Schedule(**header["schedule"]), Annealing(**header["annealing"])
    batch_size, scale_max = int(header["batch_size"]), float(header["scale_max"])
    _require(batch_size > 0 and schedule.period > 0, f"batch size {batch_size} or period {schedule.period}")
    _require(scale_max > 0 and control.sigma > 0 and control.samples >= 0, "scale_max, sigma or samples out of range")
    pending = tensors["pending"]
    fits = pending.ndim == 2 and pending.shape[1] == shape[1] and len(pending) < batch_size
    _require(fits, f"tensor 'pending' has shape {pending.shape}; expected fewer than {batch_size} rows of {shape[1]}")
    shares = tensors["pending_shares"]
    _require(shares.shape == (len(pending),) and (shares > 0).all() and (shares <= 1).all(), "shares out of range")
    bits = np.random.PCG64()
    bits.state = header["rng"]
    state = TrainingState(
        parameters=Parameters(tensors["means"], tensors["scales"], tensors["logits"]),
        grid=grid,
        schedule=schedule,
        annealing=control,
        rule=engines.from_settings(header["rule"]),
        rule_state={name[5:]: aligned_copy(value) for name, value in tensors.items() if name.startswith("rule.")},
        rng=np.random.Generator(bits),
        batch_size=batch_size,
        scale_max=scale_max,
        watch=Watch(**header["watch"]),
        reheats=bool(header["reheats"]),
        allow_nan=bool(header["allow_nan"]),
        skipped=int(header["skipped"]),
        pending=Pending(pending.astype(tensors["means"].dtype), batch_size, shares.astype(np.float64)),
        wins=tensors["wins"].astype(np.int64),
        usage=tensors["usage"].astype(np.float64),
    )
    _require_rule_state(state)
    return state


def _require_rule_state(state: TrainingState) -> None:
    """A rule's state must be of the kind that the rule itself would make."""
    moment = Moment(0, state.annealing.sigma, state.schedule, state.scale_bounds, np.random.default_rng(0))
    fresh = state.rule.start(state.parameters, moment)
    for name, wanted in fresh.items():
        if name in state.rule.varying:
            continue
        found = state.rule_state[name]
        same = found.shape == wanted.shape and found.dtype == wanted.dtype
        _require(same, f"tensor 'rule.{name}' is {found.dtype} {found.shape}; expected {wanted.dtype} {wanted.shape}")


def _require_sound(name: str, tensor: npt.NDArray[Any], allow_nan: bool) -> None:
    gaps = allow_nan and name in ROWS
    sound = tensor.dtype.kind != "f" or not (np.isinf(tensor) if gaps else ~np.isfinite(tensor)).any()
    _require(sound, f"tensor '{name}' holds values that are not finite")


def _require(holds: Any, problem: str) -> None:
    if not holds:
        raise ValueError(problem)


def _plain(value: Any) -> Any:
    """Numbers that come from NumPy, as JSON knows them."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written to a model file")


def _refuse(name: str) -> Any:
    raise ValueError(f"the header holds {name}")


def write_atomically(place: Path, content: bytes) -> None:
    """Puts ``content`` at ``place`` so that a crash at any moment leaves the old file or the new one."""
    name = place.with_name(f".{place.name}.{secrets.token_hex(4)}")
    handle = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, place)
    except BaseException:
        name.unlink(missing_ok=True)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the rename itself must reach the disk; Windows has no such call
        folder = os.open(place.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
