"""The live page: curves, means and strange rows that follow a run."""

from __future__ import annotations

import time
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from bokeh.document import Document
from bokeh.models import ColumnDataSource, HoverTool, Range1d
from bokeh.models.annotations import Legend, LegendItem
from bokeh.models.formatters import NumeralTickFormatter
from bokeh.models.widgets import Div
from bokeh.plotting import figure

from streamgmm.core.grid import Grid
from streamgmm.dashboard.boards import Board
from streamgmm.dashboard.colours import BLUE, GREEN, MARKS, ORANGE, PURPLE, apply_colours
from streamgmm.dashboard.follower import Follower, Model
from streamgmm.dashboard.history import COLUMNS, History
from streamgmm.dashboard.workers import worker_facts

TEMPLATE = (Path(__file__).parent / "page.html").read_text(encoding="utf8")
LABELS = {"max_component": "max-component", "loss": "objective", "sigma": "σ", "learning_rate": "learning rate"}
MILLISECONDS = 2000  # between updates; without a graphics card each takes the browser about 0.2 s
GROWTH, SLOWEST = 1.02, 10.0  # redrawn after 2 % more samples, or after ten seconds
FACTS = "dl { display: grid; grid-template-columns: max-content 1fr; gap: 2px 14px; margin: 4px } dd { margin: 0 }"
STRANGE_COLUMNS = 6


class _Drawn(NamedTuple):
    """What was known when the page was last drawn."""

    time: float = 0.0
    samples: int = 0
    news: tuple[Any, ...] = ()  # the latest mark that is not a checkpoint
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
    document.title = f"streamgmm · {follower.folder.name}"
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
        self.curves = ColumnDataSource({name: [] for name in COLUMNS})
        self._marks = ColumnDataSource({"samples": [], "colour": [], "kind": []})
        self._state = Div(name="state", text="", sizing_mode="stretch_width", css_classes=["state"])
        self._facts = Div(name="facts", text="", sizing_mode="stretch_width", stylesheets=[FACTS])
        tips = [("component", "@number"), ("weight", "@weight{0.00 %}"), ("recent samples", "@share{0.00 %}")]
        self._means = Board("torus", "means on their grid", ("weight", "share", "number"), tips)
        title = "strangest recent samples, with their log-likelihoods"
        tips = [("row", "@number"), ("log-likelihood", "@score{0.0}")]
        self._strange = Board("strange", title, ("score", "number", "label"), tips)
        self._strange.add_labels("label")
        self._axis = Range1d(start=0, end=1)
        self._plots = [
            self._line_figure("likelihood", "log-likelihood (nats)", {"max_component": BLUE, "loss": ORANGE}),
            self._line_figure("annealing", "σ and learning rate", {"sigma": GREEN, "learning_rate": PURPLE}, log=True),
            self._line_figure("throughput", "samples per second", {"rate": BLUE}),
            self._line_figure("live", "live components", {"live": GREEN}),
        ]

    @property
    def roots(self) -> list[Any]:
        """The models that the template embeds."""
        return [self._state, self._facts, self._means.plot, self._strange.plot, *self._plots]

    def _line_figure(self, name: str, title: str, lines: dict[str, str], log: bool = False) -> Any:
        plot: Any = figure(
            name=name, title=title, height=190, sizing_mode="stretch_width", x_range=self._axis,
            y_axis_type="log" if log else "linear", tools="", toolbar_location=None,
        )  # fmt: skip
        plot.vspan(x="samples", line_color="colour", line_width=1.5, source=self._marks)
        plot.xaxis.formatter = NumeralTickFormatter(format="0.[0]a")
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
        self._show_curves(history)
        self._facts.text = facts_html(self._follower)
        if model is self._shown_model and model is not None:
            return
        self._shown_model = model
        if model is None:
            self._means.clear()
            self._strange.clear()
        else:
            self._show_model(model)

    def _is_due(self) -> bool:
        """Return whether enough has changed: drawing takes time from the run, and long runs change slowly."""
        history, drawn = self._follower.history, self._drawn
        marks = [m for m in history.marks if m.get("kind") != "checkpoint"][-1:]
        now = _Drawn(time.monotonic(), history.last.get("samples", 0), tuple(marks), self._follower.model is not None)
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
        marks = [m for m in history.marks if isinstance(m.get("samples"), int)]
        self._marks.data = {
            "samples": [m["samples"] for m in marks],
            "kind": [str(m["kind"]) for m in marks],
            "colour": [MARKS[m["kind"]] for m in marks],
        }

    def _show_model(self, model: Model) -> None:
        number = np.arange(len(model.means))
        self._means.show(model.means, model.grid, weight=model.weights, share=model.usage, number=number)
        count = len(model.strange_rows)
        columns = min(STRANGE_COLUMNS, max(1, count))
        self._strange.show(
            np.nan_to_num(model.strange_rows),
            Grid(max(1, -(-count // columns)), columns),
            score=model.strange_scores,
            number=model.strange_numbers,
            label=[short_number(score) for score in model.strange_scores.tolist()],
        )


def short_number(value: float) -> str:
    """Format a number in about six characters.

    Parameters
    ----------
    value : float
        The number.

    Examples
    --------
    >>> short_number(-1234.5), short_number(0.012345), short_number(-3e20)
    ('-1,234', '0.0123', '-3e+20')
    """
    if abs(value) >= 1e6:
        return f"{value:.0e}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def facts_html(follower: Follower) -> str:
    """Return what is known about a run as an HTML list.

    Parameters
    ----------
    follower : Follower
        Reads the run.
    """
    history, model = follower.history, follower.model
    last, started = history.last, history.facts
    facts: dict[str, str] = {}
    if started:
        facts |= {"source": str(started.get("source", "–")), "rule": str(started.get("rule", "–"))}
        if "shuffled" in started:
            facts["order of rows"] = "shuffled" if started["shuffled"] else "as in the source"
    if model is not None:
        facts["model"] = f"{len(model.means)} components, {model.means.shape[1]:,} features"
        facts["scaling"] = model.scaling
    if last:
        facts["samples"] = f"{last['samples']:,}"
        seconds = last.get("seconds")
        if isinstance(seconds, int | float) and seconds > 0:
            facts["time"] = f"{seconds:,.1f} s, {last['samples'] / seconds:,.0f} samples/s on average"
        if isinstance(last.get("max_component"), int | float):
            scaled = ", of scaled data" if model is not None and model.scaling != "none" else ""
            facts["log-likelihood"] = f"{last['max_component']:,.1f} nats (max-component{scaled})"
        facts["live components"] = str(last.get("live", "–"))
    facts |= worker_facts(history.round)
    drifts = [m["samples"] for m in history.marks if m.get("kind") == "drift" and isinstance(m.get("samples"), int)]
    if drifts:
        facts["drift at"] = ", ".join(f"{d:,}" for d in drifts[-5:])
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"
