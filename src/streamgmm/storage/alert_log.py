"""The alerts of a run in a file, so that a target that is down loses none of them.

The first line of the file says how many bytes of earlier alerts are gone; then follows one JSON object per line. Places
in the log count bytes of alerts since the run began, so they stay valid when old alerts are removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import deque
from pathlib import Path
from threading import Condition

from streamgmm.errors import StreamGMMError
from streamgmm.storage.atomic import remove_torn, sync_folder, write_atomically
from streamgmm.storage.schema import COUNT, anything, record

ALERTS = "alerts.ndjson"
KEPT = 10_000  # delivered alerts that stay in the file, for people
BATCH_BYTES = 1 << 18  # read at once, so that memory is bounded however many alerts wait
HEADING = record({"v": anything, "removed": COUNT}, unknown=anything)
_HEADING = b'{"v": 1, "removed": %d}\n'


class AlertLog:
    """Append alerts, and read those that wait. Methods may be called by several threads.

    Parameters
    ----------
    folder : Path
        The run folder.
    length : int or None, default=None
        What ``sync`` returned for the checkpoint that the run resumes from: later alerts are removed, because the run
        is about to find them again. None keeps every complete line.
    kept : int, default=10_000
        How many alerts stay at least when ``release`` removes old ones.

    Attributes
    ----------
    length : int
        Bytes of alerts since the run began.
    """

    def __init__(self, folder: Path, length: int | None = None, kept: int = KEPT) -> None:
        self.path = folder / ALERTS
        self._changed = Condition()
        self._safe = deque([0, 0], maxlen=2)  # lengths at the latest checkpoints
        self._starts: deque[int] = deque(maxlen=kept)  # of the alerts that stay
        self.length = self._removed = self._heading = 0
        remove_torn(self.path)
        if not self.path.exists():
            write_atomically(self.path, _HEADING % (length or 0))
        self._open()
        try:
            self._truncate(length)
        except BaseException:
            self._file.close()
            raise

    def _open(self) -> None:
        self._file = self.path.open("r+b")
        heading = self._file.readline(100)
        try:
            facts = json.loads(heading)
            HEADING(facts, "the first line")
            version, self._removed = facts["v"], facts["removed"]
        except ValueError as problem:
            self._file.close()
            raise StreamGMMError(f"{self.path} was not written by a run. Choose another folder.") from problem
        if version != 1:
            self._file.close()
            raise StreamGMMError(f"{self.path} has version {version!r}; expected 1. Update streamgmm.")
        self._heading = len(heading)

    def _truncate(self, length: int | None) -> None:
        """Remove an incomplete last line, and what is beyond a length."""
        end = self._removed
        for line in self._file:
            after = end + len(line)
            if not line.endswith(b"\n") or (length is not None and after > length):
                break
            self._starts.append(end)
            end = after
        self.length = end
        if length is not None and length != end:  # the file is lost, or older than its checkpoint: begin there
            self._file.close()
            write_atomically(self.path, _HEADING % length)
            self._starts.clear()
            self._open()
            self.length = length
        self._file.truncate(self._heading + self.length - self._removed)

    @property
    def first(self) -> int:
        """Where the oldest alert in the file begins."""
        return self._removed

    def append(self, lines: list[bytes]) -> None:
        """Append alerts, one line each; ``wake`` those who wait for them.

        They survive a kill at once, and a power failure after the next ``sync``.
        """
        with self._changed:
            self._file.seek(self._heading + self.length - self._removed)
            self._file.write(b"".join(lines))
            self._file.flush()
            for line in lines:
                self._starts.append(self.length)
                self.length += len(line)

    def sync(self) -> int:
        """Make all alerts reach the disk; return the length, which belongs into the checkpoint."""
        with self._changed:
            os.fsync(self._file.fileno())
            return self.length

    def read(self, place: int, most: int) -> list[bytes]:
        """Return at most ``most`` lines from a place on, and at most about 256 KB of them."""
        lines, size = list[bytes](), 0
        with self._changed:
            self._file.seek(self._heading + place - self._removed)
            while len(lines) < most and size < BATCH_BYTES and place + size < self.length:
                line = self._file.readline()
                if not line:
                    raise OSError(f"{self.path.name} was changed by another program")
                lines.append(line)
                size += len(line)
        return lines

    def count(self, place: int) -> int:
        """Return how many alerts there are from a place on."""
        with self._changed:
            if self._starts and place >= self._starts[0]:
                return sum(start >= place for start in self._starts)
            self._file.seek(self._heading + place - self._removed)
            return sum(1 for _ in self._file)

    def wait(self, place: int, seconds: float | None = None) -> bool:
        """Wait until there are alerts beyond a place, or ``wake`` is called; return whether there are."""
        with self._changed:
            if self.length <= place:
                self._changed.wait(seconds)
            return self.length > place

    def wake(self) -> None:
        """Let everyone who waits look again."""
        with self._changed:
            self._changed.notify_all()

    def release(self, length: int, delivered: int) -> None:
        """Remove old alerts, if they are more than half of the file.

        Parameters
        ----------
        length : int
            What ``sync`` returned for a checkpoint that is safe now. Alerts since the checkpoint before it stay.
        delivered : int
            Up to where every target has the alerts.
        """
        with self._changed:
            self._safe.append(length)
            if len(self._starts) < (self._starts.maxlen or 0):
                return
            first = min(self._starts[0], self._safe[0], delivered)
            if first - self._removed > self.length - first:
                self._remove(first)

    def _remove(self, first: int) -> None:
        beside = self.path.with_name(f".{self.path.name}.next")  # removed at the next start after a crash
        self._file.seek(self._heading + first - self._removed)
        with beside.open("wb") as file:
            file.write(_HEADING % first)
            shutil.copyfileobj(self._file, file)
            file.flush()
            os.fsync(file.fileno())
        self._file.close()
        os.replace(beside, self.path)
        sync_folder(self.path.parent)
        self._open()

    def close(self) -> None:
        """Close the file."""
        with self._changed:
            self._file.close()
