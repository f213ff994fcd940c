"""Figures of stacks: what the components of a layer expect to see, and images side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.native import Floats
from streamgmm.plots.canvas import TITLE_WIDTH, draw_vector, empty_figure
from streamgmm.plots.models import draw_on_grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedLayers(Protocol):
    """A fitted stack, such as `DeepStreamingMixture`."""

    @property
    def levels_(self) -> Sequence[Any]: ...
    def mixture(self, layer: int = -1, position: int = 0) -> Mixture: ...
    def prototypes(self, layer: int = -1) -> Floats: ...


def prototypes(model: FittedLayers, layer: int = -1) -> Figure:
    """Draw what each component of a layer expects to see, on their grid, with its weight in percent.

    Parameters
    ----------
    model : DeepStreamingMixture
        A fitted stack.
    layer : int, default=-1
        Number of the mixture, from the bottom; -1 is the top.

    Returns
    -------
    Figure
        One panel per component.
    """
    mixture, pictures = model.mixture(layer), model.prototypes(layer)
    shape = pictures.shape[1:] if pictures.shape[3] in (3, 4) else pictures.shape[1:3]
    rows = pictures.reshape(len(pictures), -1) if len(shape) == 3 else pictures.mean(3).reshape(len(pictures), -1)
    rows = _within_colours(rows, shape)
    return draw_on_grid(mixture, rows, "prototypes", model.levels_[layer].trainers[0].grid, shape)


def images(rows: Mapping[str, npt.NDArray[Any]], shape: Sequence[int] | None = None) -> Figure:
    """Draw images side by side, one line for each name: samples, or images before and after hidden pixels were filled.

    Parameters
    ----------
    rows : dict of str to array of shape (N, D)
        Images by name; hidden pixels (NaN) stay empty.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it.

    Returns
    -------
    Figure
        One line of panels per name.
    """
    columns = max(len(group) for group in rows.values())
    rows = {name: _within_colours(np.asarray(group, np.float64), shape) for name, group in rows.items()}
    known = np.concatenate([group.ravel() for group in rows.values()])
    limits = float(np.nanmin(known)), float(np.nanmax(known))
    figure = empty_figure(max(TITLE_WIDTH, 0.75 * columns + 0.3), 0.8 * len(rows) + 0.1)
    axes = figure.subplots(len(rows), columns, squeeze=False)
    for line, (name, group) in zip(axes, rows.items(), strict=True):
        for ax, row in zip(line, group, strict=False):
            draw_vector(ax, row.ravel(), shape, limits)
            ax.set_facecolor("tab:blue")
        for ax in line[len(group) :]:
            ax.set_axis_off()
        line[0].set_ylabel(name, fontsize=7)
    return figure


def _within_colours(rows: npt.NDArray[Any], shape: Sequence[int] | None) -> npt.NDArray[Any]:
    """Divide colours by the largest one, if they go beyond 1, up to which they are drawn: bytes reach 255."""
    if shape is None or len(shape) < 3 or not rows.size:
        return rows
    return rows / max(1.0, float(np.nanmax(rows)))
