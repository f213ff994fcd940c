"""The folder of a run: its checkpoint, the one before it, and its events.

A checkpoint holds parameters, state and position in one file, so no row is lost and none is learned twice: after a kill
at any moment, a run resumes from the last checkpoint and ends with the parameters of an uninterrupted one.
"""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from socket import gethostname

try:
    import fcntl
except ImportError:
    fcntl = None  # type: ignore[assignment]

from streamgmm.errors import ModelFileError, StreamGMMError
from streamgmm.storage.event_thinning import cut
from streamgmm.storage.model_file import SavedModel, load_model, save_model
from streamgmm.storage.run_record import Progress, RunRecord

__all__ = [
    "EVENTS",
    "MODEL",
    "PREVIOUS",
    "Progress",
    "RunRecord",
    "latest_checkpoint",
    "link",
    "locked",
    "model_path",
    "reader_name",
    "save_checkpoint",
    "truncate_events",
]

MODEL, PREVIOUS, EVENTS = "model.safetensors", "previous.safetensors", "events.jsonl"


def model_path(path: Path) -> Path:
    """Return the model file of a run folder, or the path itself if it is not a folder."""
    return path / MODEL if path.is_dir() else path


def reader_name(folder: Path) -> str:
    """Return a name under which brokers can remember the reader of a run: the same whenever it is resumed here."""
    return sha256(f"{gethostname()}:{folder.resolve()}".encode(errors="surrogateescape")).hexdigest()[:12]


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Create and lock a run folder; remove it again if it stays empty.

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
                raise StreamGMMError(
                    f"another run is writing to {folder}. Stop it, or choose another folder."
                ) from problem
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


def save_checkpoint(folder: Path, saved: SavedModel, *, rows: bool = True) -> None:
    """Write a checkpoint and keep the previous one; without ``rows`` of the stream, if they are not to be kept."""
    newest, fresh = folder / MODEL, folder / f".{MODEL}.next"
    save_model(fresh, saved, rows=rows)
    if newest.exists():
        link(newest, folder / PREVIOUS)
    os.replace(fresh, newest)


def link(path: Path, other: Path) -> None:
    """Give a file a second name, so that it is never without its first."""
    beside = other.with_name(f".{other.name}.next")
    beside.unlink(missing_ok=True)
    try:
        try:
            os.link(path, beside)
        except OSError:  # some file systems have no hard links
            shutil.copyfile(path, beside)
        os.replace(beside, other)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def latest_checkpoint(folder: Path) -> tuple[SavedModel, RunRecord] | None:
    """Return the newest usable checkpoint of a run, or None if it has none yet; remove what a crash left behind."""
    problems = []
    for torn in (*folder.glob(f"..{MODEL}.next.*"), folder / f".{PREVIOUS}.next"):
        torn.unlink(missing_ok=True)
    for name in (f".{MODEL}.next", MODEL, PREVIOUS):
        path = folder / name
        if not path.exists():
            continue
        try:
            saved = load_model(path)
            if saved.run is None:
                problems.append(f"{name} is a model, but not a checkpoint of a run.")
                continue
            record = RunRecord.from_facts(saved.run)
        except (ModelFileError, KeyError, TypeError) as problem:
            problems.append(f"{name}: {problem!s:.200}")
            continue
        if name.startswith("."):  # killed before it got its name
            os.replace(path, folder / MODEL)
        elif name == PREVIOUS and problems:
            warnings.warn(
                f"the newest checkpoint cannot be used; resuming from the previous one. {problems[-1]}", stacklevel=2
            )
        return saved, record
    if any(not p.startswith(".") for p in problems):
        raise ModelFileError(f"no checkpoint of {folder} can be used. " + " ".join(problems))
    return None


def truncate_events(folder: Path, progress: Progress) -> None:
    """Remove events that were written after the last checkpoint."""
    cut(folder / EVENTS, progress.events, progress.samples)
