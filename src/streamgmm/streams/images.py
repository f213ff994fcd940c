"""Folders and zip files of images: every image is a row of bytes, which count times 1/255."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError, first_row, rows_per_chunk

LEAVE_OUT = "Leave such images out: --bad-rows skip."
ENDINGS = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")


class Images(Source):
    """All images below a folder, or in a zip file, in the order of their names; all must have the first one's shape."""

    factor = 1 / 255

    def __init__(self, path: Path, *, skip_bad: bool = False) -> None:
        try:
            import PIL  # noqa: F401
        except ImportError as problem:
            raise ImportError("reading images needs Pillow: pip install 'streamgmm[plots]'") from problem
        self.name, self._path, self._skip_bad = path.name, path, skip_bad
        self._read: Callable[[str], bytes]
        if path.is_dir():
            names = [p.relative_to(path).as_posix() for p in path.rglob("*") if p.is_file()]
            self._read = lambda name: (path / name).read_bytes()
        else:
            try:
                archive = zipfile.ZipFile(path)
            except zipfile.BadZipFile as problem:
                raise SourceError(f"{path.name} is not a whole zip file.") from problem
            names, self._read = archive.namelist(), archive.read
        self._names = sorted(n for n in names if n.lower().endswith(ENDINGS) and not _hidden(n))
        if not self._names:
            raise SourceError(f"{path.name} holds no images; expected files that end in {', '.join(ENDINGS)}.")
        self.shape = self._first_shape()

    def _first_shape(self) -> tuple[int, ...]:
        """Shape of the first image, or, if bad ones may be left out, of the first that can be read."""
        for name in self._names:
            try:
                return self._image(name).shape
            except ValueError as problem:
                if not self._skip_bad:
                    raise SourceError(f"image {name} of {self.name} {problem}. {LEAVE_OUT}") from problem
        raise SourceError(f"none of the {len(self._names)} images of {self.name} can be read.")

    @property
    def n_rows(self) -> int:
        return len(self._names)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        size = rows_per_chunk(int(np.prod(self.shape)), 1)
        for at in range(first_row(start), len(self._names), size):
            stop = min(at + size, len(self._names))
            rows, numbers, bad = [], [], []
            for i in range(at, stop):
                try:
                    image = self._image(self._names[i])
                    if image.shape != self.shape:
                        raise ValueError(f"has shape {image.shape}; the first image has {self.shape}")
                except ValueError as problem:
                    if not self._skip_bad:
                        raise SourceError(f"image {self._names[i]} of {self.name} {problem}. {LEAVE_OUT}") from problem
                    bad.append(Bad(i, str(problem)))
                    continue
                rows.append(image.ravel())
                numbers.append(i)
            ids = tuple(self._names[i] for i in numbers)
            values = np.stack(rows) if rows else np.empty((0, int(np.prod(self.shape))), np.uint8)
            yield Chunk(values, np.array(numbers, np.int64), {"row": stop}, tuple(bad), ids)

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
