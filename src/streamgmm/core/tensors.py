"""Named arrays with one entry per component, in the layout that the kernel wants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import LIMITS
from streamgmm.native import Floats, aligned_copy, padded

EVERY = slice(None)  # all components
BLOCK = 12_000  # numbers of a block: the C library asks the system for larger arrays each time


class Layout(NamedTuple):
    """The form of one tensor: its shape per component, and what fills the padding of the last axis.

    ``filler=None`` means that the tensor is not padded.
    """

    shape: tuple[int, ...]
    filler: float | None = None


class Tensors:
    """The tensors of one covariance kind for K components.

    ``tensors[name]`` is a view without padding; ``tensors.buffers[name]`` is what the kernel reads and writes.

    >>> t = Tensors({"means": Layout((2,), 0.0)}, {"means": [[1.0, 2.0]]}, np.dtype(np.float64))
    >>> t["means"].shape, t.buffers["means"].shape
    ((1, 2), (1, 16))
    """

    def __init__(self, layout: Mapping[str, Layout], values: Mapping[str, npt.ArrayLike], dtype: np.dtype[Any]) -> None:
        self.layout, self.dtype = dict(layout), dtype
        self.buffers: dict[str, Floats] = {}
        for name, form in layout.items():
            rows = np.asarray(values[name], dtype=dtype)
            if rows.ndim != 1 + len(form.shape) or rows.shape[1:] != form.shape:
                expected = ", ".join(["components", *map(str, form.shape)])
                raise ValueError(f"tensor '{name}' has shape {rows.shape}; expected ({expected}).")
            self.buffers[name] = aligned_copy(rows) if form.filler is None else padded(rows, dtype, form.filler)

    def __getitem__(self, name: str) -> Floats:
        shape = self.layout[name].shape
        return self.buffers[name][..., : shape[-1]] if shape else self.buffers[name]

    def __len__(self) -> int:
        return len(next(iter(self.buffers.values())))

    def __reduce__(self) -> tuple[type[Tensors], tuple[Any, ...]]:
        return Tensors, (self.layout, {name: np.array(value) for name, value in self.named().items()}, self.dtype)

    def named(self) -> dict[str, Floats]:
        """Return views of all tensors, without padding."""
        return {name: self[name] for name in self.layout}

    def copy(self) -> Tensors:
        """Copy every tensor to memory of its own."""
        twin = Tensors.__new__(Tensors)
        twin.layout, twin.dtype = self.layout, self.dtype
        twin.buffers = {name: aligned_copy(buffer) for name, buffer in self.buffers.items()}
        return twin

    def assign(self, other: Tensors, rows: slice = EVERY) -> None:
        """Overwrite the values of some components with those of tensors of the same layout."""
        for name, buffer in self.buffers.items():
            np.copyto(buffer[rows], other.buffers[name][rows])

    def select(self, components: npt.NDArray[np.int64]) -> Tensors:
        """Take the given components, in this order; a number may appear more than once."""
        return Tensors(self.layout, {name: value[components] for name, value in self.named().items()}, self.dtype)

    def copy_component(self, source: int, target: int) -> None:
        """Overwrite one component with another."""
        for buffer in self.buffers.values():
            buffer[target] = buffer[source]


def row_blocks(rows: Floats) -> Iterator[slice]:
    """Cut rows (K, D) into blocks whose temporary copies are small: large ones cost more than what is computed.

    >>> list(row_blocks(np.zeros((5, 5000))))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 6, None)]
    """
    height = max(1, BLOCK // max(1, rows.shape[1]))
    for start in range(0, len(rows), height):
        yield slice(start, start + height)


def bound_means(tensors: Tensors) -> Tensors:
    """Bring means that have moved to other units back within the limits of what can be learned, in place."""
    if "means" in tensors.layout:
        most = LIMITS[tensors.dtype]
        np.clip(tensors["means"], -most, most, out=tensors["means"])
    return tensors
