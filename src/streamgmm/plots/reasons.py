"""Figures of explanations: which features make rows strange."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from streamgmm.core.explanation import Reason
from streamgmm.plots.canvas import empty_figure
from streamgmm.plots.labels import short_numbers, short_text

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_ROWS = 8


def explanations(rows: Mapping[str, Sequence[Reason]] | Sequence[Sequence[Reason]]) -> Figure:
    """Draw why rows are strange: the share of each feature, with its value and its usual range.

    Parameters
    ----------
    rows : sequence of sequence of Reason, or mapping of str to sequence of Reason
        The reasons of each row, as `streamgmm.Mixture.explain` returns them, or by the name of the row; at most eight
        rows are drawn.

    Returns
    -------
    Figure
        One panel per row, with the most important feature on top.
    """
    if not rows:
        raise ValueError("rows is empty; expected at least one row with reasons.")
    named = rows if isinstance(rows, Mapping) else {f"row {i}": reasons for i, reasons in enumerate(rows)}
    drawn = list(named.items())[:MOST_ROWS]
    figure = empty_figure(7, 0.4 + sum(0.5 + 0.26 * max(1, len(reasons)) for _, reasons in drawn))
    heights = [2 + len(reasons) for _, reasons in drawn]
    axes = figure.subplots(len(drawn), 1, squeeze=False, sharex=True, height_ratios=heights)[:, 0]
    for ax, (name, reasons) in zip(axes, drawn, strict=True):
        places = range(len(reasons))
        ax.barh(places, [100 * reason.share for reason in reasons], color="tab:orange", alpha=0.6)
        names = [r.feature if isinstance(r.feature, str) else f"feature {r.feature}" for r in reasons]
        ax.set_yticks(places, [short_text(text) for text in names], fontsize=8, parse_math=False)
        for place, reason in zip(places, reasons, strict=True):
            value, low, high = short_numbers((reason.value, reason.low, reason.high))
            text = f"{value} (usual: {low} to {high})"
            ax.text(1, place, text, va="center", fontsize=8, parse_math=False)
        ax.set_ylim(len(reasons) - 0.4, -0.6)
        ax.set_title(short_text(name), fontsize=9, loc="left", pad=3, parse_math=False)
    axes[-1].set_xlim(0, 100)
    axes[-1].set_xlabel("share of the strangeness (%)")
    return figure
