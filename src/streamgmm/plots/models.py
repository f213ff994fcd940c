"""Figures of a mixture: means and standard deviations on the grid, samples, and the density of two features."""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from typing import TYPE_CHECKING, Protocol

import numpy as np

from streamgmm.core.grid import Grid, torus
from streamgmm.core.mixture import Mixture
from streamgmm.native import Floats
from streamgmm.plots.canvas import TITLE_WIDTH, draw_table, draw_vector, empty_figure, image_shape
from streamgmm.plots.labels import short_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

POINTS = 160  # of a density, along each axis
MOST_LINES = 64  # of a table
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


def names_of(model: Mixture | Fitted) -> list[str] | None:
    """Return the names of the columns that an estimator was trained on; None if they have none or are pixels."""
    inner: Mixture | Fitted | None = model
    while inner is not None:
        if (names := getattr(inner, "feature_names_in_", None)) is not None:
            return None if image_shape(len(names), names) else list(names)
        inner = getattr(inner, "mixture_", None)
    return None


def centroids(
    model: Mixture | Fitted,
    grid: Grid | None = None,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw the means on their grid, each with its weight in percent, in red below a tenth of an even share.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to draw.
    grid : Grid or None, default=None
        Layout of the components; None takes that of the estimator, and a torus for a mixture.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it. One number draws lines.
    names : sequence of str or None, default=None
        Names of the features: draws a table with these columns instead. None takes those of the estimator, unless
        a shape is given.

    Returns
    -------
    Figure
        One panel per component, or one table of the components by descending weight.
    """
    mixture = mixture_of(model)
    names = names_of(model) if names is None and shape is None else names
    if names is not None:
        return _by_weight(mixture, mixture.means, "means", names)
    return draw_on_grid(mixture, mixture.means, "means", grid or grid_of(model), shape)


def deviations(
    model: Mixture | Fitted,
    grid: Grid | None = None,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw the standard deviations on their grid, each with the weight of its component in percent.

    Those of features that never varied are 0.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to draw.
    grid : Grid or None, default=None
        Layout of the components; None takes that of the estimator, and a torus for a mixture.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it. One number draws lines.
    names : sequence of str or None, default=None
        Names of the features: draws a table with these columns instead. None takes those of the estimator, unless
        a shape is given.

    Returns
    -------
    Figure
        One panel per component, or one table of the components by descending weight.
    """
    mixture = mixture_of(model)
    rows = np.where(np.isnan(mixture.constants), np.sqrt(mixture.variances), 0.0)
    names = names_of(model) if names is None and shape is None else names
    if names is not None:
        return _by_weight(mixture, rows, "standard deviations", names)
    return draw_on_grid(mixture, rows, "standard deviations", grid or grid_of(model), shape)


def _by_weight(mixture: Mixture, rows: Floats, what: str, names: Sequence[str]) -> Figure:
    """Draw a table of the heaviest components."""
    _check_names(names, mixture)
    order = np.argsort(-mixture.weights, kind="stable")[:MOST_LINES]
    labels = [f"{k}: {100 * mixture.weights[k]:.1f} %" for k in order]
    title = f"{what} of {len(order)} components, with their weights"
    return draw_table(rows[order], names, labels, title)


def _check_names(names: Sequence[str], mixture: Mixture) -> None:
    if len(names) != mixture.n_features:
        raise ValueError(f"names has {len(names)} entries; expected {mixture.n_features}, one for each feature.")


def draw_on_grid(mixture: Mixture, rows: Floats, what: str, grid: Grid, shape: Sequence[int] | None) -> Figure:
    """Draw one vector per component on a grid, with the weights of a mixture."""
    weights, limits = mixture.weights, (float(rows.min()), float(rows.max()))
    figure = empty_figure(max(TITLE_WIDTH, 1.0 * grid.columns + 0.2), 1.12 * grid.rows + 0.6)
    for k, ax in enumerate(figure.subplots(grid.rows, grid.columns, squeeze=False).ravel()):
        draw_vector(ax, rows[k], shape, limits)
        colour = "tab:red" if weights[k] < UNUSED / len(weights) else "black"
        ax.set_title(f"{100 * weights[k]:.1f} %", fontsize=7, pad=2, color=colour)
    figure.suptitle(f"{mixture.n_components} {what} on their {grid.rows}×{grid.columns} grid, with weights", fontsize=9)
    return figure


def samples(
    model: Mixture | Fitted,
    n: int = 64,
    seed: int = 0,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
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
    names : sequence of str or None, default=None
        Names of the features: draws a table with these columns instead. None takes those of the estimator, unless
        a shape is given.

    Returns
    -------
    Figure
        One panel per sample, or one table.
    """
    mixture = mixture_of(model)
    drawn, components = mixture.sample(n, seed)
    names = names_of(model) if names is None and shape is None else names
    if names is not None:
        _check_names(names, mixture)
        labels = [f"from {k}" for k in components[:MOST_LINES]]
        title = f"{len(labels)} samples drawn from the model, with their components"
        return draw_table(drawn[:MOST_LINES], names, labels, title)
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


def directions(
    model: Mixture | Fitted,
    n_components: int = 8,
    n_directions: int = 6,
    shape: Sequence[int] | None = None,
    names: Sequence[str] | None = None,
) -> Figure:
    """Draw the means of the heaviest components, and the directions in which each varies the most.

    Parameters
    ----------
    model : Mixture or fitted estimator
        What to draw; its covariances must couple features: ``"full"`` or ``"low_rank"``.
    n_components : int, default=8
        Number of components, one per row.
    n_directions : int, default=6
        Number of directions of each.
    shape : sequence of int or None, default=None
        Shape of an image; None guesses it. One number draws lines.
    names : sequence of str or None, default=None
        Names of the features: draws a table with these columns instead. None takes those of the estimator, unless
        a shape is given.

    Returns
    -------
    Figure
        One row per component: its mean, then one standard deviation along each direction. A table has one line for
        each direction of standardised features: its correlations with them.
    """
    mixture = mixture_of(model)
    heaviest = np.argsort(-mixture.weights)[:n_components]
    names = names_of(model) if names is None and shape is None else names
    units = np.sqrt(mixture.variances) if names is not None else np.ones_like(mixture.means)
    found = [_principal(mixture, int(k), n_directions, units[k]) for k in heaviest]
    if names is not None:
        _check_names(names, mixture)
        labels = [f"{k}, direction {i}" for k, own in zip(heaviest, found, strict=True) for i in range(1, len(own) + 1)]
        rows = np.round(np.concatenate(found)[:MOST_LINES], 2) + 0.0  # no -0
        return draw_table(rows, names, labels[:MOST_LINES], "features along the main directions of components")
    columns = 1 + min(len(own) for own in found)
    figure = empty_figure(max(TITLE_WIDTH, 1.0 * columns + 0.2), 1.12 * len(found) + 0.6)
    most = max(float(np.abs(own).max()) for own in found)
    means = mixture.means[heaviest]
    limits = (float(means.min()), float(means.max()))
    for line, mean, own in zip(figure.subplots(len(found), columns, squeeze=False), means, found, strict=True):
        draw_vector(line[0], mean, shape, limits)
        for ax, direction in zip(line[1:], own, strict=False):
            draw_vector(ax, direction, shape, (-most, most))
    figure.suptitle("means, and the directions in which components vary the most", fontsize=9)
    return figure


def _principal(mixture: Mixture, component: int, most: int, units: Floats) -> Floats:
    """Return the directions of the largest spread that features share, times their deviations, in units: (n, D)."""
    if mixture.covariance_type == "low_rank":
        _, sizes, axes = np.linalg.svd(mixture.factors[component].T.astype(np.float64) / units, full_matrices=False)
        return np.asarray(sizes[:most, None] * axes[:most])
    if mixture.covariance_type != "full":
        raise ValueError(f"covariance_type={mixture.covariance_type!r} has no directions; use 'full' or 'low_rank'.")
    covariance = mixture.covariances[component].astype(np.float64) / units[:, None] / units
    variances, vectors = np.linalg.eigh(covariance)
    return np.asarray((np.sqrt(np.maximum(variances, 0)) * vectors).T[::-1][:most])


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
        Names of all features, or of these two; None takes those of the estimator, or numbers.

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
    names = names_of(model) if names is None else names
    if names is None:
        names = [f"feature {i}" for i in (first, second)]
    if len(names) not in (2, mixture.n_features):
        raise ValueError(f"names has {len(names)} entries; expected {mixture.n_features}, or 2 for the axes.")
    labels = names if len(names) == 2 else [names[first], names[second]]
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
    covariances = marginal.covariances
    if covariances.ndim == 2:
        covariances = covariances[:, None] * np.eye(2)
    for k in np.flatnonzero(heavy):
        variances, axes = np.linalg.eigh(covariances[k].astype(np.float64))
        width, height = 2 * np.sqrt(np.maximum(variances, 0))
        angle = np.degrees(np.arctan2(axes[1, 0], axes[0, 0]))
        ax.add_patch(Ellipse(tuple(means[k]), width, height, angle=angle, fill=False, color="white", linewidth=0.7))
    ax.set_xlabel(short_text(labels[0]), parse_math=False)
    ax.set_ylabel(short_text(labels[1]), parse_math=False)
    return figure
