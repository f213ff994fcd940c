"""Figures of a training: its curve, the use of components, and the scores of recent rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgmm.native import Floats
from streamgmm.plots.canvas import empty_figure
from streamgmm.plots.labels import id_ticks, short_text
from streamgmm.plots.shares import Bar, flagged_shares

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = {
    "source": "tab:blue",
    "drift": "tab:red",
    "checkpoint": "lightgray",
    "idle": "tab:olive",
    "resumed": "tab:olive",
}


def usage(weights: Floats, shares: Floats) -> Figure:
    """Draw the weight of each component and its share of recent samples; dead components are red.

    Parameters
    ----------
    weights : array of shape (K,)
        Weights of the components.
    shares : array of shape (K,)
        Share of recent samples that each component has won. Below a tenth of an even share it counts as dead.

    Returns
    -------
    Figure
        One panel, with the components in descending order of their shares.
    """
    figure = empty_figure(7, 3)
    ax = figure.subplots()
    order = np.argsort(-np.asarray(shares), kind="stable")
    even = 1 / len(order)
    colours = ["tab:red" if shares[k] < 0.1 * even else "tab:blue" for k in order]
    ax.bar(range(len(order)), 100 * np.asarray(shares)[order], color=colours, label="share of recent samples")
    ax.plot(range(len(order)), 100 * np.asarray(weights)[order], "k.", markersize=4, label="weight")
    ax.axhline(100 * even, color="gray", linewidth=0.8, linestyle="--", label="even share")
    ax.set_xlabel("components, most used first")
    ax.set_ylabel("%")
    ax.legend(fontsize=8)
    return figure


def scores(values: Floats, threshold: float | None = None) -> Figure:
    """Draw a histogram of log-likelihoods.

    Parameters
    ----------
    values : array of shape (N,)
        Log-likelihoods of rows.
    threshold : float or None, default=None
        Value below which a row is an anomaly; it is marked.

    Returns
    -------
    Figure
        One panel. The highest tenth of a percent is drawn at the right edge, and at the left edge all that is far lower
        than usual rows and the threshold: a few outliers would leave one bar for all others.
    """
    figure = empty_figure(6, 3.2)
    ax = figure.subplots()
    low, usual, high = np.quantile(values, [0.001, 0.02, 0.999])
    low = max(low, (usual if threshold is None else min(usual, threshold)) - (high - usual))
    ax.hist(np.clip(values, low, high), bins=60, color="tab:blue", weights=np.full(len(values), 100 / len(values)))
    if threshold is not None:
        ax.axvline(threshold, color="tab:red", label=f"anomalies: below {threshold:.1f}")
        ax.legend(fontsize=8)
    ax.set_xlabel("log-likelihood (nats)")
    ax.set_ylabel("share of samples (%)")
    return figure


def curve(events: Sequence[dict[str, Any]], others: Mapping[str, Sequence[dict[str, Any]]] | None = None) -> Figure:
    """Draw log-likelihood, σ and learning rate over samples, with other events marked.

    Parameters
    ----------
    events : sequence of dict
        Events of a run.
    others : mapping of str to sequence of dict, or None, default=None
        Events of up to three other runs by label, to compare their log-likelihoods.

    Returns
    -------
    Figure
        Two panels: log-likelihoods above, σ and learning rate below. If rows were judged, a third one shows the share
        that was flagged. Where rows have ids or times, those label the axis.
    """
    bars = flagged_shares(*_totals(events))
    figure = empty_figure(7, 6.5 if bars else 5)
    top, bottom, *third = figure.subplots(3 if bars else 2, 1, sharex=True)
    top.plot(*_column(events, "max_component"), label="max-component", color="tab:blue")
    top.plot(*_column(events, "loss"), label="objective (smoothed over the grid)", color="tab:cyan", linestyle="--")
    for (label, rows), colour in zip((others or {}).items(), ("tab:orange", "tab:red", "tab:brown"), strict=False):
        top.plot(*_column(rows, "max_component"), label=label, color=colour, linewidth=1)
    for kind, colour in MARKS.items():
        places = [e["samples"] for e in events if e.get("kind") == kind]
        for i, place in enumerate(places):
            top.axvline(place, color=colour, linewidth=0.8, zorder=0, label=kind if i == 0 else None)
    top.set_ylabel("log-likelihood (nats)")
    top.legend(fontsize=8)
    bottom.plot(*_column(events, "sigma"), label="σ", color="tab:green")
    bottom.plot(*_column(events, "learning_rate"), label="learning rate", color="tab:purple")
    bottom.set_yscale("log")
    bottom.set_ylabel("σ, learning rate")
    bottom.legend(fontsize=8)
    for ax in third:
        _draw_shares(ax, bars, events)
    for ax in figure.axes:
        ax.grid(alpha=0.3)
    _label_samples(figure.axes[-1], events)
    return figure


def _totals(events: Sequence[dict[str, Any]]) -> tuple[list[float], list[float], list[float]]:
    known = [e for e in events if isinstance(e.get("judged"), int) and isinstance(e.get("flagged"), int)]
    samples, judged, flagged = ([float(e[name]) for e in known] for name in ("samples", "judged", "flagged"))
    return samples, judged, flagged


def _draw_shares(ax: Any, bars: Sequence[Bar], events: Sequence[dict[str, Any]]) -> None:
    widths = [bar.right - bar.left for bar in bars]
    ax.bar([bar.left for bar in bars], [100 * bar.share for bar in bars], widths, align="edge", color="tab:orange")
    expected = next((e["expected_share"] for e in reversed(events) if e.get("expected_share")), None)
    if expected is not None:
        ax.axhline(100 * expected, color="gray", linestyle="--", linewidth=0.8, label="expected of typical rows")
        ax.legend(fontsize=8)
    ax.set_ylabel("flagged rows (%)")


def _label_samples(ax: Any, events: Sequence[dict[str, Any]]) -> None:
    """Label the x-axis by samples or, where they are known, by the ids of rows."""
    checks = [e for e in events if e.get("kind") == "check"]
    ticks = id_ticks([e["samples"] for e in checks], [e.get("row_id") for e in checks])
    if ticks:
        words = [short_text(text) for text in ticks.values()]
        ax.set_xticks(list(ticks), words, parse_math=False)
    ax.set_xlabel("rows, by id or time" if ticks else "samples")


def _column(rows: Sequence[dict[str, Any]], name: str) -> tuple[list[int], list[float]]:
    known = [(row["samples"], row[name]) for row in rows if row.get(name) is not None and row["samples"] > 0]
    return [samples for samples, _ in known], [value for _, value in known]
