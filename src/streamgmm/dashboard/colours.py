"""Colours that are legible on a light page and on a dark one, also for colour-blind readers."""

from __future__ import annotations

from typing import Any

INK, FAINT = "#7b858f", "#7b858f55"
BLUE, ORANGE, GREEN, RED, PURPLE = "#4f8fcf", "#e69f00", "#1b9e77", "#d55e00", "#9a7fd1"
MARKS = {
    "annealed": PURPLE,
    "source": BLUE,
    "drift": RED,
    "checkpoint": FAINT,
    "idle": ORANGE,
    "resumed": GREEN,
    "stop": INK,
    "end": INK,
}


def apply_colours(plot: Any) -> None:
    """Give axes, grid and legend of a Bokeh figure the colours of the page.

    Parameters
    ----------
    plot : figure
        The figure.
    """
    plot.background_fill_alpha = plot.border_fill_alpha = 0
    plot.outline_line_color = None
    plot.title.text_color = plot.xaxis.axis_label_text_color = INK
    plot.axis.major_label_text_color = plot.axis.axis_line_color = plot.axis.major_tick_line_color = INK
    plot.axis.minor_tick_line_color = None
    plot.grid.grid_line_color = FAINT
    if plot.legend:
        plot.legend.background_fill_alpha = plot.legend.border_line_alpha = 0
        plot.legend.label_text_color = INK
        plot.legend.location = "right"
        plot.legend.orientation = "horizontal"
        plot.legend.padding = 0
