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
PIXELS_PER_BYTE = {
    "PNG": 8 * 1032,  # one bit per pixel; DEFLATE stores at most 1032 bytes in one
    "GIF": 2560,  # one code of 12 bits for 3839 pixels
    "JPEG": 512,  # one bit for a block of 64
    "MPO": 512,  # JPEG files with a second image
    "BMP": 128,  # two bytes for a run of 255
    "WEBP": 25_000,  # as libwebp writes images of one colour; the format itself knows no limit
}
"""The most pixels that a byte of an image file may stand for."""


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


def is_image_bomb(form: str, stored: int, size: tuple[int, int], channels: int) -> bool:
    """Return whether an image has more pixels than its file can hold, or suspiciously many.

    Parameters
    ----------
    form : str
        Format of the file, as Pillow calls it.
    stored : int
        Bytes of the file.
    size : tuple of int
        Width and height that the file declares.
    channels : int
        Bytes of a pixel.

    Examples
    --------
    >>> is_image_bomb("BMP", 150, (65_000, 500), 3), is_image_bomb("PNG", 2_022, (4_000, 4_000), 1)
    (True, False)
    """
    pixels = size[0] * size[1]
    if pixels > PIXELS_PER_BYTE[form] * stored:
        return not os.environ.get(VARIABLE) or channels * pixels > most_bytes()
    return channels * pixels > max(most_bytes(), SUSPICIOUS * stored)


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
