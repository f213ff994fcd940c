"""Alerts to a webhook that fails in every way."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from streamgmm.sinks.alerts import DeliveryError, Outbox, encode_alert, open_target
from tests.sinks.receivers import LONG, OK, Answer, Messages, Receiver, alerts


@pytest.fixture(autouse=True)
def without_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", "*")


def refusal(answer: Answer) -> DeliveryError:
    with Receiver(lambda _: answer) as receiver:
        with pytest.raises(DeliveryError) as caught:
            open_target(receiver.url("/s3cret")).send([b"{}\n"])
        assert "s3cret" not in str(caught.value)
        assert not receiver.accepted
        return caught.value


def test_the_body_is_the_alert() -> None:
    with Receiver() as receiver:
        open_target(receiver.url("/hook/é?key=a b".replace(" ", "%20"), "me:p%40ss@")).send(
            [encode_alert(alerts(1)[0])]
        )
    [(path, headers, body)] = receiver.requests
    assert path == "/hook/%C3%A9?key=a%20b"
    assert headers["Content-Type"] == "application/json"
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:p@ss").decode()
    assert body["id"] == "run:0"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_redirects_are_not_followed(status: int) -> None:
    with Receiver() as elsewhere:
        found = refusal((status, {"Location": elsewhere.url()}))
        assert not elsewhere.requests
    assert found.lasting
    assert f"(HTTP {status}), and redirects are not followed: enter the final address" in str(found)


@pytest.mark.parametrize(("status", "lasting"), [(400, True), (401, True), (404, True), (429, False), (503, False)])
def test_refusals(status: int, lasting: bool) -> None:
    found = refusal((status, {}))
    assert str(found).startswith(f"HTTP {status} ")
    assert (found.lasting, found.retry_after) == (lasting, 0)


def test_the_receiver_may_ask_for_time() -> None:
    assert refusal((503, {"Retry-After": "17"})).retry_after == 17
    assert refusal((429, {"Retry-After": "999999"})).retry_after == 3600
    assert refusal((429, {"Retry-After": "soon"})).retry_after == 0
    assert refusal((429, {"Retry-After": "-5"})).retry_after == 0
    date = format_datetime(datetime.now(UTC) + timedelta(minutes=10), usegmt=True)
    assert 500 < refusal((503, {"Retry-After": date})).retry_after <= 600


def test_a_receiver_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sinks.alerts.webhook.TIMEOUT_SECONDS", 0.05)
    assert str(refusal((0, {}))) == "no answer in time"


def test_a_name_that_does_not_exist() -> None:
    with pytest.raises(DeliveryError, match=r"^(?!.*s3cret)[A-Z]"):
        open_target("http://no-such-host.invalid/s3cret").send([b"{}\n"])


def test_nothing_is_lost_where_every_other_request_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sinks.alerts.delivery.FIRST_PAUSE", 0.001)
    wrong: list[Answer] = [(500, {}), (302, {"Location": "/other"}), (404, {}), (503, {"Retry-After": "0"})]
    told: list[str] = []
    with Receiver(lambda i: OK if i % 2 else wrong[i // 2 % 4]) as receiver:
        with Outbox(tmp_path, [open_target(receiver.url())], told.append) as outbox:
            outbox.append(alerts(40))
            assert outbox.drain(30)
        assert [found["row"] for found in receiver.accepted] == list(range(40))
        assert len(receiver.requests) == 80
    assert any("redirects are not followed" in text for text in told)


def test_waiting_for_the_time_that_the_receiver_asks_for(tmp_path: Path) -> None:
    told = Messages()
    receiver = Receiver(lambda i: OK if i else (503, {"Retry-After": "120"}))
    with receiver, Outbox(tmp_path, [open_target(receiver.url())], told) as outbox:
        outbox.append(alerts(1))
        told.wait_for("(HTTP 503 Service Unavailable); retrying in 120 s.")
        assert len(receiver.requests) == 1
        assert outbox.drain(LONG), "draining does not wait for the pause"
