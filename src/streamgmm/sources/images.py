"""Folders and zip files of images."""

from __future__ import annotations

import io
import struct
import time
import warnings
import zipfile
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from streamgmm.errors import DataWarning, MissingExtraError, Remedy, SourceError
from streamgmm.sources.base import BadRow, Chunk, Position, ReadOptions, check_position, rows_per_chunk, start_row
from streamgmm.sources.limits import VARIABLE, is_image_bomb, refuse_bomb
from streamgmm.sources.seekable import Blocks, Range, SeekableSource, even_blocks
from streamgmm.storage.schema import optional, text

if TYPE_CHECKING:
    import PIL.Image

SETTLED_SECONDS = 2.0  # a file that has not changed for so long is no longer being written
SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP")  # whatever the name says: Pillow runs Ghostscript for others


class _ImageError(Exception):
    """An image that is not a row."""


class ImageSource(SeekableSource):
    """All images in a folder and its subfolders, or in a zip file, ordered by name.

    Every image is a row of bytes, which count as 0 to 1. All images must have the shape of the first one. While a
    folder is followed, images may be added under later names.

    Parameters
    ----------
    path : Path
        A folder or a zip file.
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    factor = 1 / 255
    finite = True

    def __init__(self, path: Path, options: ReadOptions | None = None) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError as problem:
            raise MissingExtraError("Reading images requires Pillow", "plots") from problem
        options = options or ReadOptions()
        self.name, self._path, self.skip_bad, self._follow = path.name, path, options.skip_bad, options.follow
        self.grows, self._warned = path.is_dir(), False
        self._list: Callable[[], Iterable[str]]
        self._read: Callable[[str], bytes]
        if path.is_dir():
            self._list = lambda: (p.relative_to(path).as_posix() for p in path.rglob("*") if _is_inside(p, path))
            self._read = lambda name: (path / name).read_bytes()
        else:
            try:
                archive = zipfile.ZipFile(path)
            except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as problem:
                raise SourceError(f"{path.name} is not a valid zip file.") from problem
            self._list, self._read = archive.namelist, lambda name: self._expand(archive, name)
        self._names = self._sorted_names()
        if not self._names and not self._follow:
            raise SourceError(f"{path.name} contains no images; expected files ending in {', '.join(SUFFIXES)}.")
        self.shape = self._first_shape()

    def _expand(self, archive: zipfile.ZipFile, name: str) -> bytes:
        member = archive.getinfo(name)
        refuse_bomb(self.name, member)
        return archive.read(member)

    def _first_shape(self) -> tuple[int, ...] | None:
        """Return the shape of the first readable image; None while it is still being written."""
        for name in self._names:
            try:
                return self._image(name).shape
            except _ImageError as problem:
                if self._follow and self._is_fresh(name):
                    return None
                if not self.skip_bad:
                    raise self._error(name, problem) from problem
        if self._follow:
            return None
        raise SourceError(f"none of the {len(self._names)} images of {self.name} can be read.")

    def _error(self, name: str, problem: _ImageError) -> SourceError:
        return SourceError(f"image {name} of {self.name} {problem}.", Remedy.SKIP_BAD_ROWS)

    def _sorted_names(self) -> list[str]:
        return sorted(n for n in self._list() if n.lower().endswith(SUFFIXES) and not _is_hidden(n))

    @property
    def n_rows(self) -> int:
        """Number of images found so far."""
        return len(self._names)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        check_position(start, {}, self.name, {"last": optional(text)})
        row, last = start_row(start), (start or {}).get("last")
        if self._follow:
            self._names = self._sorted_names()
            self.shape = self.shape or self._first_shape()
        if self.shape is None:
            return
        if last is not None:
            self._warn_of_late_names(row, last)
        yield from self._chunks(
            self._names[row if last is None else bisect_right(self._names, last) :], row, self.shape
        )

    def _chunks(self, names: list[str], row: int, shape: tuple[int, ...]) -> Iterator[Chunk]:
        size = rows_per_chunk(int(np.prod(shape)), 1)
        for at in range(0, len(names), size):
            chunk = self._chunk(names[at : at + size], row, shape)
            if chunk.position["row"] > row:
                yield chunk
            if chunk.position["row"] < row + len(names[at : at + size]):
                return  # the next image is still being written
            row = chunk.position["row"]

    def row_bytes(self) -> int:
        return 1 if self.shape is None else int(np.prod(self.shape))

    def blocks(self) -> Blocks:
        return even_blocks(len(self._names), self.row_bytes())

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Chunk]:
        for start, stop in ranges if self.shape is not None else ():
            yield from self._chunks(self._names[start["row"] : stop], start["row"], self.shape or ())

    def end(self, blocks: Blocks) -> Position:
        return {"row": len(self._names), "last": self._names[-1] if self._names else None}

    def verify(self, end: Position) -> None:
        check_position(end, {"last": optional(text)}, self.name)
        row = end["row"]
        if row and (row > len(self._names) or self._names[row - 1] != end["last"]):
            raise SourceError(
                f"the first {row} images of {self.name} are not those that were read before: images were added or "
                "removed among them.",
                Remedy.START_NEW_RUN,
            )

    def _warn_of_late_names(self, row: int, last: str) -> None:
        late = bisect_right(self._names, last) - row
        if late > 0 and not self._warned:
            self._warned = True
            message = f"at least {late} new images of {self.name} are skipped: their names sort before {last}."
            warnings.warn(DataWarning(message, Remedy.PAD_FILE_NAMES), stacklevel=2)

    def _chunk(self, names: list[str], first: int, shape: tuple[int, ...]) -> Chunk:
        """Read images up to one that is still being written."""
        rows, numbers, bad = [], [], []
        for i, name in enumerate(names):
            try:
                image = self._image(name)
                if image.shape != shape:
                    raise _ImageError(f"has shape {image.shape}; the first image has {shape}")
            except _ImageError as problem:
                if self.grows and not (self._path / name).exists():
                    continue  # deleted since the folder was listed
                if self._follow and self._is_fresh(name):
                    names = names[:i]
                    break
                if not self.skip_bad:
                    raise self._error(name, problem) from problem
                bad.append(BadRow(first + i, str(problem)))
                continue
            rows.append(image.ravel())
            numbers.append(i)
        ids = tuple(names[i] for i in numbers)
        values = np.stack(rows) if rows else np.empty((0, int(np.prod(shape))), np.uint8)
        position = {"row": first + len(names), "last": names[-1] if names else None}
        return Chunk(values, first + np.array(numbers, np.int64), position, tuple(bad), ids)

    def _is_fresh(self, name: str) -> bool:
        try:
            return time.time() - (self._path / name).stat().st_mtime < SETTLED_SECONDS
        except OSError:
            return False

    def _image(self, name: str) -> npt.NDArray[np.uint8]:
        from PIL import Image

        try:
            content = self._read(name)
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                deep = image.mode.startswith("I")  # more than 8 bits per pixel
                mode = "L" if deep or image.mode in ("1", "L", "LA") else "RGB"
                _refuse_bomb(image, len(mode), len(content))
                return (np.asarray(image) // 257).astype(np.uint8) if deep else np.asarray(image.convert(mode))
        except (
            OSError,
            ValueError,
            zipfile.BadZipFile,
            zlib.error,
            Image.DecompressionBombError,
            SyntaxError,
            EOFError,
            NotImplementedError,
            RuntimeError,
            struct.error,
        ) as problem:
            if isinstance(problem, SourceError):
                raise
            raise _ImageError(f"cannot be read ({type(problem).__name__})") from problem


def _refuse_bomb(image: PIL.Image.Image, channels: int, stored: int) -> None:
    """Raise ``_ImageError`` for a file that is too small for its image, before memory is taken for the pixels."""
    if is_image_bomb(str(image.format), stored, image.size, channels):
        raise _ImageError(
            f"declares {image.width} x {image.height} pixels in a file of {stored:,} bytes; if that is right, set "
            f"{VARIABLE} to {image.width * image.height * channels} or more"
        )


def _is_inside(path: Path, folder: Path) -> bool:
    """Return whether a path is a file of the folder, not a link that leads out of it."""
    if path.is_symlink() and not path.resolve().is_relative_to(folder.resolve()):
        return False
    return path.is_file()


def _is_hidden(name: str) -> bool:
    """Return whether a file is not the user's: some systems add such files to archives."""
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
