"""Keep the event file of a run small, however long the run.

Checkpoints remember how many bytes of events a run had written. Once some were removed, the first line of the file
says by how much these numbers exceed places in the file, and up to which number events were removed. So a run that
resumes still finds where the events of its checkpoint end.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple

from streamgmm.errors import StreamGMMError
from streamgmm.storage import events
from streamgmm.storage.atomic import remove_torn, write_atomically
from streamgmm.storage.schema import number

MOST_BYTES = 1 << 20  # of an event file; thinning halves it
_HEADING_BYTES = 100
_WHOLE = number(whole=True)


class Thinned(NamedTuple):
    """What the first line of a file says.

    Parameters
    ----------
    removed : int, default=0
        Bytes that are gone, without those of this line.
    until : int, default=0
        All of them were written before the run had written so many.
    """

    removed: int = 0
    until: int = 0

    def line(self) -> bytes:
        """Return this line; its length does not depend on the numbers."""
        text = events.lines([{"v": events.VERSION, "kind": events.THINNED, **self._asdict()}])
        return text.rstrip("\n").ljust(_HEADING_BYTES - 1).encode() + b"\n"


def read_thinned(path: Path) -> Thinned:
    """Return what was removed from an event file; nothing, if the file does not say so or is not there."""
    try:
        with path.open("rb") as file:
            line = file.readline(_HEADING_BYTES)
        facts = json.loads(line)
        found = Thinned(facts["removed"], facts["until"])
        for value in found:
            _WHOLE(value, "thinned")
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return Thinned()
    return found if line == found.line() else Thinned()


def written(path: Path) -> int:
    """Return how many bytes of events a run has written."""
    return path.stat().st_size + read_thinned(path).removed


def cut(path: Path, place: int, samples: int) -> None:
    """Remove the events that were written after a checkpoint.

    Parameters
    ----------
    path : Path
        The event file; nothing happens if it is not there, or shorter.
    place : int
        How many bytes the run had written by then.
    samples : int
        How many samples it had learned. Where events were removed since, later ones are known by their samples.
    """
    if not path.exists():
        return
    remove_torn(path)
    thinned = read_thinned(path)
    end = place - thinned.removed if place else 0
    if path.stat().st_size <= end:
        return
    with path.open("rb") as file:
        if not file.read(5).startswith(b'{"v":'):
            raise StreamGMMError(f"{path} was not written by a run. Choose another folder.")
    if place >= thinned.until or not place:
        os.truncate(path, end)
    else:
        lines = path.read_bytes().splitlines(keepends=True)[1:]
        _write(path, place, b"".join(line for line in lines if _facts(line)[1] <= samples), b"")


def thin(path: Path, place: int, most: int) -> int:
    """Remove old events until at most half of ``most`` bytes are left; return how many are.

    Every second event goes of the kind that takes most bytes, and so on. So rare events stay, and the first and the
    latest of every kind.

    Parameters
    ----------
    path : Path
        The event file.
    place : int
        Events stay that were written after so many bytes.
    most : int
        Largest size in bytes that the file may have.
    """
    content, thinned = path.read_bytes(), read_thinned(path)
    begin, end = 0 if thinned == Thinned() else _HEADING_BYTES, min(place - thinned.removed, len(content))
    if end <= begin:
        return len(content)
    old = content[begin:end].splitlines(keepends=True)
    kept = b"".join(_halved(old, most // 2 - (len(content) - end)))
    return _write(path, end + thinned.removed, kept, content[end:])


def _write(path: Path, until: int, kept: bytes, rest: bytes) -> int:
    heading = Thinned(until - _HEADING_BYTES - len(kept), until).line()
    write_atomically(path, heading + kept + rest)
    return len(heading) + len(kept) + len(rest)


def _halved(lines: list[bytes], most: int) -> list[bytes]:
    """Return some of the lines, in their order."""
    kinds: dict[str, list[int]] = defaultdict(list)
    sizes: dict[str, int] = defaultdict(int)
    for index, line in enumerate(lines):
        kind = _facts(line)[0]
        kinds[kind].append(index)
        sizes[kind] += len(line)
    while sum(sizes.values()) > most and sizes:
        kind = max(sizes, key=lambda name: sizes[name])
        first, *others = kinds[kind]
        if len(others) < 2:
            del sizes[kind]  # nothing of this kind can go
            continue
        kinds[kind] = [first, *others[::-1][::2][::-1]]
        sizes[kind] = sum(len(lines[index]) for index in kinds[kind])
    return [lines[index] for index in sorted(index for kept in kinds.values() for index in kept)]


def _facts(line: bytes) -> tuple[str, int]:
    """Return the kind of an event and its samples; a line that is no event counts as one without a kind."""
    event = events.parse(line)
    samples = None if event is None else event.get("samples")
    return "" if event is None else str(event.get("kind")), samples if isinstance(samples, int) else 0
