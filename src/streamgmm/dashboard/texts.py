"""What the page says in words, as HTML. Every text from outside is escaped here."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from math import isfinite
from typing import Any

from streamgmm.core.explanation import Reason
from streamgmm.dashboard.alerts import Incident
from streamgmm.dashboard.follower import Follower, Model
from streamgmm.dashboard.stacks import StackState
from streamgmm.dashboard.workers import worker_facts
from streamgmm.plots.labels import row_name, short_number, short_numbers, short_text

COLUMNS = "value, usual range and share of each reason"
MOST_DETAILS = 14  # features of a component that are listed


def reasons_html(reasons: Sequence[Reason]) -> str:
    """Return why a row is strange as an HTML table.

    Parameters
    ----------
    reasons : sequence of Reason
        The reasons, most important first.
    """
    lines = []
    for reason in reasons:
        name = short_text(reason.feature if isinstance(reason.feature, str) else f"feature {reason.feature}")
        width = 100 * min(1.0, max(0.0, reason.share)) if isfinite(reason.share) else 0.0
        value, low, high = short_numbers((reason.value, reason.low, reason.high))
        lines.append(
            f"<tr><th>{escape(name)}</th><td><b>{value}</b></td><td>{low} to {high}</td>"
            f"<td class='share' title='{width:.0f} % of the strangeness'><i style='width:{width:.0f}%'></i></td></tr>"
        )
    return f"<table>{''.join(lines)}</table>" if lines else ""


def alerts_html(alerts: Sequence[Incident]) -> str:
    """Return the latest bursts as an HTML list.

    Parameters
    ----------
    alerts : sequence of Incident
        The bursts, newest first.
    """
    items = []
    for alert in alerts:
        first, last = row_name(alert.first_id, alert.first_row), row_name(alert.last_id, alert.last_row)
        rows = f"{alert.rows:,} row{'s' if alert.rows > 1 else ''}" + (" so far" if alert.is_open else "")
        when = escape(first) if first == last else f"{escape(first)} to {escape(_without_day(last, first))}"
        p_value = "" if alert.p_value is None else f", p = {alert.p_value:.1g}"
        items.append(f"<li><p><b>{when}</b> {rows}{p_value}</p>{reasons_html(alert.reasons)}</li>")
    listed = f"<ol>{''.join(items)}</ol>" if items else "<p>No alerts so far.</p>"
    return f"<h2>alerts, latest first: {COLUMNS}</h2>{listed}"


def _without_day(time: str, other: str) -> str:
    same = len(time) > 11 and time[:11] == other[:11] and time[4:5] == time[7:8] == "-"
    return time[11:] if same else time


def strange_html(model: Model) -> str:
    """Return the strangest recent rows of a table as an HTML list, with the reasons.

    Parameters
    ----------
    model : Model
        The model.
    """
    items = []
    for i, reasons in enumerate(model.reasons):
        name = escape(row_name(model.strange_ids[i], int(model.strange_numbers[i])))
        score = short_number(float(model.strange_scores[i]))
        items.append(f"<li><p><b>{name}</b> log-likelihood {score}</p>{reasons_html(reasons)}</li>")
    return f"<h2>strangest recent rows: {COLUMNS}</h2><ol>{''.join(items)}</ol>"


def component_details(model: Model) -> list[str]:
    """Return, for each component, its means by the names of the features, one per line.

    Parameters
    ----------
    model : Model
        The model.
    """
    if model.image_shape is not None or model.names is None:
        return [""] * len(model.means)
    names = [short_text(name) for name in model.names[:MOST_DETAILS]]
    rest = len(model.names) - len(names)
    more = [f"… and {rest:,} more"] if rest else []
    return [
        "\n".join([*(f"{name}: {short_number(float(v))}" for name, v in zip(names, row, strict=False)), *more])
        for row in model.means
    ]


def _place(mark: dict[str, Any]) -> str:
    row_id = mark.get("row_id")
    return f"{mark['samples']:,}" if row_id is None else row_name(row_id, 0)


def _stack_facts(stack: StackState) -> dict[str, str]:
    """What is known of a stack, one line for each layer."""
    lines = {
        f"layer {number}": f"{layer.progress}; {layer.components} components ({layer.live} live) of {layer.patch}; "
        f"{layer.samples:,} learned"
        for number, layer in enumerate(stack.layers)
    }
    return {"images": f"{stack.n_images:,}", **lines}


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
        facts |= {"source": short_text(started.get("source", "–")), "rule": str(started.get("rule", "–"))}
        if "shuffled" in started:
            facts["order of rows"] = "shuffled" if started["shuffled"] else "as in the source"
    if model is not None and model.stack is not None:
        facts |= _stack_facts(model.stack)
    elif model is not None:
        facts["model"] = f"{len(model.means)} components, {model.means.shape[1]:,} features"
        if model.scaling != "none":
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
    if (totals := history.totals) is not None and totals.judged:
        expected = "" if totals.expected is None else f"; {totals.expected:.2%} of typical rows are expected to be"
        flagged = f"{totals.flagged:,} ({totals.flagged / totals.judged:.2%}) flagged{expected}"
        facts["rows judged"] = f"{totals.judged:,}, {flagged}"
    drifts = [m for m in history.marks if m.get("kind") == "drift" and isinstance(m.get("samples"), int)]
    if drifts:
        facts["drift at"] = ", ".join(_place(m) for m in drifts[-5:])
    return "<dl>" + "".join(f"<dt>{escape(k)}</dt><dd>{escape(v)}</dd>" for k, v in facts.items()) + "</dl>"
