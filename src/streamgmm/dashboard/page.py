"""The page: figures that follow a run."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from bokeh.document import Document
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import Legend, LegendItem
from bokeh.models.formatters import NumeralTickFormatter
from bokeh.models.widgets import Div
from bokeh.plotting import figure

from streamgmm.dashboard.reading import COLUMNS, Follower, History, Model
from streamgmm.plots import image_shape

TEMPLATE = (Path(__file__).parent / "page.html").read_text(encoding="utf8")
INK, FAINT = "#7b858f", "#7b858f55"  # legible on white and on black
BLUE, ORANGE, GREEN, RED, PURPLE = "#4f8fcf", "#e69f00", "#1b9e77", "#d55e00", "#9a7fd1"  # told apart by all eyes
MARK_COLOURS = {
    "annealed": PURPLE,
    "drift": RED,
    "checkpoint": FAINT,
    "idle": ORANGE,
    "resumed": GREEN,
    "stop": INK,
    "end": INK,
}
LABELS = {"max_component": "max-component", "loss": "objective", "sigma": "σ", "learning_rate": "learning rate"}
MILLISECONDS = 2000  # a browser without a graphics card works for a fifth of a second at each
GROWTH, SLOWEST = 1.02, 10.0  # painted anew after 2 % more samples, or ten seconds
FACTS = "dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 4px } dd { margin: 0 }"
CELL = 64  # most pixels of a mean on the page: more would only cost time


def build(document: Document, follower: Follower) -> None:
    """Puts the page into a document and keeps it up to date."""
    page = _Page(follower)
    document.template = TEMPLATE  # type: ignore[assignment]
    document.title = f"streamgmm · {follower.folder.name}"
    for root in page.roots:
        document.add_root(root)
    page.update()

    def refresh() -> None:
        document.hold("combine")  # one message, so that the browser paints once
        try:
            page.update()
        finally:
            document.unhold()

    document.add_periodic_callback(refresh, MILLISECONDS)


class _Page:
    def __init__(self, follower: Follower) -> None:
        self._follower, self._shown = follower, -1
        self._shown_model: Model | None = None
        self._painted: tuple[float, int, list[dict[str, Any]], Model | None] = (0.0, 0, [], None)
        self._shown_points: tuple[int, int, int] = (0, 0, 0)  # of which history, thinned how much, how many
        self._curve = ColumnDataSource({name: [] for name in COLUMNS})
        self._marks = ColumnDataSource({"samples": [], "colour": [], "kind": []})
        self._cells = ColumnDataSource({n: [] for n in ("x", "y", "weight", "share", "number")})
        self._means = ColumnDataSource({"image": []})
        self._lines = ColumnDataSource({"xs": [], "ys": []})
        self._odd = ColumnDataSource({"image": []})
        self._odd_lines = ColumnDataSource({"xs": [], "ys": []})
        self._odd_cells = ColumnDataSource({n: [] for n in ("x", "y", "score", "number", "label")})
        self._state = Div(name="state", text="", sizing_mode="stretch_width", css_classes=["state"])
        self._facts = Div(name="facts", text="", sizing_mode="stretch_width", stylesheets=[FACTS])
        self._torus = _board("torus", "means on their grid", self._means, self._lines)
        cells = self._torus.rect("x", "y", 1, 1, source=self._cells, fill_alpha=0, line_alpha=0)
        tips = [("component", "@number"), ("weight", "@weight{0.00 %}"), ("recent samples", "@share{0.00 %}")]
        self._torus.add_tools(HoverTool(renderers=[cells], tooltips=tips))
        title = "strangest recent samples, with their log-likelihoods"
        self._strange = _board("strange", title, self._odd, self._odd_lines)
        spots = self._strange.rect("x", "y", 1, 1, source=self._odd_cells, fill_alpha=0, line_alpha=0)
        self._strange.text(
            "x", "y", "label", source=self._odd_cells, text_align="center", text_color="white", y_offset=26,
            text_font_size="11px", background_fill_color="#000000aa", padding=2,
        )  # fmt: skip
        odd_tips = [("row", "@number"), ("log-likelihood", "@score{0.0}")]
        self._strange.add_tools(HoverTool(renderers=[spots], tooltips=odd_tips))
        self._axis = Range1d(start=0, end=1)
        self._curves = [
            self._line_figure("likelihood", "log-likelihood (nats)", {"max_component": BLUE, "loss": ORANGE}),
            self._line_figure("annealing", "σ and learning rate", {"sigma": GREEN, "learning_rate": PURPLE}, log=True),
            self._line_figure("throughput", "samples a second", {"rate": BLUE}),
            self._line_figure("live", "live components", {"live": GREEN}),
        ]

    @property
    def roots(self) -> list[Any]:
        return [self._state, self._facts, self._torus, self._strange, *self._curves]

    def _line_figure(self, name: str, title: str, lines: dict[str, str], log: bool = False) -> Any:
        plot: Any = figure(name=name, title=title, height=190, sizing_mode="stretch_width", x_range=self._axis,
                      y_axis_type="log" if log else "linear", tools="", toolbar_location=None)  # fmt: skip
        plot.vspan(x="samples", line_color="colour", line_width=1.5, source=self._marks)
        plot.xaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        if name in ("throughput", "live"):
            plot.y_range.start = 0
            plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        dashes = ("solid", "dashed")
        legend: list[LegendItem] = []
        for (column, colour), dash in zip(lines.items(), dashes, strict=False):
            label = LABELS.get(column, title)
            style: dict[str, Any] = {"line_color": colour, "line_width": 2, "line_dash": dash}
            drawn: Any = plot.line("samples", column, source=self._curve, **style)
            if len(lines) > 1:
                legend.append(LegendItem(label=label, renderers=[drawn]))
            tips = [("samples", "@samples{0,0}"), (label, f"@{column}{{0.000 a}}")]
            plot.add_tools(HoverTool(renderers=[drawn], mode="vline", tooltips=tips))
        if legend:
            plot.add_layout(Legend(items=legend))
        _quiet(plot)
        return plot

    def update(self) -> None:
        """Reads what is new and shows it; nothing is sent to the page unless something has changed."""
        self._follower.look()
        self._state.text = f"<span role='status'>{escape(self._follower.state)}</span>"
        if self._follower.version == self._shown or not self._worth_painting():
            return
        self._shown = self._follower.version
        history, model = self._follower.history, self._follower.model
        self._show_curves(history)
        last = history.points["samples"][-1] if history.points["samples"] else 1
        self._axis.end = max(1, last)
        marks = [m for m in history.marks if isinstance(m.get("samples"), int)]
        self._marks.data = {
            "samples": [m["samples"] for m in marks],
            "kind": [str(m["kind"]) for m in marks],
            "colour": [MARK_COLOURS[m["kind"]] for m in marks],
        }
        self._facts.text = _facts(self._follower)
        if model is self._shown_model and model is not None:
            return
        self._shown_model = model
        if model is None:
            nothing = np.empty((0, 0), np.float32)
            for images, lines in ((self._means, self._lines), (self._odd, self._odd_lines)):
                _show(nothing, 1, 1, images, lines)
            return
        self._show_means(model)
        self._show_strange(model)

    def _worth_painting(self) -> bool:
        """Whether enough has happened: the longer a run, the less a moment changes, and painting takes time from it."""
        history, now = self._follower.history, time.monotonic()
        samples = history.last.get("samples", 0)
        news = [m for m in history.marks if m.get("kind") != "checkpoint"][-1:]
        painted, shown, known, model = self._painted
        grown = samples < shown or samples >= GROWTH * shown
        fresh = news != known or (model is None) != (self._follower.model is None)
        if not grown and not fresh and now - painted < SLOWEST:
            return False
        self._painted = (now, samples, news, self._follower.model)
        return True

    def _show_curves(self, history: History) -> None:
        """Sends what is new; everything only after the curves were thinned or begun anew."""
        *of, count = self._shown_points
        if of == [id(history), history.step]:
            self._curve.stream({name: values[count:] for name, values in history.points.items()})
        else:
            self._curve.data = {name: list(values) for name, values in history.points.items()}
        self._shown_points = (id(history), history.step, len(history.points["samples"]))

    def _show_means(self, model: Model) -> None:
        rows, columns = model.grid
        _size(self._torus, rows, columns)
        _show(model.means, rows, columns, self._means, self._lines)
        at = np.arange(len(model.means))
        self._cells.data = {
            "x": at % columns + 0.5,
            "y": rows - at // columns - 0.5,
            "weight": model.weights,
            "share": model.usage,
            "number": at,
        }

    def _show_strange(self, model: Model) -> None:
        count = len(model.odd_rows)
        columns = min(6, max(1, count))
        rows = max(1, -(-count // columns))
        _size(self._strange, rows, columns)
        _show(np.nan_to_num(model.odd_rows), rows, columns, self._odd, self._odd_lines)
        at = np.arange(count)
        self._odd_cells.data = {
            "x": at % columns + 0.5,
            "y": rows - at // columns - 0.5,
            "score": model.odd_scores,
            "number": model.odd_numbers,
            "label": [_short(s) for s in model.odd_scores.tolist()],
        }


def _board(name: str, title: str, images: ColumnDataSource, lines: ColumnDataSource) -> Any:
    plot = figure(name=name, title=title, sizing_mode="scale_width", tools="", toolbar_location=None,
                  x_range=Range1d(start=0, end=1), y_range=Range1d(start=0, end=1))  # fmt: skip
    images.data = {"image": [], "dw": [], "dh": []}
    plot.image_rgba("image", x=0, y=0, dw="dw", dh="dh", source=images)
    plot.multi_line("xs", "ys", source=lines, line_color=BLUE, line_width=1)
    plot.axis.visible = False
    plot.grid.visible = False
    _quiet(plot)
    return plot


def _size(plot: Any, rows: int, columns: int) -> None:
    plot.x_range.end, plot.y_range.end = columns, rows
    plot.aspect_ratio = columns / (rows + 0.3)  # and a line for the title


def _show(
    rows: npt.NDArray[np.float32], down: int, across: int, images: ColumnDataSource, lines: ColumnDataSource
) -> None:
    """Images as one mosaic, other vectors as a line in each cell."""
    shape = image_shape(rows.shape[1]) if rows.size else None
    if shape is None:
        images.data = {"image": [], "dw": [], "dh": []}
        lines.data = _sparks(rows, down, across)
        return
    lines.data = {"xs": [], "ys": []}
    images.data = {"image": [mosaic(rows, shape, down, across)], "dw": [across], "dh": [down]}


def mosaic(rows: npt.NDArray[np.float32], shape: tuple[int, ...], down: int, across: int) -> npt.NDArray[np.uint32]:
    """All pictures in one, bottom row first, as Bokeh wants them: one 32-bit number a pixel."""
    thin = max(1, shape[0] // CELL)
    pictures = np.full((down * across, *shape), np.nan, np.float32)
    pictures[: len(rows)] = rows.reshape(len(rows), *shape)
    pictures = pictures[:, ::thin, ::thin]
    low, high = float(rows.min()), float(rows.max())
    if len(shape) == 3:
        low, high = 0.0, 1.0
    gray = np.clip((pictures - low) / (high - low if high > low else 1), 0, 1)
    there = ~np.isnan(gray)
    bytes_ = (255 * np.nan_to_num(gray)).astype(np.uint8)
    if len(shape) == 2:
        bytes_, there = np.repeat(bytes_[..., None], 3, axis=-1), there[..., None]
    colours = np.concatenate([bytes_, np.where(there[..., :1], 255, 0).astype(np.uint8)], axis=-1)
    height, width = colours.shape[1:3]
    whole = colours.reshape(down, across, height, width, 4).transpose(0, 2, 1, 3, 4).reshape(down * height, -1, 4)
    return np.ascontiguousarray(whole[::-1]).view(np.uint32).reshape(down * height, across * width)


def _sparks(rows: npt.NDArray[np.float32], down: int, across: int) -> dict[str, list[Any]]:
    if not rows.size:
        return {"xs": [], "ys": []}
    thin = max(1, rows.shape[1] // 200)
    some = rows[:, ::thin]
    low, high = float(np.quantile(some, 0.001)), float(np.quantile(some, 0.999))
    heights = 0.1 + 0.8 * np.clip((some - low) / (high - low if high > low else 1), 0, 1)
    along = np.linspace(0.08, 0.92, some.shape[1])
    return {
        "xs": [along + k % across for k in range(len(some))],
        "ys": [heights[k] + down - 1 - k // across for k in range(len(some))],
    }


def _short(score: float) -> str:
    """Three digits that matter, and no more than six characters or so."""
    if abs(score) >= 1e6:
        return f"{score:.0e}"
    return f"{score:,.0f}" if abs(score) >= 100 else f"{score:.3g}"


def _quiet(plot: Any) -> None:
    """Colours that serve a light page and a dark one."""
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


def _facts(follower: Follower) -> str:
    history, model = follower.history, follower.model
    last, start = history.last, history.facts
    facts: dict[str, str] = {}
    if start:
        facts |= {"source": str(start.get("source", "–")), "rule": str(start.get("rule", "–"))}
    if model is not None:
        facts["model"] = f"{len(model.means)} components, {model.means.shape[1]:,} features"
        facts["scale"] = str(model.facts.get("scale", "none"))
    if last:
        facts["samples"] = f"{last['samples']:,}"
        seconds = last.get("seconds")
        if isinstance(seconds, int | float) and seconds > 0:
            facts["time"] = f"{seconds:,.1f} s, {last['samples'] / seconds:,.0f} samples/s on average"
        if isinstance(last.get("max_component"), int | float):
            facts["log-likelihood"] = f"{last['max_component']:,.1f} nats (max-component)"
        facts["live components"] = str(last.get("live", "–"))
    drifts = [m["samples"] for m in history.marks if m.get("kind") == "drift" and isinstance(m.get("samples"), int)]
    if drifts:
        facts["drift at"] = ", ".join(f"{d:,}" for d in drifts[-5:])
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"
