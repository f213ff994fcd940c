"""Dated versions of the model of a run, and the way back to one of them.

A version is a second name of a checkpoint, so it appears and disappears as a whole, and it holds the position in the
source: a run that is rolled back resumes from there as if nothing had happened since.
"""

from __future__ import annotations

import filecmp
import os
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from typing import NamedTuple

from streamgmm.errors import ModelFileError, Remedy, StreamGMMError
from streamgmm.storage.atomic import sync_folder
from streamgmm.storage.model_file import load_model, read_run_facts, save_model
from streamgmm.storage.run_folder import MODEL, PREVIOUS, RunRecord, latest_checkpoint, link

FOLDER = "versions"
SUFFIX = ".safetensors"
FRESH = f".rollback{SUFFIX}"
FORM = "%Y%m%dT%H%M%S.%fZ"
SECOND = 1.0  # versions of the same second count as equally old
DOUBLED = 4.0  # ages of every second version, if each is twice as old as the next


class Version(NamedTuple):
    """A dated version of a model.

    Parameters
    ----------
    name : str
        Its name: the moment of the checkpoint in UTC.
    path : Path
        Its file.
    time : datetime
        The moment of the checkpoint.
    """

    name: str
    path: Path
    time: datetime

    @property
    def samples(self) -> int:
        """Samples that the run had learned."""
        return _samples(self.path)


def versions(folder: Path) -> list[Version]:
    """Return the versions of a run, oldest first; other files in the folder of versions are ignored.

    Parameters
    ----------
    folder : Path
        The run folder.
    """
    found = []
    for path in sorted((folder / FOLDER).glob(f"*{SUFFIX}")):
        name = path.name.removesuffix(SUFFIX)
        try:
            found.append(Version(name, path, datetime.strptime(name, FORM).replace(tzinfo=UTC)))
        except ValueError:
            continue
    return found


def add_version(folder: Path, keep: int, now: datetime | None = None) -> None:
    """Give the present checkpoint a dated name, and remove versions until at most ``keep`` are left.

    Those that are left are the latest and ever older ones, each about twice as old as the next: with a checkpoint every
    minute, 10 versions reach back for 8 hours and 14 for a week.

    Parameters
    ----------
    folder : Path
        The run folder.
    keep : int
        Largest number of versions.
    now : datetime or None, default=None
        The moment of the checkpoint; None for the present.
    """
    place = folder / FOLDER
    place.mkdir(exist_ok=True)
    for torn in place.glob(f".*{SUFFIX}.next"):
        torn.unlink()
    link(folder / MODEL, place / f"{(now or datetime.now(UTC)).strftime(FORM)}{SUFFIX}")
    found = versions(folder)
    while len(found) > keep:
        found.pop(superfluous([v.time.timestamp() for v in found])).path.unlink()
    sync_folder(place)


def superfluous(times: Sequence[float]) -> int:
    """Return the number of the version to remove: the one whose neighbours are closest in age, or else the oldest.

    Parameters
    ----------
    times : sequence of float
        Seconds at which versions were made, oldest first.

    Examples
    --------
    >>> superfluous([0.0, 60.0, 120.0, 180.0])
    1
    >>> superfluous([0.0, 100_000.0, 102_000.0])
    0
    """
    ages = [max(0.0, times[-1] - t) + SECOND for t in times]
    inner = range(1, len(times) - 1)
    closest = min(inner, key=lambda i: ages[i - 1] / ages[i + 1], default=0)
    return closest if closest and ages[closest - 1] / ages[closest + 1] < DOUBLED else 0


def find_version(folder: Path, name: str | None = None) -> Version:
    """Return the version of a name or of its beginning; without a name, the latest with fewer samples than the model.

    Parameters
    ----------
    folder : Path
        The run folder.
    name : str or None, default=None
        Name of the version, or how it begins if only one does.
    """
    found = versions(folder)
    if not found:
        raise StreamGMMError(f"{folder} has no versions of its model.", Remedy.KEEP_VERSIONS)
    if name is None:
        present = _samples(folder / MODEL) if (folder / MODEL).exists() else inf
        if (earlier := next((v for v in reversed(found) if v.samples < present), None)) is not None:
            return earlier
        raise StreamGMMError(f"no version in {folder} is older than the model, with {present:,} samples.")
    matching = [v for v in found if v.name == name] or [v for v in found if v.name.startswith(name)]
    if len(matching) == 1:
        return matching[0]
    reason = "several versions begin" if matching else "no version begins"
    known = ", ".join(v.name for v in (matching or found)[-10:])
    raise StreamGMMError(f"{reason} with {name!r} in {folder}; expected one of {known}.")


def roll_back(folder: Path, version: Version, *, keep_position: bool = False) -> RunRecord:
    """Make a version the model of a run that is locked by the caller; return its record.

    The current model becomes a version itself if it is none, so this can be undone. A kill at any moment leaves the old
    model or the new one.

    Parameters
    ----------
    folder : Path
        The run folder.
    version : Version
        What to return to.
    keep_position : bool, default=False
        Whether the run continues to read where it stands now. Otherwise it reads again what came after the version.
    """
    known = latest_checkpoint(folder)  # also finishes or removes what a kill has left behind
    saved = load_model(version.path)
    if saved.run is None:
        raise ModelFileError(f"{version.path} is not a checkpoint of a run.")
    for torn in folder.glob(f"*{FRESH}*"):
        torn.unlink()
    record, present, fresh = RunRecord.from_facts(saved.run), folder / MODEL, folder / FRESH
    if known is not None and keep_position:
        record = _at_position(record, known[1])
        saved.run = record.facts()
        save_model(fresh, saved)
    else:
        link(version.path, fresh)
    if known is not None and not any(_same(v.path, present) for v in versions(folder)):
        add_version(folder, len(versions(folder)) + 1)
    os.replace(fresh, present)
    sync_folder(folder)
    link(present, folder / PREVIOUS)  # nor shall damage lead back to what was given up
    return record


def _samples(path: Path) -> int:
    return RunRecord.from_facts(read_run_facts(path)).progress.samples


def _same(path: Path, other: Path) -> bool:
    """Return whether two files are the same; some file systems have copies instead of links."""
    return path.samefile(other) or filecmp.cmp(path, other, shallow=False)


def _at_position(record: RunRecord, now: RunRecord) -> RunRecord:
    """Return a record whose run continues at the present position of the source."""
    place = {
        name: getattr(now.progress, name)
        for name in ("epoch", "position", "pass_rows", "n_rows", "counted_rows", "finished", "earlier_samples")
    }
    progress = replace(record.progress, **place)
    return replace(now, progress=progress)
