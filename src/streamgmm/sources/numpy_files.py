"""NumPy files: ``.npy`` is memory-mapped, ``.npz`` is loaded."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import Chunk, Position, rows_per_chunk, start_row
from streamgmm.sources.limits import refuse_bomb
from streamgmm.sources.remote import File, RemoteFile
from streamgmm.sources.seekable import Blocks, Range, SeekableSource, even_blocks


class ArraySource(SeekableSource):
    """Rows of an array.

    Parameters
    ----------
    name : str
        What to call it in messages.
    values : ndarray of shape (n, ...)
        The rows. Further axes are flattened, so that images become rows of pixels.

    Examples
    --------
    >>> source = ArraySource("x", np.arange(6).reshape(3, 2))
    >>> [chunk.rows.tolist() for chunk in source.chunks({"row": 1})]
    [[[2, 3], [4, 5]]]
    """

    finite = True

    def __init__(self, name: str, values: npt.NDArray[Any]) -> None:
        if values.ndim < 2 or 0 in values.shape[1:] or values.dtype.kind not in "iufb":
            raise SourceError(
                f"{name} contains {values.dtype} of shape {values.shape}; expected numbers of shape (rows, features)."
            )
        self.name, self._values = name, values.reshape(len(values), int(np.prod(values.shape[1:])))
        self._map: mmap.mmap | None = getattr(values, "_mmap", None)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self._values)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        return self._read(start_row(start, self), len(self._values))

    def _read(self, begin: int, end: int) -> Iterator[Chunk]:
        size = rows_per_chunk(self._values.shape[1], self._values.itemsize)
        for first in range(begin, end, size):
            stop = min(first + size, end)
            rows = np.array(self._values[first:stop])
            if self._map is not None and hasattr(self._map, "madvise"):
                self._map.madvise(mmap.MADV_DONTNEED)  # otherwise pages read once count as our memory
            yield Chunk(rows, np.arange(first, stop), {"row": stop})

    def row_bytes(self) -> int:
        return self._values.shape[1] * self._values.itemsize

    def blocks(self) -> Blocks:
        return even_blocks(len(self._values), self.row_bytes())

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Chunk]:
        for start, stop in ranges:
            yield from self._read(start["row"], stop)

    def verify(self, end: Position) -> None:
        start_row(end, self)


class RemoteArraySource(ArraySource):
    """Rows of a ``.npy`` file on another machine: only those that are wanted are read.

    Parameters
    ----------
    file : RemoteFile
        The file.
    """

    def __init__(self, file: RemoteFile) -> None:
        self._file = file
        with file.open() as opened:
            shape, fortran, dtype = _checked(file, lambda: _read_header(opened))
            self._first_byte = opened.tell()
        if fortran:
            raise SourceError(f"{file.name} stores its columns one after the other; save it in C order.")
        super().__init__(file.name, np.broadcast_to(np.zeros(1, dtype), shape))  # takes no memory

    def _read(self, begin: int, end: int) -> Iterator[Chunk]:
        size, width = rows_per_chunk(self._values.shape[1], self._values.itemsize), self.row_bytes()
        with self._file.open() as opened:
            opened.seek(self._first_byte + begin * width)
            for first in range(begin, end, size):
                stop = min(first + size, end)
                content = opened.read((stop - first) * width)
                if len(content) < (stop - first) * width:
                    raise SourceError(f"{self.name} ends before row {stop}: it is damaged.", Remedy.RESTORE_FILE)
                rows = np.frombuffer(content, self._values.dtype).reshape(stop - first, -1)
                yield Chunk(rows, np.arange(first, stop), {"row": stop})


def _read_header(file: BinaryIO) -> Any:
    """Return shape, order and type of a ``.npy`` file."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)


def open_npy(path: File) -> ArraySource:
    """Open a ``.npy`` file.

    Parameters
    ----------
    path : File
        The file.
    """
    return ArraySource(path.name, _load(path, mmap_mode="r")) if isinstance(path, Path) else RemoteArraySource(path)


def open_npz(path: File) -> ArraySource:
    """Open a ``.npz`` file: the array ``x_train``, ``x`` or ``X``, or the only one.

    Parameters
    ----------
    path : File
        The file.
    """
    with _load(path) as arrays:
        names = list(arrays.keys())
        chosen = next((n for n in ("x_train", "x", "X") if n in names), names[0] if len(names) == 1 else None)
        if chosen is None:
            raise SourceError(f"{path.name} contains the arrays {', '.join(names)}; expected one named 'x'.")
        for member in arrays.zip.infolist():
            refuse_bomb(path.name, member)
        return ArraySource(path.name, _checked(path, lambda: arrays[chosen]))


def read_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    """Read all arrays of a ``.npz`` file by name, or the one of a ``.npy`` file as ``x``.

    Parameters
    ----------
    path : Path
        The file.
    """
    found = _load(path)
    if isinstance(found, np.ndarray):
        return {"x": found}
    with found as arrays:
        return _checked(path, lambda: {name: arrays[name] for name in arrays})


def _load(path: File, **settings: Any) -> Any:
    place = path if isinstance(path, Path) else path.open()
    return _checked(path, lambda: np.load(place, allow_pickle=False, **settings))


def _checked(path: File, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as problem:  # only NumPy's reader runs here, and it fails on damaged files in many ways
        raise SourceError(f"{path.name} is not a valid NumPy file ({problem!s:.100}).") from problem
