"""The grid of components, and the Gaussian filters that smooth over it.

The torus is periodic in both directions, so no component sits at an edge. Its Gaussian filter is the product of a
filter along columns and one along rows; the kernel takes the two factors, never the K×K matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isqrt

import numpy as np
import numpy.typing as npt
from numpy.lib.stride_tricks import sliding_window_view

from streamgmm.native import Filters

LONG = 256  # cells: filters along a longer side take megabytes, so only the latest is cached


@dataclass(frozen=True)
class Grid:
    """``rows × columns`` cells with periodic distance; one row makes a ring.

    >>> torus(64), torus(6), torus(7)
    (Grid(rows=8, columns=8), Grid(rows=2, columns=3), Grid(rows=1, columns=7))
    """

    rows: int
    columns: int

    @property
    def size(self) -> int:
        """Number of cells."""
        return self.rows * self.columns

    @property
    def widest(self) -> float:
        """Width at which every sample still reaches every component: a quarter of the longer side."""
        return max(self.rows, self.columns) / 4


def torus(n_components: int) -> Grid:
    """Lay out ``n_components`` cells as square as their number allows; a prime number gives a ring."""
    rows = next(r for r in range(isqrt(n_components), 0, -1) if n_components % r == 0)
    return Grid(rows, n_components // rows)


def ring(n_components: int) -> Grid:
    """Lay out ``n_components`` cells in one closed row."""
    return Grid(1, n_components)


LAYOUTS = {"torus": torus, "ring": ring}
"""Grids by the name that users choose them with."""


def _line_filter(length: int, sigma: float) -> npt.NDArray[np.float64]:
    cells = np.arange(length)
    distance = np.minimum(cells, length - cells)
    with np.errstate(over="ignore"):  # for a width near zero the exponent overflows to zero
        bell = np.exp(-0.5 * (distance / sigma) ** 2)
    bell /= bell.sum()
    whole = np.ascontiguousarray(sliding_window_view(np.tile(bell, 2), length)[length:0:-1])
    whole.flags.writeable = False
    return whole


def filters(grid: Grid, sigma: float) -> Filters:
    """[E5] Return the factors of the smoothing matrix of width ``sigma``; exact identities once it is small."""
    return (_last_made if max(grid.rows, grid.columns) > LONG else _recently_made)(grid, sigma)


def _make(grid: Grid, sigma: float) -> Filters:
    return Filters(_line_filter(grid.rows, sigma), _line_filter(grid.columns, sigma))


_recently_made, _last_made = lru_cache(maxsize=8)(_make), lru_cache(maxsize=1)(_make)


def smoothing_matrix(grid: Grid, sigma: float) -> npt.NDArray[np.float64]:
    """[E5] Return the whole K×K matrix, for pictures and tests.

    >>> bool((smoothing_matrix(torus(6), 0.01) == np.eye(6)).all())
    True
    """
    along_rows, along_columns = filters(grid, sigma)
    return np.kron(along_rows, along_columns).astype(np.float64)
