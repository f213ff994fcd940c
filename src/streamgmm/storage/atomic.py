"""Writes that a crash cannot tear."""

from __future__ import annotations

import os
import secrets
from glob import escape
from pathlib import Path


def write_atomically(path: Path, content: bytes) -> None:
    """Write ``content`` so that a crash at any moment leaves the old file or the new one, never half of one."""
    beside = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    handle = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def remove_torn(path: Path) -> None:
    """Remove what crashes left beside a file that is written atomically; nobody may be writing it."""
    for torn in path.parent.glob(f".{escape(path.name)}.*"):
        torn.unlink(missing_ok=True)


def sync_folder(folder: Path) -> None:
    """Make renames in a folder reach the disk; Windows has no such call."""
    if hasattr(os, "O_DIRECTORY"):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
