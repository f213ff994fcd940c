"""What alerts look like."""

from __future__ import annotations

import io
import json
import os
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm.core.explanation import Reason
from streamgmm.monitoring import Burst
from streamgmm.sinks.alerts import Alert, AlertError, close_alert, encode_alert, open_target
from tests.sinks.receivers import alerts, rows


def decode(alert: Alert) -> dict[str, Any]:
    line = encode_alert(alert)
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    return json.loads(line, parse_constant=pytest.fail)


def test_an_anomalous_row() -> None:
    reason = Reason("temperature", 0.75, 90.0, 20.0, 15.0, np.inf)
    alert = Alert("run:3", "open", "run", 3, datetime(2026, 1, 1), -30.0, np.nan, 1e-6, 4, [reason])
    assert decode(alert) == {
        "id": "run:3",
        "state": "open",
        "run": "run",
        "row": 3,
        "row_id": "2026-01-01T00:00:00",
        "score": -30.0,
        "threshold": None,
        "p_value": 1e-6,
        "component": 4,
        "explain": [
            {"feature": "temperature", "share": 0.75, "value": 90.0, "expected": 20.0, "low": 15.0, "high": None}
        ],
    }


def test_a_burst_that_is_over() -> None:
    found = decode(close_alert("run", Burst("run:3", 5, 3, 9, "a", "b", 1e-6, 30)))
    assert found == {
        "id": "run:3",
        "state": "close",
        "run": "run",
        "row": 9,
        "row_id": "b",
        "count": 5,
        "first_row": 3,
        "last_row": 9,
        "first_id": "a",
        "last_id": "b",
        "min_p_value": 1e-6,
    }


@given(st.text(max_size=100), st.floats(), st.one_of(st.text(), st.integers(), st.floats(), st.datetimes()))
def test_no_text_escapes(text: str, value: float, row_id: Any) -> None:
    """Every alert is one line of printable ASCII, whatever names and values a source brings."""
    reason = Reason(text, value, value, value, value, value)
    alert = Alert(f"{text}:1", "row", text, 1, row_id, value, value, value, 0, [reason])
    assert encode_alert(alert).decode("ascii").rstrip("\n").isprintable()
    assert decode(alert)["run"] == text


def test_alerts_fit_into_a_message() -> None:
    reasons = [Reason("\x1b" * 10_000, *[1 / 3] * 5)] * 5000
    assert len(encode_alert(Alert("r:1", "row", "r", 1, "é" * 10**7, explain=reasons))) < 600_000
    assert decode(Alert("r:1", "row", "r", 1, "é" * 501))["row_id"] == "é" * 499 + "…"


def test_long_ids_stay_unique() -> None:
    run = "r" * 600
    ids = {decode(Alert(f"{run}:{row}", "row", run, row))["id"] for row in range(3)}
    assert ids == {f"{run}:{row}" for row in range(3)}


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    open_target(str(path)).send([b"1\n", b"2\n"])
    assert os.read(reader, 100) == b"1\n2\n"
    os.close(reader)


def test_a_stream() -> None:
    out = io.StringIO()
    target = open_target("-", out)
    target.send([encode_alert(alert) for alert in alerts(2)])
    assert rows(out.getvalue().encode().splitlines()) == [0, 1]
    out.close()
    with pytest.raises(BrokenPipeError):
        target.send([b"{}\n"])


def test_a_file(tmp_path: Path) -> None:
    path = tmp_path / "out.ndjson"
    target = open_target(str(path))
    target.send([b"1\n"])
    with path.open("ab") as file:
        file.write(b"torn")
    target.send([b"2\n", b"3\n"])
    assert path.read_bytes() == b"1\ntorn\n2\n3\n"
    path.rename(tmp_path / "rotated")
    target.send([b"4\n"])
    assert path.read_bytes() == b"4\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://me:s3cret@host/x", r"'ftp://host/x' is not a target of alerts; expected a file"),
        ("", "'' is not a target"),
        ("-", "'-' is not a target"),
        ("a\x1b[2J", r"'a\\x1b\[2J' is not a target"),
        ("no/such/folder/x", "is in a folder that does not exist"),
        (".", "is a folder"),
        ("http://", "is not an address; expected https://"),
        ("https:///s3cret", "is not an address"),
        ("http://host/s3cret path", "http://host/… is not an address"),
        ("http://host/s3cret\n", "http://host/… is not an address"),
        ("http://host:99999/s3cret", "the port of host is not a number below 65536"),
    ],
)
def test_targets_that_are_none(text: str, message: str) -> None:
    with pytest.raises(AlertError, match=message) as caught:
        open_target(text)
    assert "s3cret" not in str(caught.value)
    assert str(caught.value).isprintable()
