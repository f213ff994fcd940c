"""Folders and zip files of images: every image is a row of bytes, which count times 1/255."""

from __future__ import annotations

import io
import time
import warnings
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError, first_row, rows_per_chunk

SETTLED = 2.0  # seconds after which nobody writes to an image any more
LEAVE_OUT = "Leave such images out: --bad-rows skip."
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


class Images(Source):
    """All images below a folder, or in a zip file, in the order of their names; all must have the first one's shape.

    A folder may get more images, with later names, while it is followed.
    """

    factor = 1 / 255

    def __init__(self, path: Path, *, skip_bad: bool = False, follow: bool = False) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError as problem:
            raise ImportError("reading images needs Pillow: pip install 'streamgmm[plots]'") from problem
        self.name, self._path, self.skip_bad, self._follow = path.name, path, skip_bad, follow
        self.grows, self._warned = path.is_dir(), False
        self._list: Callable[[], Iterable[str]]
        self._read: Callable[[str], bytes]
        if path.is_dir():
            self._list = lambda: (p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file())
            self._read = lambda name: (path / name).read_bytes()
        else:
            try:
                archive = zipfile.ZipFile(path)
            except zipfile.BadZipFile as problem:
                raise SourceError(f"{path.name} is not a whole zip file.") from problem
            self._list, self._read = archive.namelist, archive.read
        self._names = self._all_names()
        if not self._names and not follow:
            raise SourceError(f"{path.name} holds no images; expected files that end in {', '.join(ENDINGS)}.")
        self.shape = self._first_shape()

    def _first_shape(self) -> tuple[int, ...] | None:
        """Shape of the first image that can be read; None while it is still being written."""
        for name in self._names:
            try:
                return self._image(name).shape
            except ValueError as problem:
                if self._follow and self._is_fresh(name):
                    return None
                if not self.skip_bad:
                    raise SourceError(f"image {name} of {self.name} {problem}. {LEAVE_OUT}") from problem
        if self._follow:
            return None
        raise SourceError(f"none of the {len(self._names)} images of {self.name} can be read.")

    def _all_names(self) -> list[str]:
        return sorted(n for n in self._list() if n.lower().endswith(ENDINGS) and not _hidden(n))

    @property
    def n_rows(self) -> int:
        return len(self._names)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        row, last = first_row(start), (start or {}).get("last")
        if self._follow:
            self._names = self._all_names()
            self.shape = self.shape or self._first_shape()
        if self.shape is None:
            return
        if last is not None and not self._warned and (early := bisect_right(self._names, last) - row) > 0:
            self._warned = True
            warnings.warn(
                f"at least {early} images of {self.name} came with names before {last}, up to which it was read; they "
                "are not learned. Number images with leading zeros.",
                UserWarning,
                stacklevel=2,
            )
        names = self._names[row if last is None else bisect_right(self._names, last) :]
        size = rows_per_chunk(int(np.prod(self.shape)), 1)
        for at in range(0, len(names), size):
            chunk = self._chunk(names[at : at + size], row, self.shape)
            if chunk.position["row"] > row:
                yield chunk
            if chunk.position["row"] < row + len(names[at : at + size]):
                return  # the next image is still being written
            row = chunk.position["row"]

    def _chunk(self, names: list[str], first: int, shape: tuple[int, ...]) -> Chunk:
        """These images, or those before one that is not whole yet."""
        rows, numbers, bad = [], [], []
        for i, name in enumerate(names):
            try:
                image = self._image(name)
                if image.shape != shape:
                    raise ValueError(f"has shape {image.shape}; the first image has {shape}")
            except ValueError as problem:
                if self.grows and not (self._path / name).exists():
                    continue  # deleted since we looked
                if self._follow and self._is_fresh(name):
                    names = names[:i]
                    break
                if not self.skip_bad:
                    raise SourceError(f"image {name} of {self.name} {problem}. {LEAVE_OUT}") from problem
                bad.append(Bad(first + i, str(problem)))
                continue
            rows.append(image.ravel())
            numbers.append(i)
        ids = tuple(names[i] for i in numbers)
        values = np.stack(rows) if rows else np.empty((0, int(np.prod(shape))), np.uint8)
        position = {"row": first + len(names), "last": names[-1] if names else None}
        return Chunk(values, first + np.array(numbers, np.int64), position, tuple(bad), ids)

    def _is_fresh(self, name: str) -> bool:
        try:
            return time.time() - (self._path / name).stat().st_mtime < SETTLED
        except OSError:
            return False

    def _image(self, name: str) -> npt.NDArray[np.uint8]:
        from PIL import Image

        try:
            with Image.open(io.BytesIO(self._read(name))) as image:
                if image.mode.startswith("I;16") or image.mode == "I":
                    return (np.asarray(image) / 257).astype(np.uint8)
                return np.asarray(image.convert("L" if image.mode in ("1", "L", "LA") else "RGB"))
        except (OSError, zipfile.BadZipFile, zlib.error, Image.DecompressionBombError, SyntaxError) as problem:
            raise ValueError(f"cannot be read ({type(problem).__name__})") from problem


def _hidden(name: str) -> bool:
    """Files that archives of some systems hold beside the real ones."""
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
