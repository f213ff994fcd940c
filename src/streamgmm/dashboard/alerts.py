"""The latest alerts of a run, as the page lists them."""

from __future__ import annotations

import json
from contextlib import suppress
from math import isfinite, nan
from pathlib import Path
from typing import Any, NamedTuple

from streamgmm.core.explanation import Reason

TAIL_BYTES = 1 << 18  # of the file; some hundred alerts
MOST = 30  # bursts on the page
MOST_REASONS = 5
STATES = ("open", "row", "close")
PlainId = str | int | float | None


class Incident(NamedTuple):
    """A burst of anomalous rows, as far as its alerts tell.

    Parameters
    ----------
    id : str
        Id of the burst.
    is_open : bool
        Whether more rows may follow.
    first_row, last_row : int
        Numbers of the first and the last row that an alert was about.
    first_id, last_id : str, int, float or None
        Their ids or times, if the source has some.
    rows : int
        Number of anomalous rows known.
    p_value : float or None
        The smallest p-value known.
    reasons : tuple of Reason
        The features that made the first row strange, most important first.
    """

    id: str
    is_open: bool
    first_row: int
    last_row: int
    first_id: PlainId
    last_id: PlainId
    rows: int
    p_value: float | None
    reasons: tuple[Reason, ...]


def read_alerts(path: Path) -> list[Incident]:
    """Return the latest bursts, newest first, from the end of a file of alerts; none if it cannot be read.

    Parameters
    ----------
    path : Path
        The file. Lines that are no alerts, such as its heading, are ignored.
    """
    try:
        with path.open("rb") as file:
            start = max(0, file.seek(0, 2) - TAIL_BYTES)
            file.seek(start)
            lines = file.read(TAIL_BYTES).split(b"\n")
    except OSError:
        return []
    found: dict[str, Incident] = {}
    for line in lines[1 if start else 0 : -1]:  # the first may be cut, and the last is still being written
        with suppress(ValueError, RecursionError, TypeError, KeyError, OverflowError):
            _take(found, json.loads(line))
    return list(found.values())[: -MOST - 1 : -1]


def _take(found: dict[str, Incident], alert: dict[str, Any]) -> None:
    """Add what one alert tells; raise an exception if it is damaged."""
    name, state, row, row_id = alert["id"], alert["state"], int(alert["row"]), alert.get("row_id")
    if not isinstance(name, str) or state not in STATES or not isinstance(row_id, PlainId):
        raise ValueError("not an alert")
    known = found.get(name)
    if state == "close":
        reasons = () if known is None else known.reasons
        first, first_id = int(alert["first_row"]), alert.get("first_id")
        first_id = first_id if isinstance(first_id, PlainId) else None
        smallest = _number(alert.get("min_p_value"))
        found[name] = Incident(name, False, first, row, first_id, row_id, int(alert["count"]), smallest, reasons)
        return
    p_value = _number(alert.get("p_value"))
    if known is None or state == "open":  # an alert that was sent again is the same one
        found[name] = Incident(name, state == "open", row, row, row_id, row_id, 1, p_value, _reasons(alert))
    elif row > known.last_row:
        smallest = min((p for p in (known.p_value, p_value) if p is not None), default=None)
        found[name] = known._replace(last_row=row, last_id=row_id, rows=known.rows + 1, p_value=smallest)


def _reasons(alert: dict[str, Any]) -> tuple[Reason, ...]:
    numbers = ("share", "value", "expected", "low", "high")
    return tuple(
        Reason(reason["feature"], *(nan if (v := _number(reason.get(name))) is None else v for name in numbers))
        for reason in alert.get("explain", [])[:MOST_REASONS]
        if isinstance(reason["feature"], str | int)
    )


def _number(value: Any) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    return float(value) if known else None
