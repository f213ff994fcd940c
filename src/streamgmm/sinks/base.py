"""What a sink is: a function that writes columns."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

from streamgmm.storage.atomic import sync_folder

Columns = dict[str, npt.NDArray[Any]]
"""Arrays of equal length by name: one entry per row."""

_HALVES = re.compile("[\ud800-\udfff]")

Write = Callable[[Columns], None]
"""Append rows. Every call must bring the same columns."""


def writable(text: str) -> str:
    """Replace halves of characters, which UTF-8 does not have: ids from JSON and names of files may hold some.

    Parameters
    ----------
    text : str
        A text from outside.

    Examples
    --------
    >>> writable("café \\ud83d")
    'café �'
    """
    return text if text.isascii() else _HALVES.sub("�", text)


@contextmanager
def replace_when_complete(path: Path) -> Iterator[Path]:
    """Give a temporary file to write to, which replaces ``path`` at the end; after an error ``path`` is unchanged.

    Parameters
    ----------
    path : Path
        The file to create or overwrite.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    try:
        yield temporary
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)
