"""Where lines come from: files, gzipped or not, and standard input, which may be silent for long."""

from __future__ import annotations

import gzip
import os
import select
import sys
import zlib
from collections import deque
from itertools import islice
from pathlib import Path
from typing import Any

from streamgmm.streams.base import SourceError

PIECE = 1 << 16


class FileText:
    """Lines of an open file; ``follow`` leaves a last line alone that may still be growing."""

    def __init__(self, path: Path, *, follow: bool) -> None:
        self._name, self._follow = path.name, follow
        self.seekable = path.suffix.lower() != ".gz"
        self._file: Any = (Path.open if self.seekable else gzip.open)(path, "rb")

    def take(self, count: int, wait: bool = True) -> list[bytes]:
        """Up to ``count`` lines; none at the end."""
        try:
            lines = list(islice(self._file, count))
        except (EOFError, OSError, zlib.error) as problem:
            raise SourceError(f"{self._name} is damaged ({problem!s:.100}). Use another copy.") from problem
        if self._follow and self.seekable and lines and not lines[-1].endswith(b"\n"):
            self._file.seek(-len(lines.pop()), os.SEEK_CUR)
        return lines

    def seek(self, byte: int) -> None:
        """Goes to where a line begins; raises if none does."""
        self._file.seek(max(0, byte - 1))
        around = self._file.read(2) if byte else b"\n"
        if not around or (around[:1] != b"\n" and around[1:] not in (b"", b"\r", b"\n")):
            raise SourceError(
                f"{self._name} is not what it was: no line begins at byte {byte}, up to where it was read. "
                "If it was replaced, start a new run, or give it another name to learn all of it."
            )
        self._file.seek(byte)

    def tell(self) -> int:
        return int(self._file.tell()) if self.seekable else 0

    def close(self) -> None:
        self._file.close()


class PipeText:
    """Lines of standard input as they come: whoever waits for the next one can still be stopped.

    ``rows`` counts lines of data that were handed on: what has gone through a pipe does not come again.
    """

    seekable = False

    def __init__(self, *, follow: bool) -> None:
        if sys.stdin is None:
            raise SourceError("there is no standard input; name a file instead of '-'.")
        self._input, self._follow, self.rows = sys.stdin.fileno(), follow, 0
        self._lines: deque[bytes] = deque()
        self._rest = b""

    def peek(self) -> bytes:
        """The first line that is not blank, still to be taken; waits for it."""
        while True:
            for line in self._lines:
                if line.strip():
                    return line
            if not self._read():
                return next((line for line in self._lines if line.strip()), b"")

    def take(self, count: int, wait: bool = True) -> list[bytes]:
        """Up to ``count`` lines that are there; waits for one, unless told otherwise; none at the end."""
        while wait and not self._lines and self._read():
            pass
        while len(self._lines) < count and self._ready() and self._read():
            pass
        return [self._lines.popleft() for _ in range(min(count, len(self._lines)))]

    def _read(self) -> bool:
        """Whether there was more to read; takes no lock, so that a thread that waits here does not keep us alive."""
        data = os.read(self._input, PIECE)
        *whole, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line + b"\n" for line in whole)
        if not data and self._rest and not self._follow:
            self._lines.append(self._rest)
            self._rest = b""
        return bool(data)

    def _ready(self) -> bool:
        try:
            return bool(select.select([self._input], [], [], 0)[0])
        except OSError:  # not on this system, or not for this kind of input
            return False

    def tell(self) -> int:
        return 0

    def close(self) -> None:
        """Nothing: the next one reads on."""
