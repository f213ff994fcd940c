"""Pictures of mixtures and runs. Every function gives a matplotlib figure and touches no global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgmm.grid import Grid, smoothing_matrix, torus
from streamgmm.kernels import Floats
from streamgmm.mixture import Mixture

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def _figure(width: float, height: float) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as problem:
        raise ImportError("pictures need matplotlib: pip install 'streamgmm[plots]'") from problem
    return Figure(figsize=(width, height), layout="constrained")


SMALLEST_SIDE = 8  # fewer numbers are more often readings than pixels


def image_shape(n_features: int) -> tuple[int, ...] | None:
    """The shape of a square image of so many numbers, gray or RGB, or None.

    >>> image_shape(784), image_shape(3072), image_shape(617)
    ((28, 28), (32, 32, 3), None)
    """
    for channels in (1, 3):
        side = isqrt(n_features // channels)
        if side >= SMALLEST_SIDE and side * side * channels == n_features:
            return (side, side) if channels == 1 else (side, side, 3)
    return None


TITLE_WIDTH = 4.4  # inches that the longest title takes


def centroids(mixture: Mixture, grid: Grid | None = None, shape: Sequence[int] | None = None) -> Figure:
    """The means on their grid (a torus if none is given), each with its weight in percent.

    Images are drawn as images (``shape`` is guessed if not given), other features, or a ``shape`` of one number, as
    lines.
    """
    return _on_grid(mixture, mixture.means, "means", grid, shape)


def deviations(mixture: Mixture, grid: Grid | None = None, shape: Sequence[int] | None = None) -> Figure:
    """The standard deviations on their grid, like ``centroids``."""
    return _on_grid(mixture, np.sqrt(mixture.covariances), "standard deviations", grid, shape)


def _on_grid(mixture: Mixture, rows: Floats, what: str, grid: Grid | None, shape: Sequence[int] | None) -> Figure:
    grid, weights = grid or torus(mixture.n_components), mixture.weights
    figure = _figure(max(TITLE_WIDTH, 1.0 * grid.columns + 0.2), 1.12 * grid.rows + 0.6)
    axes = np.atleast_2d(figure.subplots(grid.rows, grid.columns, squeeze=False))
    for k, ax in enumerate(axes.ravel()):
        _draw(ax, rows[k], shape, float(rows.min()), float(rows.max()))
        ax.set_title(f"{100 * weights[k]:.1f} %", fontsize=7, pad=2, color="black" if weights[k] > 1e-3 else "tab:red")
    figure.suptitle(f"{mixture.n_components} {what} on their {grid.rows}×{grid.columns} grid, with weights", fontsize=9)
    return figure


def _draw(ax: Any, row: Floats, shape: Sequence[int] | None, low: float, high: float) -> None:
    """One sample, mean or deviation: an image where it can be one, a line otherwise."""
    shape = tuple(shape) if shape is not None else image_shape(len(row))
    if shape is None or len(shape) == 1:
        ax.plot(row, linewidth=0.8)
        edge = 0.05 * (high - low) if high > low else 0.5
        ax.set_ylim(low - edge, high + edge)
    else:
        picture = np.asarray(row).reshape(shape)
        ax.imshow(np.clip(picture, 0, 1) if picture.ndim == 3 else picture, cmap="gray", vmin=low, vmax=high)
    ax.set_xticks([])
    ax.set_yticks([])


def samples(mixture: Mixture, n: int = 64, seed: int = 0, shape: Sequence[int] | None = None) -> Figure:
    """Samples that the model has made up."""
    drawn, components = mixture.sample(n, seed)
    columns = max(1, isqrt(n))
    rows = -(-n // columns)
    figure = _figure(max(TITLE_WIDTH, 1.0 * columns + 0.2), 1.12 * rows + 0.6)
    for i, ax in enumerate(figure.subplots(rows, columns, squeeze=False).ravel()):
        if i >= n:
            ax.set_axis_off()
            continue
        _draw(ax, drawn[i], shape, float(drawn.min()), float(drawn.max()))
        ax.set_title(f"from {components[i]}", fontsize=7, pad=2)
    figure.suptitle(f"{n} samples drawn from the model, with their components", fontsize=9)
    return figure


def usage(weights: Floats, shares: Floats) -> Figure:
    """Weight of each component, and its share of recent samples; those below a tenth of an even share are red."""
    figure = _figure(7, 3)
    ax = figure.subplots()
    order = np.argsort(-np.asarray(shares), kind="stable")
    even = 1 / len(order)
    colours = ["tab:red" if shares[k] < 0.1 * even else "tab:blue" for k in order]
    ax.bar(range(len(order)), 100 * np.asarray(shares)[order], color=colours, label="share of recent samples")
    ax.plot(range(len(order)), 100 * np.asarray(weights)[order], "k.", markersize=4, label="weight")
    ax.axhline(100 * even, color="gray", linewidth=0.8, linestyle="--", label="even share")
    ax.set_xlabel("components, the busiest first")
    ax.set_ylabel("%")
    ax.legend(fontsize=8)
    return figure


def scores(values: Floats, threshold: float | None = None) -> Figure:
    """Histogram of log-likelihoods, with the value below which a sample is an anomaly."""
    figure = _figure(6, 3.2)
    ax = figure.subplots()
    low, high = np.quantile(values, [0.001, 0.999])
    ax.hist(np.clip(values, low, high), bins=60, color="tab:blue", weights=np.full(len(values), 100 / len(values)))
    if threshold is not None:
        ax.axvline(threshold, color="tab:red", label=f"anomalies lie below {threshold:.1f}")
        ax.legend(fontsize=8)
    ax.set_xlabel("log-likelihood (nats)")
    ax.set_ylabel("share of samples (%)")
    return figure


def density(mixture: Mixture, first: int = 0, second: int = 1, names: Sequence[str] | None = None) -> Figure:
    """Density of two features (all others summed out), with an ellipse of one deviation for each component."""
    from matplotlib.patches import Ellipse

    if not max(first, second) < mixture.n_features or first == second:
        raise ValueError(f"features {first} and {second} of {mixture.n_features}; expected two that are there.")
    chosen, weights = [first, second], mixture.weights
    means, deviation = mixture.means[:, chosen], np.sqrt(mixture.covariances[:, chosen])
    likely = weights > 0.1 / len(weights)
    low, high = ((means + s * 2.5 * deviation)[likely] for s in (-1, 1))
    x, y = (np.linspace(low[:, i].min(), high[:, i].max(), 160) for i in (0, 1))
    marginal = Mixture.from_parameters(weights / weights.sum(), means, 1 / deviation**2)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    figure = _figure(5, 4.2)
    ax = figure.subplots()
    shown = ax.pcolormesh(x, y, np.exp(marginal.log_prob(points)).reshape(160, 160), cmap="viridis", shading="auto")
    figure.colorbar(shown, ax=ax, label="density")
    for k in np.flatnonzero(likely):
        width, height = 2 * deviation[k]
        ax.add_patch(Ellipse(tuple(means[k]), width, height, fill=False, color="white", linewidth=0.7))
    labels = names or [f"feature {i}" for i in chosen]
    ax.set_xlabel(labels[0], parse_math=False)
    ax.set_ylabel(labels[1], parse_math=False)
    return figure


MARKS = {"drift": "tab:red", "checkpoint": "lightgray", "idle": "tab:olive", "resumed": "tab:olive"}


def curve(events: Sequence[dict[str, Any]], others: Mapping[str, Sequence[dict[str, Any]]] | None = None) -> Figure:
    """Log-likelihood, σ and learning rate over samples, with events marked; ``others`` adds further runs."""
    figure = _figure(7, 5)
    top, bottom = figure.subplots(2, 1, sharex=True)

    def column(rows: Sequence[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
        known = [(r["samples"], r[name]) for r in rows if r.get(name) is not None and r["samples"] > 0]
        return [s for s, _ in known], [v for _, v in known]

    top.plot(*column(events, "max_component"), label="max-component", color="tab:blue")
    top.plot(*column(events, "loss"), label="objective (smoothed on the grid)", color="tab:cyan", linestyle="--")
    for (label, rows), colour in zip((others or {}).items(), ("tab:orange", "tab:red", "tab:brown"), strict=False):
        top.plot(*column(rows, "max_component"), label=label, color=colour, linewidth=1)
    for kind, colour in MARKS.items():
        places = [e["samples"] for e in events if e.get("kind") == kind]
        for i, place in enumerate(places):
            top.axvline(place, color=colour, linewidth=0.8, zorder=0, label=kind if i == 0 else None)
    top.set_ylabel("log-likelihood (nats)")
    top.legend(fontsize=8)
    bottom.plot(*column(events, "sigma"), label="σ", color="tab:green")
    bottom.plot(*column(events, "learning_rate"), label="learning rate", color="tab:purple")
    bottom.set_yscale("log")
    bottom.set_ylabel("σ, learning rate")
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
        ax.set_title(f"σ = {sigma:.3g} (peak {weights.max():.2f})", fontsize=9)
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
