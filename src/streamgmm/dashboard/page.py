"""The dashboard: curves, means, strange rows and alerts that follow a run."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bokeh.document import Document
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import Legend, LegendItem, Span
from bokeh.models.formatters import NumeralTickFormatter
from bokeh.models.text import PlainText
from bokeh.models.tickers import BasicTicker, FixedTicker
from bokeh.models.widgets import Div
from bokeh.plotting import figure

from streamgmm.core.grid import Grid
from streamgmm.dashboard.boards import Board
from streamgmm.dashboard.colours import BLUE, GREEN, INK, MARKS, ORANGE, PURPLE, RED, apply_colours
from streamgmm.dashboard.follower import Follower, Model
from streamgmm.dashboard.history import COLUMNS, History
from streamgmm.dashboard.texts import alerts_html, component_details, facts_html, strange_html
from streamgmm.plots.labels import id_ticks, row_name, short_number, short_text

TEMPLATE = (Path(__file__).parent / "page.html").read_text(encoding="utf8")
LABELS = {"max_component": "max-component", "loss": "objective", "sigma": "σ", "learning_rate": "learning rate"}
MILLISECONDS = 2000  # between updates; without a graphics card each takes the browser about 0.2 s
GROWTH, SLOWEST = 1.02, 10.0  # redrawn after 2 % more samples, or after ten seconds
LISTS = """
ol { list-style: none; margin: 4px; padding: 0; max-height: 440px; overflow-y: auto }
li { border-top: 1px solid #7b858f55; padding: 5px 0 }
p { margin: 0 0 2px } h2 { font-size: 13px; color: #7b858f; margin: 2px 4px }
table { border-spacing: 0; width: 100%; table-layout: fixed; font-size: 13px }
th { font-weight: 400; text-align: left; width: 38% } td { text-align: right }
th, td { overflow-wrap: anywhere; padding: 0 4px 0 0; vertical-align: top }
td:nth-child(2) { width: 17%; white-space: nowrap } td.share { width: 12%; text-align: left }
i { display: inline-block; height: 8px; background: #d55e00; border-radius: 2px }
"""
FACTS = "dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 4px } dd { margin: 0 }"
STRANGE_COLUMNS = 6
OF_PATCHES = "means of layer 0 on their grid: "
ON_OWN_SCALE = "means on their grid, every column on a scale of its own"
COMPONENT_TIP = """<div>component @number: weight @weight{0.00 %}, recent samples @share{0.00 %}</div>
<div style="white-space: pre">@details</div>"""


class _Drawn(NamedTuple):
    """What was known when the page was last drawn."""

    time: float = 0.0
    samples: int = 0
    news: tuple[Any, ...] = ()  # the latest mark that is not a checkpoint, and the latest alert
    has_model: bool = False


def build(document: Document, follower: Follower) -> None:
    """Add the page to a Bokeh document and keep it up to date.

    Parameters
    ----------
    document : Document
        An empty document.
    follower : Follower
        Reads the run to show.
    """
    page = Page(follower)
    document.template = TEMPLATE  # type: ignore[assignment]
    document.title = f"streamgmm · {follower.name}"
    for root in page.roots:
        document.add_root(root)
    page.update()

    def refresh() -> None:
        document.hold("combine")  # into one message, so that the browser draws once
        try:
            page.update()
        finally:
            document.unhold()

    document.add_periodic_callback(refresh, MILLISECONDS)


class Page:
    """The Bokeh models of the page.

    Parameters
    ----------
    follower : Follower
        Reads the run to show.

    Attributes
    ----------
    curves : ColumnDataSource
        Points of the curves.
    """

    def __init__(self, follower: Follower) -> None:
        self._follower, self._version, self._drawn = follower, -1, _Drawn()
        self._shown_model: Model | None = None
        self._shown_history: History | None = None
        self._shown_points: tuple[int, int] = (0, 0)  # step of the history, and number of points
        self._ticks: dict[float, str] = {}
        self.curves = ColumnDataSource({name: [] for name in COLUMNS})
        self._marks = ColumnDataSource({"samples": [], "colour": [], "kind": []})
        self._state = Div(name="state", text="", sizing_mode="stretch_width", css_classes=["state"])
        self._facts = Div(name="facts", text="", sizing_mode="stretch_width", stylesheets=[FACTS])
        self._means = Board("torus", "means on their grid", ("weight", "share", "number", "details"), COMPONENT_TIP)
        title = "strangest recent samples, with their log-likelihoods"
        tips = [("row", "@number"), ("log-likelihood", "@score{0.0}")]
        self._reasons = Div(name="reasons", text="", sizing_mode="stretch_width", stylesheets=[LISTS], visible=False)
        self._alerts = Div(name="alerts", text="", sizing_mode="stretch_width", stylesheets=[LISTS])
        self._bars = ColumnDataSource({"left": [], "right": [], "share": []})
        self._strange = Board("strange", title, ("score", "number", "label"), tips)
        self._strange.add_labels("label")
        self._axis = Range1d(start=0, end=1)
        self._plots = [
            self._line_figure("likelihood", "log-likelihood (nats)", {"max_component": BLUE, "loss": ORANGE}),
            self._line_figure("annealing", "σ and learning rate", {"sigma": GREEN, "learning_rate": PURPLE}, log=True),
            self._line_figure("throughput", "samples per second", {"rate": BLUE}),
            self._line_figure("live", "live components", {"live": GREEN}),
        ]
        self._expected = Span(dimension="width", line_color=INK, line_dash="dashed", visible=False)
        self._plots.append(self._share_figure())

    @property
    def roots(self) -> list[Any]:
        """The models that the template embeds."""
        boards = [self._means.plot, self._strange.plot, self._reasons]
        return [self._state, self._facts, self._alerts, *boards, *self._plots]

    def _figure(self, name: str, title: str, log: bool = False) -> Any:
        plot: Any = figure(
            name=name, title=title, height=190, sizing_mode="stretch_width", x_range=self._axis,
            y_axis_type="log" if log else "linear", tools="", toolbar_location=None,
        )  # fmt: skip
        plot.vspan(x="samples", line_color="colour", line_width=1.5, source=self._marks)
        plot.xaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        return plot

    def _share_figure(self) -> Any:
        plot = self._figure("anomalies", "flagged rows, of those judged")
        style: dict[str, Any] = {"fill_color": RED, "fill_alpha": 0.6, "line_alpha": 0}
        bars = plot.quad("left", "right", "share", 0, source=self._bars, **style)
        plot.add_layout(self._expected)
        plot.y_range.start = 0
        plot.yaxis.formatter = NumeralTickFormatter(format="0.[0] %")
        tips = [("samples", "@left{0,0} to @right{0,0}"), ("flagged", "@share{0.00 %}")]
        plot.add_tools(HoverTool(renderers=[bars], mode="vline", tooltips=tips))
        apply_colours(plot)
        return plot

    def _line_figure(self, name: str, title: str, lines: dict[str, str], log: bool = False) -> Any:
        plot = self._figure(name, title, log)
        if name in ("throughput", "live"):
            plot.y_range.start = 0
            plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a")
        legend: list[LegendItem] = []
        for (column, colour), dash in zip(lines.items(), ("solid", "dashed"), strict=False):
            label = LABELS.get(column, title)
            style: dict[str, Any] = {"line_color": colour, "line_width": 2, "line_dash": dash}
            line: Any = plot.line("samples", column, source=self.curves, **style)
            if len(lines) > 1:
                legend.append(LegendItem(label=label, renderers=[line]))
            tips = [("samples", "@samples{0,0}"), (label, f"@{column}{{0.000 a}}")]
            plot.add_tools(HoverTool(renderers=[line], mode="vline", tooltips=tips))
        if legend:
            plot.add_layout(Legend(items=legend))
        apply_colours(plot)
        return plot

    def update(self) -> None:
        """Read what is new and show it; nothing is sent to the browser unless something has changed."""
        self._follower.poll()
        self._state.text = f"<span role='status'>{escape(self._follower.state)}</span>"
        if self._follower.version == self._version or not self._is_due():
            return
        self._version = self._follower.version
        history, model = self._follower.history, self._follower.model
        self._state.css_classes = ["state"] if history.last or model is None else ["state", "saved"]
        self._show_curves(history)
        self._show_alerts(history)
        self._facts.text = facts_html(self._follower)
        if model is self._shown_model and model is not None:
            return
        self._shown_model = model
        if model is None:
            self._means.clear()
            self._strange.clear()
            self._reasons.text = ""
        else:
            self._show_model(model)

    def _is_due(self) -> bool:
        """Return whether enough has changed: drawing takes time from the run, and long runs change slowly."""
        history, drawn = self._follower.history, self._drawn
        marks = [m for m in history.marks if m.get("kind") != "checkpoint"][-1:]
        news = (*marks, self._follower.alerts[:1])
        now = _Drawn(time.monotonic(), history.last.get("samples", 0), news, self._follower.model is not None)
        has_grown = now.samples < drawn.samples or now.samples >= GROWTH * drawn.samples
        is_news = now.news != drawn.news or now.has_model != drawn.has_model
        if not has_grown and not is_news and now.time - drawn.time < SLOWEST:
            return False
        self._drawn = now
        return True

    def _show_curves(self, history: History) -> None:
        """Send new points; send all of them only if the curves were thinned or restarted."""
        step, count = self._shown_points
        if history is self._shown_history and history.step == step:
            self.curves.stream({name: values[count:] for name, values in history.points.items()})
        else:
            self.curves.data = {name: list(values) for name, values in history.points.items()}
        samples = history.points["samples"]
        self._shown_history, self._shown_points = history, (history.step, len(samples))
        self._axis.end = max(1, samples[-1] if samples else 1)
        self._label_axes(id_ticks(samples, history.ids))
        marks = [m for m in history.marks if isinstance(m.get("samples"), int)]
        self._marks.data = {
            "samples": [m["samples"] for m in marks],
            "kind": [str(m["kind"]) for m in marks],
            "colour": [MARKS[m["kind"]] for m in marks],
        }

    def _label_axes(self, ticks: dict[float, str]) -> None:
        """Label samples by the ids of their rows, if they have some; an id is never read as a formula."""
        if ticks == self._ticks:
            return
        self._ticks = ticks
        for plot in self._plots:
            plot.xaxis.ticker = FixedTicker(ticks=list(ticks)) if ticks else BasicTicker()
            plot.xaxis.major_label_overrides = {at: PlainText(text=short_text(text)) for at, text in ticks.items()}

    def _show_alerts(self, history: History) -> None:
        """Show the share of flagged rows, and alerts; the page hides both for runs that judge no rows."""
        totals, alerts = history.totals, self._follower.alerts
        self._alerts.css_classes = ["watched"] if totals is not None or alerts else []
        self._alerts.text = alerts_html(alerts)
        bars = history.flagged_shares()
        self._bars.data = {name: [getattr(bar, name) for bar in bars] for name in ("left", "right", "share")}
        expected = None if totals is None else totals.expected
        self._expected.visible, self._expected.location = expected is not None, expected

    def _show_model(self, model: Model) -> None:
        number, means = np.arange(len(model.means)), model.means
        if model.image_shape is None and model.names is not None:  # columns in units of their own
            low, high = means.min(0), means.max(0)
            means = (means - low) / np.where(high > low, high - low, 1)
            self._means.plot.title.text = ON_OWN_SCALE
        if model.stack is not None:
            self._means.plot.title.text = OF_PATCHES + model.stack.layers[0].patch
        known = {"weight": model.weights, "share": model.usage, "number": number, "details": component_details(model)}
        self._means.show(means, model.grid, model.image_shape, **known)
        count = len(model.strange_rows)
        self._reasons.css_classes = [] if count or self._follower.history.last else ["calm"]
        self._strange.plot.visible, self._reasons.visible = not model.reasons, bool(model.reasons)
        self._reasons.text = strange_html(model) if model.reasons else ""
        columns = min(STRANGE_COLUMNS, max(1, count))
        self._strange.show(
            np.nan_to_num(model.strange_rows),
            Grid(max(1, -(-count // columns)), columns),
            model.image_shape,
            score=model.strange_scores,
            number=[row_name(i, n) for i, n in zip(model.strange_ids, model.strange_numbers.tolist(), strict=True)],
            label=[short_number(score) for score in model.strange_scores.tolist()],
        )
