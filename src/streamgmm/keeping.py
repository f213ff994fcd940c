"""What a run keeps in its folder: checkpoints with the place in its source, and events.

The checkpoint holds parameters, state and position in one file, so no sample is lost and none is learned twice: after
a kill at any moment, the run goes on from the last checkpoint and ends with the parameters of an uninterrupted one.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

from streamgmm import files
from streamgmm.checkpoint import ModelFileError
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.recent import Recent
from streamgmm.scaling import Scaling
from streamgmm.streams.base import Position, Source, begins_alike

MODEL, PREVIOUS, EVENTS = "model.safetensors", "previous.safetensors", "events.jsonl"


@dataclass
class Place:
    """Where a run stands in its source, as the checkpoint knows it."""

    epoch: int = 0
    position: Position | None = None
    samples: int = 0
    looked: int = 0  # samples up to which a share was scored
    told: int = 0  # samples at the last check that became an event
    told_checkpoint: int = 0  # and at the last checkpoint that did
    bad: int = 0
    missing: int = 0  # rows left out because numbers were missing
    seconds: float = 0.0
    events: int = 0
    finished: bool = False


class Kept(NamedTuple):
    """What a run's model file holds beside the model."""

    model: StreamingGaussianMixture
    facts: dict[str, Any]
    scaling: Scaling | None
    recent: Recent


def save(folder: Path, kept: Kept, place: Place) -> None:
    """One checkpoint; the one before it is kept."""
    newest, fresh = folder / MODEL, folder / f".{MODEL}.next"
    scaling = kept.scaling
    scaled = {} if scaling is None else {"shift": scaling.shift, "factor": scaling.factor}
    files.save(kept.model, fresh, {"run": vars(place), **kept.facts}, {**kept.recent.arrays(), **scaled})
    if newest.exists():
        _also_as(newest, folder / PREVIOUS)
    os.replace(fresh, newest)


def _also_as(path: Path, other: Path) -> None:
    """Gives a file a second name, so that it is never without its first."""
    beside = other.with_name(f".{other.name}.next")
    beside.unlink(missing_ok=True)
    try:
        os.link(path, beside)
    except OSError:  # some file systems know no second names
        shutil.copyfile(path, beside)
    os.replace(beside, other)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Makes a folder, and sure that nobody else learns into it meanwhile; one that stays empty is not left behind.

    The lock ends with the process, however that ends. Windows has no such lock.
    """
    fresh = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as after:
        if fresh:
            after.callback(_remove_if_empty, folder)
        if fcntl:
            handle = os.open(folder, os.O_RDONLY)
            after.callback(os.close, handle)
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as problem:
                raise ValueError(
                    f"another run is learning into {folder}. Stop it, or choose another folder."
                ) from problem
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def open_model(path: Path) -> Kept:
    """A model file with all that a run has put into it; a file that an estimator has saved holds the model alone."""
    model, facts, arrays = files.load(StreamingGaussianMixture, path)
    try:
        shape = (model.n_features_in_,)
        scale = facts.get("scale", "none")
        scaling = None if scale == "none" else Scaling(scale, arrays["shift"], arrays["factor"])
        if scaling is not None and not scaling.shift.shape == scaling.factor.shape == shape:
            raise ValueError(f"the scaling has shape {scaling.shift.shape}; expected {shape}")
        recent = Recent.from_arrays(arrays) if "scores" in arrays else Recent()
    except (KeyError, ValueError) as problem:
        raise ModelFileError(f"{path} is damaged: {problem!s:.200}. Use another copy, or train anew.") from problem
    return Kept(model, facts, scaling, recent)


def resume(folder: Path) -> tuple[Kept, Place] | None:
    """The newest whole checkpoint of a run, or None if it has none yet."""
    problems = []
    for torn in folder.glob(f"..{MODEL}.next.*"):  # by a kill in the middle of a checkpoint
        torn.unlink(missing_ok=True)
    for name in (f".{MODEL}.next", MODEL, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            kept = open_model(path)
            place = Place(**kept.facts["run"])
        except KeyError:
            problems.append(f"{name} is a model, but no checkpoint of a run.")
            continue
        except (ModelFileError, TypeError) as problem:
            problems.append(f"{name}: {problem!s:.200}")
            continue
        if name.startswith("."):  # killed before it got its name
            os.replace(path, folder / MODEL)
        elif name == PREVIOUS and problems:
            warnings.warn(
                f"the newest checkpoint cannot be used, so the one before it is. {problems[-1]}", stacklevel=2
            )
        return kept, place
    if any(not p.startswith(".") for p in problems):
        raise ModelFileError(f"no checkpoint of {folder} can be used. " + " ".join(problems))
    return None


def take_back_events(folder: Path, place: Place) -> None:
    """Cuts off events that were written after the last checkpoint."""
    path = folder / EVENTS
    if not path.exists() or path.stat().st_size <= place.events:
        return
    with path.open("rb") as file:
        if not file.read(5).startswith(b'{"v":'):
            raise ValueError(f"{path} is not what a run has written. Choose another folder.")
    os.truncate(path, place.events)


def same_source(facts: dict[str, Any], source: Source) -> bool:
    """Whether a run has read this source before: one of that name that begins alike."""
    known = facts.get("beginning")
    alike = known is None or source.path is None or begins_alike(source.path, known)
    return bool(facts["source"] == source.name and alike)


def feature_names(model: StreamingGaussianMixture) -> list[str] | None:
    """Names of the features that a model has learned, if they have any."""
    names = getattr(model, "feature_names_in_", None)
    return None if names is None else [str(n) for n in names]
