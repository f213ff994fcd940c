"""Boards: the parts of the page that show vectors in cells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.plotting import figure

from streamgmm.core.grid import Grid
from streamgmm.dashboard.colours import BLUE, apply_colours
from streamgmm.dashboard.mosaics import mosaic, small_curves

NO_IMAGE: dict[str, list[Any]] = {"image": [], "dw": [], "dh": []}


class Board:
    """A grid of cells with one vector each: images as a mosaic, other vectors as small curves.

    Parameters
    ----------
    name : str
        Name of the Bokeh figure.
    title : str
        Title of the figure.
    columns : sequence of str
        What is known of each cell.
    tooltips : str or list of tuple of str
        What to show of a cell under the pointer, as Bokeh writes it.
    """

    def __init__(self, name: str, title: str, columns: tuple[str, ...], tooltips: str | list[tuple[str, str]]) -> None:
        self._images = ColumnDataSource(dict(NO_IMAGE))
        self._curves = ColumnDataSource({"xs": [], "ys": []})
        self.cells = ColumnDataSource({column: [] for column in ("x", "y", *columns)})
        self.plot: Any = figure(
            name=name, title=title, sizing_mode="scale_width", tools="", toolbar_location=None,
            x_range=Range1d(start=0, end=1), y_range=Range1d(start=0, end=1),
        )  # fmt: skip
        self.plot.image_rgba("image", x=0, y=0, dw="dw", dh="dh", source=self._images)
        self.plot.multi_line("xs", "ys", source=self._curves, line_color=BLUE, line_width=1)
        self.plot.axis.visible = False
        self.plot.grid.visible = False
        apply_colours(self.plot)
        cells = self.plot.rect("x", "y", 1, 1, source=self.cells, fill_alpha=0, line_alpha=0)
        self.plot.add_tools(HoverTool(renderers=[cells], tooltips=tooltips))

    def add_labels(self, column: str) -> None:
        """Write a column of the cells into them.

        Parameters
        ----------
        column : str
            The column.
        """
        self.plot.text(
            "x", "y", column, source=self.cells, text_align="center", text_color="white", y_offset=26,
            text_font_size="11px", background_fill_color="#000000aa", padding=2,
        )  # fmt: skip

    def show(
        self, rows: npt.NDArray[np.float32], grid: Grid, shape: Sequence[int] | None = None, **columns: Any
    ) -> None:
        """Show vectors, cell by cell.

        Parameters
        ----------
        rows : array of shape (n, D)
            The vectors, at most one per cell.
        grid : Grid
            Rows and columns of cells.
        shape : sequence of int or None, default=None
            Shape of an image; None draws curves.
        **columns
            What is known of each cell.
        """
        self.plot.x_range.end, self.plot.y_range.end = grid.columns, grid.rows
        self.plot.aspect_ratio = grid.columns / (grid.rows + 0.3)  # leaves room for the title
        if shape is None or not rows.size:
            self._images.data = dict(NO_IMAGE)
            self._curves.data = small_curves(rows, grid)
        else:
            self._curves.data = {"xs": [], "ys": []}
            self._images.data = {"image": [mosaic(rows, tuple(shape), grid)], "dw": [grid.columns], "dh": [grid.rows]}
        cells = np.arange(len(rows))
        centres = {"x": cells % grid.columns + 0.5, "y": grid.rows - cells // grid.columns - 0.5}
        self.cells.data = {**centres, **columns}

    def clear(self) -> None:
        """Remove everything."""
        self._images.data = dict(NO_IMAGE)
        self._curves.data = {"xs": [], "ys": []}
        self.cells.data = {column: [] for column in self.cells.data}
