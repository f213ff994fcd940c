"""NumPy files: ``.npy`` is memory-mapped, ``.npz`` is unpacked."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.streams.base import Chunk, Position, Source, SourceError, first_row, rows_per_chunk


class Array(Source):
    """The rows of an array; further axes are flattened, so images are rows of pixels.

    >>> source = Array("x", np.arange(6).reshape(3, 2))
    >>> [chunk.rows.tolist() for chunk in source.chunks({"row": 1})]
    [[[2, 3], [4, 5]]]
    """

    def __init__(self, name: str, values: npt.NDArray[Any]) -> None:
        if values.ndim < 2 or 0 in values.shape[1:] or values.dtype.kind not in "iufb":
            raise SourceError(
                f"{name} holds {values.dtype} of shape {values.shape}; expected numbers with one row a sample."
            )
        self.name, self._values = name, values.reshape(len(values), int(np.prod(values.shape[1:])))
        self._map: mmap.mmap | None = getattr(values, "_mmap", None)

    @property
    def n_rows(self) -> int:
        return len(self._values)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        size = rows_per_chunk(self._values.shape[1], self._values.itemsize)
        for at in range(first_row(start, self), len(self._values), size):
            stop = min(at + size, len(self._values))
            rows = np.array(self._values[at:stop])
            if self._map is not None and hasattr(self._map, "madvise"):
                self._map.madvise(mmap.MADV_DONTNEED)  # pages that were read once would count as ours for ever
            yield Chunk(rows, np.arange(at, stop), {"row": stop})


def open_npy(path: Path) -> Array:
    return Array(path.name, _load(path, mmap_mode="r"))


def open_npz(path: Path) -> Array:
    """The array ``x_train``, ``x`` or ``X`` of the file, or its only one."""
    with _load(path) as packed:
        names = list(packed.keys())
        chosen = next((n for n in ("x_train", "x", "X") if n in names), names[0] if len(names) == 1 else None)
        if chosen is None:
            raise SourceError(f"{path.name} holds arrays {', '.join(names)}; expected one of them to be called x.")
        return Array(path.name, _whole(path, lambda: packed[chosen]))


def _load(path: Path, **settings: Any) -> Any:
    return _whole(path, lambda: np.load(path, allow_pickle=False, **settings))


def _whole(path: Path, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except Exception as problem:  # a damaged header can fail in any way
        raise SourceError(f"{path.name} is not a whole NumPy file ({problem!s:.100}).") from problem
