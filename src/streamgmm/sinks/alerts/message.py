"""What an alert says, as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

from streamgmm.core.explanation import Reason
from streamgmm.monitoring.bursts import Burst, PlainId, plain_id

_ENCODER = json.JSONEncoder(allow_nan=False)
LONGEST_TEXT, MOST_REASONS = 500, 100  # so that every broker accepts an alert


class Alert(NamedTuple):
    """A message about an anomalous row, or about a burst of them.

    A message that is repeated after a crash has the same ``id``, ``state`` and ``row``.

    Parameters
    ----------
    id : str
        Id of the burst.
    state : {"open", "row", "close"}
        Whether a burst begins with this row, the row is anomalous, or the burst is over.
    run : str
        Name of the run.
    row : int
        Number of the row in its source; of a burst that is over, the last anomalous one.
    row_id : str, int, float or None, default=None
        Id or time of the row, if the source has one.
    score : float or None, default=None
        Log-likelihood of the row.
    threshold : float or None, default=None
        Score below which a row is anomalous.
    p_value : float or None, default=None
        Probability that an ordinary row scores as low.
    component : int or None, default=None
        Number of the nearest component.
    explain : sequence of Reason, default=()
        The features that make the row strange, most important first.
    burst : Burst or None, default=None
        The burst that is over; None otherwise.

    Examples
    --------
    >>> alert = Alert("plant:7", "open", "plant", 7, score=-41.5, threshold=-20.0, p_value=1e-5, component=3)
    >>> encode_alert(alert).decode()
    '{"id": "plant:7", "state": "open", "run": "plant", "row": 7, "row_id": null, "score": -41.5, "threshold": -20.0, \
"p_value": 1e-05, "component": 3, "explain": []}\\n'
    """

    id: str
    state: Literal["open", "row", "close"]
    run: str
    row: int
    row_id: PlainId = None
    score: float | None = None
    threshold: float | None = None
    p_value: float | None = None
    component: int | None = None
    explain: Sequence[Reason] = ()
    burst: Burst | None = None


def close_alert(run: str, burst: Burst) -> Alert:
    """Return the message that a burst is over.

    Parameters
    ----------
    run : str
        Name of the run.
    burst : Burst
        The burst.

    Examples
    --------
    >>> burst = Burst("plant:7", 2, 7, 9, "10:00", "10:02", 1e-5)
    >>> encode_alert(close_alert("plant", burst)).decode()
    '{"id": "plant:7", "state": "close", "run": "plant", "row": 9, "row_id": "10:02", "count": 2, "first_row": 7, \
"last_row": 9, "first_id": "10:00", "last_id": "10:02", "min_p_value": 1e-05}\\n'
    """
    return Alert(burst.id, "close", run, burst.last_row, burst.last_id, burst=burst)


def encode_alert(alert: Alert) -> bytes:
    """Return an alert as one line of JSON in ASCII; NaN and infinity become null, and long texts are cut.

    Parameters
    ----------
    alert : Alert
        The message.
    """
    try:
        return _ENCODER.encode(_fields(alert)).encode() + b"\n"
    except (TypeError, ValueError):  # NaN, infinity, or numbers of NumPy
        return _ENCODER.encode(_plain(_fields(alert))).encode() + b"\n"


def _fields(alert: Alert) -> dict[str, Any]:
    found = {
        "id": alert.id,
        "state": alert.state,
        "run": _cut(alert.run),
        "row": alert.row,
        "row_id": _cut(plain_id(alert.row_id)),
    }
    if (burst := alert.burst) is None:
        reasons = [{**reason._asdict(), "feature": _cut(reason.feature)} for reason in alert.explain[:MOST_REASONS]]
        return found | {
            "score": alert.score,
            "threshold": alert.threshold,
            "p_value": alert.p_value,
            "component": alert.component,
            "explain": reasons,
        }
    return found | {
        "count": burst.rows,
        "first_row": burst.first_row,
        "last_row": burst.last_row,
        "first_id": _cut(plain_id(burst.first_id)),
        "last_id": _cut(plain_id(burst.last_id)),
        "min_p_value": burst.min_p_value,
    }


def _cut(value: Any) -> Any:
    """Return a long text cut; everything else as it is."""
    return value[: LONGEST_TEXT - 1] + "…" if isinstance(value, str) and len(value) > LONGEST_TEXT else value


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, list) else plain_id(value)
