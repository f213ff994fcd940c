"""The alerts on the page: the latest of them, whatever the file holds, and as text only."""

from __future__ import annotations

import json
import tracemalloc
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from streamgmm.core.explanation import Reason
from streamgmm.dashboard.alerts import MOST, TAIL_BYTES, Incident, read_alerts
from streamgmm.dashboard.texts import alerts_html
from streamgmm.monitoring import Burst
from streamgmm.sinks.alerts import Alert, close_alert
from streamgmm.sinks.alerts.message import encode_alert
from streamgmm.storage.alert_log import ALERTS, AlertLog

FLOW = Reason("flow", 0.9, 87.7, 0.2, -1.6, 2.1)
EVIL = "<img src=x onerror=alert(1)>&\x1b[31m\u202e'\""


def written(folder: Path, *alerts: Alert) -> Path:
    log = AlertLog(folder)
    log.append([encode_alert(alert) for alert in alerts])
    log.close()
    return folder / ALERTS


def opened(row: int, **fields: Any) -> Alert:
    return Alert(f"run:{row}", "open", "run", row, f"10:{row:02}", p_value=0.001, **fields)


def test_bursts_that_are_open_and_over(tmp_path: Path) -> None:
    burst = Burst("run:5", 3, 5, 9, "10:05", "10:09", 1e-6)
    path = written(tmp_path, opened(5, explain=[FLOW]), close_alert("run", burst), opened(20, explain=[FLOW]))
    assert read_alerts(path) == [
        Incident("run:20", True, 20, 20, "10:20", "10:20", 1, 0.001, (FLOW,)),
        Incident("run:5", False, 5, 9, "10:05", "10:09", 3, 1e-6, (FLOW,)),
    ]


def test_messages_for_every_row_and_repeats(tmp_path: Path) -> None:
    rows = [Alert("run:5", "row", "run", n, p_value=p) for n, p in ((5, 0.01), (6, 0.001), (8, 0.02), (6, 0.001))]
    assert read_alerts(written(tmp_path, *rows)) == [Incident("run:5", False, 5, 8, None, None, 3, 0.001, ())]


@pytest.mark.parametrize(
    "line",
    [
        b"not json",
        b"[" * 100_000,
        b"[1, 2]",
        b"{}",
        b'{"id": 7, "state": "open", "row": 1}',
        b'{"id": "a", "state": "other", "row": 1}',
        b'{"id": "a", "state": "open", "row": 1e999}',
        b'{"id": "a", "state": "open", "row": 1, "row_id": {"a": 1}}',
        b'{"id": "a", "state": "open", "row": 1, "explain": [7]}',
        b'{"id": "a", "state": "close", "row": 1, "count": "many", "first_row": 1}',
        b"\xff\xfe",
    ],
)
def test_lines_that_are_no_alerts(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, opened(5))
    path.write_bytes(path.read_bytes() + line + b"\n" + encode_alert(opened(6)) + encode_alert(opened(7))[:40])
    assert [alert.first_row for alert in read_alerts(path)] == [6, 5]


def test_only_the_end_of_a_long_file_is_read(tmp_path: Path) -> None:
    line = encode_alert(opened(0, explain=[FLOW] * 20))
    path = tmp_path / ALERTS
    with path.open("wb") as file:
        for row in range(20 * TAIL_BYTES // len(line)):
            file.write(encode_alert(opened(row, explain=[FLOW] * 20)))
    tracemalloc.start()
    alerts = read_alerts(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [alert.first_row for alert in alerts] == list(range(row, row - MOST, -1))
    assert peak < 8 * TAIL_BYTES
    path.write_bytes(b"x" * 2 * TAIL_BYTES)
    assert read_alerts(path) == []
    assert read_alerts(tmp_path / "nothing") == read_alerts(tmp_path) == []


class Tags(HTMLParser):
    """Names of elements and attributes, and all text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: set[str] = set()
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found |= {tag, *(name for name, _ in attrs)}

    def handle_data(self, data: str) -> None:
        self.text += data


def test_texts_from_outside_are_text(tmp_path: Path) -> None:
    alert = Alert(EVIL, "open", EVIL, 3, EVIL, p_value=0.5, explain=[FLOW._replace(feature=EVIL)])
    shown = Tags(alerts_html(read_alerts(written(tmp_path, alert))))
    assert shown.found == {"h2", "ol", "li", "p", "b", "table", "tr", "th", "td", "i", "class", "title", "style"}
    assert shown.text.count("<img src=x onerror=alert(1)>&�[31m�'\"") == 2


def test_what_is_said_about_a_burst() -> None:
    burst = Incident("a", False, 5, 9, "2026-01-01T10:05:00", "2026-01-01T11:00:00", 3, 1e-6, (FLOW,))
    text = Tags(alerts_html([burst])).text
    assert "2026-01-01 10:05:00 to 11:00:00 3 rows, p = 1e-06" in text
    assert "flow87.7-1.6 to 2.1" in text
    text = Tags(alerts_html([burst._replace(is_open=True, first_id=None, last_id=None, rows=1, reasons=())])).text
    assert "row 5 to row 9 1 row so far" in text
    unknown = burst._replace(reasons=(Reason(3, float("nan"), float("nan"), 0, -1.0, 1.0),), p_value=None)
    assert "feature 3–-1 to 1" in Tags(alerts_html([unknown])).text
    assert "No alerts so far." in alerts_html([])


def test_null_in_a_reason_is_unknown(tmp_path: Path) -> None:
    alert = json.loads(encode_alert(opened(5, explain=[FLOW])))
    alert["explain"][0]["value"] = None
    path = tmp_path / ALERTS
    path.write_text(json.dumps(alert) + "\n")
    [found] = read_alerts(path)
    assert found.reasons[0].value != found.reasons[0].value
    assert found.reasons[0][3:] == FLOW[3:]
