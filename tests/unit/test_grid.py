from __future__ import annotations

import numpy as np
import pytest

from streamgmm.core import reference as eq
from streamgmm.core.grid import Grid, filters, ring, smoothing_matrix, torus


@pytest.mark.parametrize(
    ("components", "shape"), [(1, (1, 1)), (2, (1, 2)), (12, (3, 4)), (13, (1, 13)), (64, (8, 8)), (1000, (25, 40))]
)
def test_torus_is_as_square_as_possible(components: int, shape: tuple[int, int]) -> None:
    grid = torus(components)
    assert (grid.rows, grid.columns) == shape
    assert grid.size == components


def test_ring_is_one_row() -> None:
    assert ring(64) == Grid(1, 64)
    assert ring(64).widest == 16
    assert torus(64).widest == 2


@pytest.mark.parametrize("grid", [torus(64), torus(12), ring(7), torus(1)])
@pytest.mark.parametrize("sigma", [3.0, 0.7, 0.2])
def test_smoothing_matrix_is_the_reference(grid: Grid, sigma: float) -> None:
    matrix = smoothing_matrix(grid, sigma)
    np.testing.assert_allclose(matrix, eq.smoothing_matrix(grid.rows, grid.columns, sigma), rtol=1e-12, atol=1e-300)
    np.testing.assert_allclose(matrix.sum(1), 1, rtol=1e-14)


@pytest.mark.parametrize("sigma", [0.01, 1e-9, 1e-300])
def test_smoothing_vanishes_exactly(sigma: float) -> None:
    np.testing.assert_array_equal(smoothing_matrix(torus(24), sigma), np.eye(24))


def test_filters_are_periodic() -> None:
    along_rows, along_columns = filters(Grid(4, 6), 1.3)
    for f in (along_rows, along_columns):
        for shift in range(len(f)):
            np.testing.assert_array_equal(np.roll(f[0], shift), f[shift])
