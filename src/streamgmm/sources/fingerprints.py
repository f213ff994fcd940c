"""Fingerprints of files: how to tell a file that has grown from one that was replaced."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from streamgmm.errors import Remedy, SourceError

FINGERPRINT_BYTES = 1 << 16


class ReplacedError(SourceError):
    """A file that is another one than before, though it has the same name."""


def fingerprint(path: Path, size: int = FINGERPRINT_BYTES) -> list[Any]:
    """Return the number of bytes hashed and their SHA-256, as JSON.

    Parameters
    ----------
    path : Path
        The file.
    size : int, default=65536
        How many bytes to hash, from the start of the file; fewer if it is shorter.
    """
    with path.open("rb") as file:
        head = file.read(size)
    return [len(head), sha256(head).hexdigest()]


def has_fingerprint(path: Path, known: Sequence[Any]) -> bool:
    """Return whether a file still starts with the bytes of a fingerprint. Appending to a file does not change that.

    Parameters
    ----------
    path : Path
        The file.
    known : sequence
        A fingerprint taken earlier.
    """
    return fingerprint(path, known[0]) == list(known)


def require_same(name: str, file: BinaryIO, known: Sequence[Any]) -> None:
    """Raise ``ReplacedError`` unless an open file starts with the bytes of a fingerprint; go back to its start.

    Parameters
    ----------
    name : str
        Name of the file.
    file : binary file
        The file, at its start.
    known : sequence
        A fingerprint taken earlier.
    """
    head = file.read(known[0])
    file.seek(0)
    if [len(head), sha256(head).hexdigest()] != list(known):
        raise ReplacedError(f"{name} was replaced by another file.", Remedy.START_NEW_RUN)
