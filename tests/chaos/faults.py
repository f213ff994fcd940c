"""A disk that fails: every operation on files below a folder is counted, and one of them raises an error."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

WRITING = set("wax+")


class Disk:
    """Operations on files below a folder, one of which fails.

    Parameters
    ----------
    folder : Path
        Files elsewhere never fail.
    kinds : set of str
        Operations that count: ``write``, ``open``, ``create``, ``fsync``, ``replace``, ``link``, ``truncate``.
    number : errno
        The error.
    at : int or None
        Which of these operations fails, and all after it if ``lasting``; None only counts them.
    """

    def __init__(
        self, folder: Path, kinds: set[str], number: int, at: int | None = None, lasting: bool = False
    ) -> None:
        self.folder, self.kinds, self.number, self.at, self.lasting = str(folder.resolve()), kinds, number, at, lasting
        self.count = 0

    def step(self, kind: str, *paths: Any) -> None:
        """Count an operation; raise if it is the one."""
        if kind not in self.kinds or not any(self._is_below(path) for path in paths):
            return
        here, self.count = self.count, self.count + 1
        if self.at is not None and (here == self.at or (self.lasting and here > self.at)):
            raise OSError(self.number, os.strerror(self.number), str(paths[0]))

    def _is_below(self, path: Any) -> bool:
        if isinstance(path, int):
            try:
                path = Path(f"/proc/self/fd/{path}").readlink()
            except OSError:
                return False
        return str(Path(os.fspath(path)).absolute()).startswith(self.folder)


class _File:
    """A file whose writes may fail; half of what is written arrives before they do, as on a full disk."""

    def __init__(self, file: Any, disk: Disk, path: Any) -> None:
        self._file, self._disk, self._path = file, disk, path

    def write(self, data: Any) -> Any:
        try:
            self._disk.step("write", self._path)
        except OSError:
            self._file.write(data[: len(data) // 2])
            raise
        return self._file.write(data)

    def truncate(self, *size: int) -> Any:
        self._disk.step("truncate", self._path)
        return self._file.truncate(*size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def __enter__(self) -> _File:
        self._file.__enter__()
        return self

    def __exit__(self, *problem: Any) -> Any:
        return self._file.__exit__(*problem)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._file)


@contextmanager
def failing(disk: Disk) -> Iterator[Disk]:
    """Let a disk fail while the block runs."""
    real = io.open

    def open_file(path: Any, mode: str = "r", *args: Any, **settings: Any) -> Any:
        writes = bool(WRITING & set(mode))
        if not isinstance(path, int):
            disk.step("open", path)
            if writes:
                disk.step("create", path)
        file = real(path, mode, *args, **settings)
        return _File(file, disk, path) if writes and disk._is_below(path) else file

    with (
        patch("io.open", open_file),
        patch("os.open", _stepping(disk, os.open, ("open",))),
        patch("os.fsync", _stepping(disk, os.fsync, ("fsync",))),
        patch("os.replace", _stepping(disk, os.replace, ("replace",), 2)),
        patch("os.link", _stepping(disk, os.link, ("link",), 2)),
        patch("os.truncate", _stepping(disk, os.truncate, ("truncate",))),
    ):
        yield disk


def _stepping(disk: Disk, real: Callable[..., Any], kinds: tuple[str, ...], paths: int = 1) -> Callable[..., Any]:
    def call(*args: Any, **settings: Any) -> Any:
        for kind in kinds:
            disk.step(kind, *args[:paths])
        if real is os.open and args[1] & (os.O_CREAT | os.O_WRONLY):
            disk.step("create", args[0])
        return real(*args, **settings)

    call.__wrapped__ = real  # type: ignore[attr-defined]
    return call


FAULTS: dict[str, tuple[set[str], int]] = {
    "disk full": ({"write", "create"}, errno.ENOSPC),
    "file cannot be synced": ({"fsync"}, errno.EIO),
    "file cannot be renamed": ({"replace"}, errno.EIO),
    "file cannot be linked": ({"link"}, errno.EMLINK),
    "file cannot be shortened": ({"truncate"}, errno.EIO),
    "too many open files": ({"open"}, errno.EMFILE),
    "read-only folder": ({"write", "create", "replace", "link", "truncate"}, errno.EROFS),
}
"""Kinds of operations that fail, and the error."""
