"""Limits on what a small file may expand to."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
from itertools import islice
from typing import Any

from streamgmm.errors import SourceError

VARIABLE = "STREAMGMM_MOST_BYTES"
MOST_BYTES = 1 << 28
SUSPICIOUS = 100  # times its compressed size: pictures and numbers do not compress so well


def most_bytes() -> int:
    """Return how much one line or one member of a compressed file may expand to: 256 MB, or what the user has set.

    >>> most_bytes()
    268435456
    """
    text = os.environ.get(VARIABLE, "")
    if text and not text.isdecimal():
        raise SourceError(f"{VARIABLE} is {text!r}; expected a number of bytes.")
    return int(text) if text else MOST_BYTES


def refuse_bomb(name: str, member: zipfile.ZipInfo) -> None:
    """Raise ``SourceError`` for a member of a zip file that expands suspiciously.

    Parameters
    ----------
    name : str
        Name of the file, for the message.
    member : ZipInfo
        What the file says about its member.
    """
    refuse_expansion(f"{member.filename} of {name}", member.compress_size, member.file_size)


def refuse_expansion(name: str, stored: int, expanded: int) -> None:
    """Raise ``SourceError`` for data that expand suspiciously.

    Parameters
    ----------
    name : str
        What they are, for the message.
    stored, expanded : int
        Bytes that they take in their file, and in memory.

    Examples
    --------
    >>> refuse_expansion("x of a.zip", 10_000, 20_000)
    """
    if expanded > most_bytes() and expanded > SUSPICIOUS * stored:
        raise SourceError(
            f"{name} would expand from {stored:,} to {expanded:,} bytes. "
            f"If that is right, set {VARIABLE} to a larger number."
        )


def bounded_lines(name: str, file: Any, count: int) -> list[bytes]:
    """Return the next lines of a compressed text; raise ``SourceError`` for one that is too long.

    Parameters
    ----------
    name : str
        Name of the file, for the message.
    file : file
        The text.
    count : int
        How many lines to return at most.
    """
    most = most_bytes()

    def lines() -> Iterator[bytes]:
        while line := file.readline(most + 1):
            if len(line) > most:
                raise SourceError(f"{name} has a line of more than {most:,} bytes. If that is right, raise {VARIABLE}.")
            yield line

    return list(islice(lines(), count))
