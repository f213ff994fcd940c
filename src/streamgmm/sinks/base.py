"""What a sink is: a function that writes columns."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy.typing as npt

Columns = dict[str, npt.NDArray[Any]]
"""Arrays of equal length by name: one entry per row."""

Write = Callable[[Columns], None]
"""Append rows. Every call must bring the same columns."""


@contextmanager
def replace_when_complete(path: Path) -> Iterator[Path]:
    """Give a temporary file to write to, which replaces ``path`` at the end; after an error ``path`` is unchanged.

    Parameters
    ----------
    path : Path
        The file to create or overwrite.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield temporary
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
