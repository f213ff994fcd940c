"""Alerts to a file or to standard output, one JSON object per line."""

from __future__ import annotations

import os
import select
from pathlib import Path
from typing import TextIO

from streamgmm.errors import AlertError
from streamgmm.sinks.alerts.target import DeliveryError, Target

PIPE_BYTES = getattr(select, "PIPE_BUF", 512)  # that a pipe takes without blocking, if it can be written to


class StreamTarget(Target):
    """Write alerts to an open stream, and flush it after each batch.

    Parameters
    ----------
    out : TextIO
        Where to write.
    """

    name, key = "standard output", "-"

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def is_ready(self, size: int) -> bool:
        try:
            return size <= PIPE_BYTES and bool(select.select([], [self._out], [], 0)[1])
        except (OSError, ValueError):  # not a file, or not on this system
            return False

    def send(self, lines: list[bytes]) -> None:
        try:
            self._out.write(b"".join(lines).decode("ascii"))
            self._out.flush()
        except BrokenPipeError:
            raise
        except ValueError as problem:  # it is closed
            raise BrokenPipeError(str(problem)) from problem
        except OSError as problem:
            raise DeliveryError(problem.strerror or str(problem)) from problem


class FileTarget(Target):
    """Append alerts to a file. It is opened for each batch, so that other programs may rotate it.

    Parameters
    ----------
    path : Path
        The file. It is created if it does not exist.
    """

    def __init__(self, path: Path) -> None:
        if path.is_dir() or not path.parent.is_dir():
            what = "is a folder" if path.is_dir() else "is in a folder that does not exist"
            raise AlertError(f"the file {path} for alerts {what}; expected a file to append to.")
        self.name, self.key, self.path = str(path), str(path.resolve()), path

    def send(self, lines: list[bytes]) -> None:
        try:
            torn = _is_torn(self.path)
            with self.path.open("ab") as file:
                file.write(b"\n" * torn + b"".join(lines))
                file.flush()
                if self.path.is_file():  # a pipe has no disk
                    os.fsync(file.fileno())
        except OSError as problem:
            raise DeliveryError(problem.strerror or str(problem)) from problem


def _is_torn(path: Path) -> bool:
    """Return whether a crash has cut the last line of a file."""
    if not path.is_file() or path.stat().st_size == 0:
        return False
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1) != b"\n"
