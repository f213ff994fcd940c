"""What all figures share: an empty figure, and how a vector of features is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgmm.errors import MissingExtraError
from streamgmm.native import Floats
from streamgmm.plots.labels import short_number, short_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALLEST_SIDE = 8  # shorter vectors are more often measurements than images
TITLE_WIDTH = 4.4  # inches; the longest title fits
MOST_WRITTEN = 24  # columns and lines of a table up to which values are written into it
MOST_NAMED = 120  # columns up to which they are named


def empty_figure(width: float, height: float) -> Figure:
    """Return an empty figure of a size in inches; raise ImportError without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise MissingExtraError("Plots require matplotlib", "plots") from problem
    return Figure(figsize=(width, height), layout="constrained")


def image_shape(n_features: int, names: Sequence[str] | None = None) -> tuple[int, ...] | None:
    """Return the shape of a square image with this many values, grey or RGB, or None if there is none.

    Parameters
    ----------
    n_features : int
        Number of values.
    names : sequence of str or None, default=None
        Names of the values. Those of pixels end with a number; other columns are no image.

    Examples
    --------
    >>> image_shape(784), image_shape(3072), image_shape(617)
    ((28, 28), (32, 32, 3), None)
    >>> image_shape(64, [f"pixel{i}" for i in range(64)]), image_shape(64, ["flow"] * 64)
    ((8, 8), None)
    """
    if names is not None and not all(name[-1:].isdigit() for name in names):
        return None
    for channels in (1, 3):
        side = isqrt(n_features // channels)
        if side >= SMALLEST_SIDE and side * side * channels == n_features:
            return (side, side) if channels == 1 else (side, side, 3)
    return None


def draw_vector(ax: Any, row: Floats, shape: Sequence[int] | None, limits: tuple[float, float]) -> None:
    """Draw one vector: as an image if it has the shape of one, as a line otherwise."""
    low, high = limits
    shape = tuple(shape) if shape is not None else image_shape(len(row))
    if shape is None or len(shape) == 1:
        ax.plot(row, linewidth=0.8)
        margin = 0.05 * (high - low) if high > low else 0.5
        ax.set_ylim(low - margin, high + margin)
    else:
        image = np.asarray(row).reshape(shape)
        ax.imshow(np.clip(image, 0, 1) if image.ndim == 3 else image, cmap="gray", vmin=low, vmax=high)
    ax.set_xticks([])
    ax.set_yticks([])


def draw_table(rows: Floats, names: Sequence[str], labels: Sequence[str], title: str) -> Figure:
    """Return a figure of a table with named columns: values, and colours that compare them within their column."""
    values = np.asarray(rows, np.float64)
    low, high = values.min(0), values.max(0)
    levels = (values - low) / np.where(high > low, high - low, 1)
    n, d = values.shape
    written = n <= MOST_WRITTEN and d <= MOST_WRITTEN
    figure = empty_figure(max(TITLE_WIDTH, 1.2 + (0.6 if written else 0.2) * min(d, MOST_NAMED)), 2.2 + 0.25 * n)
    ax = figure.subplots()
    ax.imshow(levels, cmap="Blues", vmin=0, vmax=1.6, aspect="auto")
    if written:
        for i, j in np.ndindex(n, d):
            ax.text(j, i, short_number(float(values[i, j])), ha="center", va="center", fontsize=7)
    named = range(d if d <= MOST_NAMED else 0)
    words = [short_text(names[j]) for j in named]
    ax.set_xticks(named, words, rotation=45, ha="right", rotation_mode="anchor", fontsize=8, parse_math=False)
    ax.set_yticks(range(n), labels, fontsize=7)
    ax.set_title(title, fontsize=9)
    return figure
