"""Transports of text: files, compressed or not, and standard input, which may be silent for a long time."""

from __future__ import annotations

import gzip
import os
import select
import sys
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.fingerprints import require_same
from streamgmm.sources.limits import bounded_lines
from streamgmm.sources.remote import File

PIECE_BYTES = 1 << 16
WAIT_SECONDS = 0.2  # between two questions whether to stop


class TextFile:
    """Lines of a file.

    Parameters
    ----------
    path : File
        The file; a name ending in ``.gz`` is decompressed.
    follow : bool
        Whether the file may still grow. A last line without a line break is then left for later.
    known : list or None, default=None
        Fingerprint of the file to read; raise ``ReplacedError`` if this is another one.
    """

    def __init__(self, path: File, *, follow: bool, known: list[Any] | None = None) -> None:
        self._name, self._follow, self.rows = path.name, follow, 0
        self.seekable = path.suffix.lower() != ".gz"
        self._opened = path.open("rb")
        if known is not None:
            try:
                require_same(self._name, self._opened, known)
            except BaseException:
                self._opened.close()
                raise
        self._file: Any = self._opened if self.seekable else gzip.GzipFile(fileobj=self._opened)
        self._size = path.stat().st_size if isinstance(path, Path) else 0  # others do not change while they are open

    def take(self, count: int, wait: bool = True) -> list[bytes]:
        """Return the next lines; none at the end.

        Parameters
        ----------
        count : int
            How many lines to return at most.
        wait : bool, default=True
            Ignored: a file never waits.
        """
        try:
            plain = self.seekable
            lines = list(islice(self._file, count)) if plain else bounded_lines(self._name, self._file, count)
        except (EOFError, OSError, zlib.error) as problem:
            raise SourceError(f"{self._name} is damaged ({problem!s:.100}).", Remedy.RESTORE_FILE) from problem
        if not lines and self._size and not self._follow and os.fstat(self._opened.fileno()).st_size < self._size:
            raise SourceError(
                f"{self._name} became shorter while it was read: it had {self._size:,} bytes.", Remedy.RESTORE_FILE
            )
        if self._follow and self.seekable and lines and not lines[-1].endswith(b"\n"):
            self._file.seek(-len(lines.pop()), os.SEEK_CUR)
        return lines

    def seek(self, byte: int) -> None:
        """Go to the start of a line; raise ``SourceError`` if no line starts there.

        Parameters
        ----------
        byte : int
            Where the line starts.
        """
        self._file.seek(max(0, byte - 1))
        around = self._file.read(2) if byte else b"\n"
        if not around or (around[:1] != b"\n" and around[1:] not in (b"", b"\r", b"\n")):
            raise SourceError(
                f"{self._name} has changed since it was read: no line starts at byte {byte}, where reading stopped.",
                Remedy.START_NEW_RUN,
            )
        self._file.seek(byte)

    def pieces(self, size: int) -> Iterator[bytes]:
        """Yield the rest of the file in pieces that do not end with lines.

        Parameters
        ----------
        size : int
            Bytes of a piece.
        """
        while piece := self._file.read(size):
            yield piece

    def tell(self) -> int:
        """Return the byte after the last line taken; 0 if the file is compressed."""
        return int(self._file.tell()) if self.seekable else 0

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._opened.close()


class TextPipe:
    """Lines of standard input as they arrive.

    Parameters
    ----------
    follow : bool
        Whether a last line without a line break is dropped instead of returned.

    Attributes
    ----------
    rows : int
        How many rows were read so far; a pipe never delivers them again.
    polls : bool
        Whether ``take`` can be interrupted.
    interrupted : callable
        Asked while nothing arrives; when it returns True, ``take`` does not wait any longer.
    """

    def __init__(self, *, follow: bool) -> None:
        if sys.stdin is None:
            raise SourceError("standard input is closed; expected a file name instead of '-'.")
        self._input, self._follow, self.rows = sys.stdin.fileno(), follow, 0
        self._lines: deque[bytes] = deque()
        self._rest, self._emptied = b"", False  # what follows the last line; whether the last read took everything
        self.interrupted: Callable[[], bool] = lambda: False
        self.polls = _can_wait(self._input)

    def peek(self) -> bytes:
        """Wait for the first line that is not blank, and return it without taking it."""
        while True:
            for line in self._lines:
                if line.strip():
                    return line
            if not self._read():
                return next((line for line in self._lines if line.strip()), b"")

    def take(self, count: int, wait: bool = True) -> list[bytes]:
        """Return the lines that have arrived; none at the end.

        Parameters
        ----------
        count : int
            How many lines to return at most.
        wait : bool, default=True
            Whether to wait for a line if none has arrived.
        """
        self._emptied = False
        while wait and not self._lines and self._arrives() and self._read():
            pass
        while len(self._lines) < count and not self._emptied and self.is_ready() and self._read():
            pass
        return [self._lines.popleft() for _ in range(min(count, len(self._lines)))]

    def _read(self) -> bool:
        """Read what has arrived; return whether there may be more.

        Reads from the descriptor, not from ``sys.stdin``: its lock, held by a waiting thread, would block exit.
        """
        data = os.read(self._input, PIECE_BYTES)
        self._emptied = len(data) < PIECE_BYTES
        *complete, self._rest = (self._rest + data).split(b"\n")
        self._lines.extend(line + b"\n" for line in complete)
        if not data and self._rest and not self._follow:
            self._lines.append(self._rest)
            self._rest = b""
        return bool(data)

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Return whether there is something to read, after so many seconds at most.

        Parameters
        ----------
        seconds : float, default=0.0
            How long to wait for it.
        """
        return self.polls and bool(select.select([self._input], [], [], seconds)[0])

    def has_arrived(self) -> bool:
        """Return whether ``take`` has something to return, or to read."""
        return bool(self._lines) or self.is_ready()

    def _arrives(self) -> bool:
        """Wait until there is something to read, also the end; return False if interrupted before."""
        if not self.polls:
            return True
        while not self.is_ready(WAIT_SECONDS):
            if self.interrupted():
                return False
        return True

    def tell(self) -> int:
        """Return 0: a pipe has no position."""
        return 0


def _can_wait(descriptor: int) -> bool:
    """Return whether this system can wait for a descriptor: Windows waits for sockets only."""
    try:
        select.select([descriptor], [], [], 0)
    except (OSError, ValueError):
        return False
    return True
