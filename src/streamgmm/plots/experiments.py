"""Figures of experiments: smoothing filters, effects of parameters, the trade-off of a half-life, outliers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from streamgmm.core.grid import Grid, smoothing_matrix
from streamgmm.plots.canvas import empty_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Estimate(Protocol):
    """A mean with its standard deviation."""

    @property
    def mean(self) -> float: ...

    @property
    def std(self) -> float | None: ...


def filters(grid: Grid, sigmas: Sequence[float]) -> Figure:
    """Draw the weights that a sample won by the middle component gives to all components.

    Parameters
    ----------
    grid : Grid
        Layout of the components.
    sigmas : sequence of float
        Widths of the annealing.

    Returns
    -------
    Figure
        One panel per width.
    """
    figure = empty_figure(2.4 * len(sigmas) + 0.6, 2.8)
    middle = grid.rows // 2 * grid.columns + grid.columns // 2
    for ax, sigma in zip(figure.subplots(1, len(sigmas), squeeze=False)[0], sigmas, strict=True):
        weights = smoothing_matrix(grid, sigma)[middle].reshape(grid.rows, grid.columns)
        ax.imshow(weights, cmap="viridis", vmin=0)
        ax.set_title(f"σ = {sigma:.3g} (peak {weights.max():.2f})", fontsize=9)
        ax.set_xticks([])
        ax.set_yticks([])
    return figure


def effects(lines: Mapping[str, Mapping[float, Estimate]], title: str) -> Figure:
    """Draw how a result depends on a parameter, as differences from the best value.

    Parameters
    ----------
    lines : mapping of str to mapping of float to Estimate
        For each line, mean and standard deviation of the result in nats, by value of the parameter.
    title : str
        Label of the x-axis.

    Returns
    -------
    Figure
        One panel with logarithmic axes.
    """
    figure = empty_figure(5, 3.2)
    ax = figure.subplots()
    for (label, values), marker in zip(lines.items(), "osv^Dx*P", strict=False):
        best = max(v.mean for v in values.values())
        x, y = list(values), [v.mean - best for v in values.values()]
        errors = [v.std or 0.0 for v in values.values()]
        ax.errorbar(x, y, yerr=errors, label=label, marker=marker, markersize=4, capsize=2)
    ticks = sorted({x for values in lines.values() for x in values})
    ax.set_xscale("log")
    ax.set_xticks(ticks, [f"{x:g}" for x in ticks], fontsize=8)
    ax.minorticks_off()
    ax.set_yscale("symlog", linthresh=1)
    ax.set_ylim(top=1)
    ax.set_xlabel(title)
    ax.set_ylabel("difference from the best (nats)")
    ax.grid(alpha=0.3)
    ax.legend(fontsize=7)
    return figure


def trade_off(lines: Mapping[str, Mapping[float, tuple[float, float]]]) -> Figure:
    """Draw what a half-life gains on new classes (solid) and loses on all classes (dashed).

    Parameters
    ----------
    lines : mapping of str to mapping of float to tuple of float
        For up to two lines, by half-life: log-likelihood of new classes once learned, and of all classes at the end.

    Returns
    -------
    Figure
        One panel.
    """
    figure = empty_figure(5.5, 3.4)
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


def areas(panels: Mapping[str, Mapping[str, Sequence[float]]]) -> Figure:
    """Draw the area under the ROC curve for each class that was held out.

    Parameters
    ----------
    panels : mapping of str to mapping of str to sequence of float
        For each data set, for each model, areas in percent by class.

    Returns
    -------
    Figure
        One panel for each data set.
    """
    figure = empty_figure(3.6 * len(panels) + 0.6, 3.6)
    row = figure.subplots(1, len(panels), sharey=True, squeeze=False)[0]
    for ax, (title, lines) in zip(row, panels.items(), strict=True):
        for (label, values), marker in zip(lines.items(), "osv^Dx*P", strict=False):
            ax.plot(range(len(values)), values, marker=marker, markersize=4, linewidth=0.8, label=label)
        ax.axhline(50, color="lightgray")
        ax.set_xticks(range(max(map(len, lines.values()))))
        ax.set_xlabel("class held out")
        ax.set_title(title, fontsize=10)
        ax.grid(alpha=0.3)
    row[0].set_ylabel("area under the ROC curve (%)")
    figure.legend(*row[0].get_legend_handles_labels(), loc="outside lower center", ncols=4, fontsize=8)
    return figure
