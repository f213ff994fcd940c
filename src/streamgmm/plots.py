"""Pictures of mixtures and runs. Every function gives a matplotlib figure and touches no global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgmm.grid import Grid, smoothing_matrix, torus
from streamgmm.mixture import Mixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise ImportError("pictures need matplotlib: pip install 'streamgmm[plots]'") from problem
    return Figure(figsize=(width, height), layout="constrained")


def image_shape(n_features: int) -> tuple[int, ...] | None:
    """The shape of a square image of so many numbers, gray or RGB, or None.

    >>> image_shape(784), image_shape(3072), image_shape(617)
    ((28, 28), (32, 32, 3), None)
    """
    for channels in (1, 3):
        side = isqrt(n_features // channels)
        if side > 1 and side * side * channels == n_features:
            return (side, side) if channels == 1 else (side, side, 3)
    return None


def centroids(mixture: Mixture, grid: Grid | None = None, shape: Sequence[int] | None = None) -> Figure:
    """The means on their grid (a torus if none is given), each with its weight in percent.

    Images are drawn as images (``shape`` is guessed if not given), other features as lines.
    """
    grid = grid or torus(mixture.n_components)
    shape = tuple(shape) if shape is not None else image_shape(mixture.n_features)
    means, weights = mixture.means, mixture.weights
    low, high = float(means.min()), float(means.max())
    figure = _figure(1.0 * grid.columns + 0.2, 1.12 * grid.rows + 0.6)
    axes = np.atleast_2d(figure.subplots(grid.rows, grid.columns, squeeze=False))
    for k, ax in enumerate(axes.ravel()):
        if shape is None:
            ax.plot(means[k], linewidth=0.6)
            ax.set_ylim(low, high)
        else:
            picture = means[k].reshape(shape)
            ax.imshow(np.clip(picture, 0, 1) if picture.ndim == 3 else picture, cmap="gray", vmin=low, vmax=high)
        ax.set_title(f"{100 * weights[k]:.1f} %", fontsize=7, pad=2, color="black" if weights[k] > 1e-3 else "tab:red")
        ax.set_xticks([])
        ax.set_yticks([])
    figure.suptitle(f"{mixture.n_components} means on their {grid.rows}×{grid.columns} grid, with weights", fontsize=9)
    return figure


def curve(events: Sequence[dict[str, Any]], others: Mapping[str, Sequence[dict[str, Any]]] | None = None) -> Figure:
    """Log-likelihood, σ and learning rate over samples; ``others`` adds the log-likelihood of further runs."""
    figure = _figure(7, 5)
    top, bottom = figure.subplots(2, 1, sharex=True)

    def column(rows: Sequence[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
        known = [(r["samples"], r[name]) for r in rows if r.get(name) is not None and r["samples"] > 0]
        return [s for s, _ in known], [v for _, v in known]

    top.plot(*column(events, "max_component"), label="max-component", color="tab:blue")
    top.plot(*column(events, "loss"), label="objective (smoothed on the grid)", color="tab:cyan", linestyle="--")
    for (label, rows), colour in zip((others or {}).items(), ("tab:orange", "tab:red", "tab:brown"), strict=False):
        top.plot(*column(rows, "max_component"), label=label, color=colour, linewidth=1)
    top.set_ylabel("log-likelihood (nats)")
    top.legend(fontsize=8)
    bottom.plot(*column(events, "sigma"), label="σ", color="tab:green")
    bottom.plot(*column(events, "learning_rate"), label="learning rate", color="tab:purple")
    bottom.set_yscale("log")
    bottom.set_xlabel("samples")
    bottom.legend(fontsize=8)
    for ax in (top, bottom):
        ax.grid(alpha=0.3)
    return figure


def filters(grid: Grid, sigmas: Sequence[float]) -> Figure:
    """The weights that the neighbours of a winner in the middle receive, for several widths."""
    figure = _figure(2.4 * len(sigmas) + 0.6, 2.8)
    middle = grid.rows // 2 * grid.columns + grid.columns // 2
    for ax, sigma in zip(figure.subplots(1, len(sigmas), squeeze=False)[0], sigmas, strict=True):
        weights = smoothing_matrix(grid, sigma)[middle].reshape(grid.rows, grid.columns)
        ax.imshow(weights, cmap="viridis", vmin=0)
        ax.set_title(f"σ = {sigma:g} (peak {weights.max():.2f})", fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    return figure


def effects(lines: Mapping[str, Mapping[float, Any]], title: str) -> Figure:
    """How a figure depends on a parameter: for each line, differences from its best value, in nats, with deviations."""
    figure = _figure(5, 3.2)
    ax = figure.subplots()
    for (label, values), marker in zip(lines.items(), "osv^Dx*", strict=False):
        best = max(v.mean for v in values.values())
        x, y = list(values), [v.mean - best for v in values.values()]
        ax.errorbar(x, y, yerr=[v.std for v in values.values()], label=label, marker=marker, markersize=4, capsize=2)
    ticks = sorted({x for values in lines.values() for x in values})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
    ax.minorticks_off()
    ax.set_yscale("symlog", linthresh=1)
    ax.set_ylim(top=1)
    ax.set_xlabel(title)
    ax.set_ylabel("nats below the best value")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7)
    return figure


def trade_off(lines: Mapping[str, Mapping[float, tuple[float, float]]]) -> Figure:
    """What a half-life buys (solid: new classes when learned) and what it costs (dashed: all classes at the end)."""
    figure = _figure(5.5, 3.4)
    ax = figure.subplots()
    for (label, values), colour in zip(lines.items(), ("tab:blue", "tab:orange"), strict=False):
        ax.plot(list(values), [new for new, _ in values.values()], marker="o", color=colour, label=f"new, {label}")
        every = [every for _, every in values.values()]
        ax.plot(list(values), every, marker="s", linestyle="--", color=colour, label=f"all, {label}")
    ax.set_xscale("log")
    ax.set_xlabel("half-life (samples)")
    ax.set_ylabel("log-likelihood (nats)")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7)
    return figure
