"""Many vectors in one picture: images as a mosaic, other vectors as small curves."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.grid import Grid

TILE_PIXELS = 64  # larger images are thinned: the page could not show more, and drawing takes time
CURVE_POINTS = 200


def mosaic(rows: npt.NDArray[np.float32], shape: tuple[int, ...], grid: Grid) -> npt.NDArray[np.uint32]:
    """Arrange images on a grid, in the form that Bokeh expects: RGBA packed into 32 bits, bottom row first.

    Parameters
    ----------
    rows : array of shape (n, D)
        The images, at most one per cell; other cells are transparent.
    shape : tuple of int
        Shape of an image: (height, width), or (height, width, 3) with values within [0, 1].
    grid : Grid
        Rows and columns of the mosaic.
    """
    step = max(1, shape[0] // TILE_PIXELS)
    tiles = np.full((grid.size, *shape), np.nan, np.float32)
    tiles[: len(rows)] = rows.reshape(len(rows), *shape)
    tiles = tiles[:, ::step, ::step]
    low, high = (0.0, 1.0) if len(shape) == 3 else (float(rows.min()), float(rows.max()))
    levels = np.clip((tiles - low) / (high - low if high > low else 1), 0, 1)
    known = ~np.isnan(levels)
    colours = (255 * np.nan_to_num(levels)).astype(np.uint8)
    if len(shape) == 2:
        colours, known = np.repeat(colours[..., None], 3, axis=-1), known[..., None]
    pixels = np.concatenate([colours, np.where(known[..., :1], 255, 0).astype(np.uint8)], axis=-1)
    height, width = pixels.shape[1:3]
    lines = pixels.reshape(grid.rows, grid.columns, height, width, 4).transpose(0, 2, 1, 3, 4)
    whole = lines.reshape(grid.rows * height, -1, 4)
    return np.ascontiguousarray(whole[::-1]).view(np.uint32).reshape(grid.rows * height, grid.columns * width)


def small_curves(rows: npt.NDArray[np.float32], grid: Grid) -> dict[str, list[Any]]:
    """Return the coordinates of one curve per cell, with all curves on the same scale.

    Parameters
    ----------
    rows : array of shape (n, D)
        The vectors, at most one per cell.
    grid : Grid
        Rows and columns of cells; each cell is one unit wide and high.
    """
    if not rows.size:
        return {"xs": [], "ys": []}
    some = rows[:, :: max(1, rows.shape[1] // CURVE_POINTS)]
    low, high = float(np.quantile(some, 0.001)), float(np.quantile(some, 0.999))
    heights = 0.1 + 0.8 * np.clip((some - low) / (high - low if high > low else 1), 0, 1)
    along = np.linspace(0.08, 0.92, some.shape[1])
    return {
        "xs": [along + k % grid.columns for k in range(len(some))],
        "ys": [heights[k] + grid.rows - 1 - k // grid.columns for k in range(len(some))],
    }
