"""Figures of a mixture: means and standard deviations on the grid, samples, and the density of two features."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamgmm.core.grid import Grid, torus
from streamgmm.core.mixture import Mixture
from streamgmm.native import Floats
from streamgmm.plots.canvas import TITLE_WIDTH, draw_vector, empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 160  # of a density, along each axis
UNUSED = 0.1  # of an even share: weights below it are red


class Fitted(Protocol):
    """A fitted estimator: its ``mixture_`` is a mixture, or another estimator that has one."""

    @property
    def mixture_(self) -> Mixture | Fitted: ...


def mixture_of(model: Mixture | Fitted) -> Mixture:
    """Return a mixture as it is, or that of a fitted estimator."""
    while not isinstance(model, Mixture):
        if not hasattr(type(model), "mixture_") and not hasattr(model, "mixture_"):
            raise TypeError(f"model is a {type(model).__name__}; expected a Mixture or a fitted estimator.")
        model = model.mixture_
    return model


def grid_of(model: Mixture | Fitted) -> Grid:
    """Return the grid that an estimator was trained on, or a torus for a mixture."""
    inner: Mixture | Fitted | None = model
    while inner is not None:
        if (trainer := getattr(inner, "trainer_", None)) is not None:
            grid: Grid = trainer.grid
            return grid
        inner = getattr(inner, "mixture_", None)
    return torus(mixture_of(model).n_components)


def centroids(model: Mixture | Fitted, grid: Grid | None = None, shape: Sequence[int] | None = None) -> Figure:
    """Draw the means on their grid, each with its weight in percent, in red below a tenth of an even share.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to draw.
    grid : Grid or None, default=None
        Layout of the components; None takes that of the estimator, and a torus for a mixture.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it. One number draws lines.

    Returns
    -------
    Figure
        One panel per component.
    """
    mixture = mixture_of(model)
    return _on_grid(mixture, mixture.means, "means", grid or grid_of(model), shape)


def deviations(model: Mixture | Fitted, grid: Grid | None = None, shape: Sequence[int] | None = None) -> Figure:
    """Draw the standard deviations on their grid, each with the weight of its component in percent.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to draw.
    grid : Grid or None, default=None
        Layout of the components; None takes that of the estimator, and a torus for a mixture.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it. One number draws lines.

    Returns
    -------
    Figure
        One panel per component.
    """
    mixture = mixture_of(model)
    return _on_grid(mixture, np.sqrt(mixture.variances), "standard deviations", grid or grid_of(model), shape)


def _on_grid(mixture: Mixture, rows: Floats, what: str, grid: Grid, shape: Sequence[int] | None) -> Figure:
    weights, limits = mixture.weights, (float(rows.min()), float(rows.max()))
    figure = empty_figure(max(TITLE_WIDTH, 1.0 * grid.columns + 0.2), 1.12 * grid.rows + 0.6)
    for k, ax in enumerate(figure.subplots(grid.rows, grid.columns, squeeze=False).ravel()):
        draw_vector(ax, rows[k], shape, limits)
        colour = "tab:red" if weights[k] < UNUSED / len(weights) else "black"
        ax.set_title(f"{100 * weights[k]:.1f} %", fontsize=7, pad=2, color=colour)
    figure.suptitle(f"{mixture.n_components} {what} on their {grid.rows}×{grid.columns} grid, with weights", fontsize=9)
    return figure


def samples(model: Mixture | Fitted, n: int = 64, seed: int = 0, shape: Sequence[int] | None = None) -> Figure:
    """Draw random samples of a mixture, each with the number of its component.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to sample from.
    n : int, default=64
        Number of samples.
    seed : int, default=0
        Seed of the samples.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it. One number draws lines.

    Returns
    -------
    Figure
        One panel per sample.
    """
    drawn, components = mixture_of(model).sample(n, seed)
    limits = float(drawn.min()), float(drawn.max())
    columns = max(1, isqrt(n))
    rows = -(-n // columns)
    figure = empty_figure(max(TITLE_WIDTH, 1.0 * columns + 0.2), 1.12 * rows + 0.6)
    for i, ax in enumerate(figure.subplots(rows, columns, squeeze=False).ravel()):
        if i >= n:
            ax.set_axis_off()
            continue
        draw_vector(ax, drawn[i], shape, limits)
        ax.set_title(f"from {components[i]}", fontsize=7, pad=2)
    figure.suptitle(f"{n} samples drawn from the model, with their components", fontsize=9)
    return figure


def density(model: Mixture | Fitted, first: int = 0, second: int = 1, names: Sequence[str] | None = None) -> Figure:
    """Draw the density of two features, with an ellipse of one standard deviation for each component.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to draw; all other features are integrated out.
    first : int, default=0
        Number of the feature along x.
    second : int, default=1
        Number of the feature along y.
    names : sequence of str or None, default=None
        Labels of the two axes; None labels them with the numbers of the features.

    Returns
    -------
    Figure
        One panel. Components with less than a tenth of an even weight have no ellipse.
    """
    from matplotlib.patches import Ellipse

    mixture = mixture_of(model)
    if not {first, second} <= set(range(mixture.n_features)) or first == second:
        raise ValueError(
            f"features are {first} and {second}; expected two different ones out of {mixture.n_features}, from 0."
        )
    marginal = mixture.marginal([first, second])
    means, deviation = marginal.means, np.sqrt(marginal.variances)
    heavy = marginal.weights > 0.1 / marginal.n_components
    low, high = ((means + sign * 2.5 * deviation)[heavy] for sign in (-1, 1))
    x, y = (np.linspace(low[:, i].min(), high[:, i].max(), POINTS) for i in (0, 1))
    places = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    values = np.exp(marginal.log_prob(places)).reshape(POINTS, POINTS)
    figure = empty_figure(5, 4.2)
    ax = figure.subplots()
    mesh = ax.pcolormesh(x, y, values, cmap="viridis", shading="auto")
    figure.colorbar(mesh, ax=ax, label="density")
    for k in np.flatnonzero(heavy):
        width, height = 2 * deviation[k]
        ax.add_patch(Ellipse(tuple(means[k]), width, height, fill=False, color="white", linewidth=0.7))
    labels = names or [f"feature {i}" for i in (first, second)]
    ax.set_xlabel(labels[0], parse_math=False)
    ax.set_ylabel(labels[1], parse_math=False)
    return figure
