"""The outbox: every target gets every alert, in its own time."""

from __future__ import annotations

import io
import json
import tracemalloc
from pathlib import Path

import pytest

from streamgmm.sinks.alerts import Alert, AlertError, Outbox, open_target
from streamgmm.sinks.alerts.outbox import DELIVERED
from streamgmm.storage.alert_log import ALERTS
from tests.sinks.receivers import LONG, Memory, Messages, alerts, outage, rows


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sinks.alerts.outage.PATIENCE", 0.02)
    monkeypatch.setattr("streamgmm.sinks.alerts.delivery.FIRST_PAUSE", 0.002)
    monkeypatch.setattr("streamgmm.sinks.alerts.delivery.LONGEST_PAUSE", 0.02)


def test_alerts_arrive_in_order_at_every_target(tmp_path: Path) -> None:
    targets = [Memory("a", 1), Memory("b", 100)]
    with Outbox(tmp_path, targets, pytest.fail) as outbox:
        for i in range(20):
            outbox.append(alerts(5, 5 * i))
        assert outbox.drain(LONG)
        assert outbox.waiting == [("target a", 0), ("target b", 0)]
    for target in targets:
        assert rows(target.lines) == list(range(100))
        assert target.closed


def test_a_target_that_is_down_delays_nobody_and_loses_nothing(tmp_path: Path) -> None:
    up, down, told = Memory("up"), Memory("down"), Messages()
    down.down = outage
    with Outbox(tmp_path, [down, up], told) as outbox:
        outbox.append(alerts(10))
        text = told.wait_for("wait")
        while len(up.lines) < 10:
            outbox.drain(0.01)
        assert outbox.waiting == [("target down", 10), ("target up", 0)]
        down.down = None
        assert outbox.drain(LONG)
        told.wait_for("accepts alerts again; 7 more follow.")
    assert text == "10 alerts wait for target down (no route); retrying."
    assert rows(down.lines) == list(range(10))
    assert len(told) == 2, "an outage is mentioned once, and its end"


def test_a_target_that_recovers_soon_is_no_news(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sinks.alerts.outage.PATIENCE", LONG)
    failures = iter([outage, outage])

    class Shaky(Memory):
        def send(self, lines: list[bytes]) -> None:
            self.down = next(failures, None)
            super().send(lines)

    target = Shaky()
    with Outbox(tmp_path, [target], pytest.fail) as outbox:
        outbox.append(alerts(1))
        assert outbox.drain(LONG)
    assert rows(target.lines) == [0]


def test_what_waits_is_delivered_at_the_next_start(tmp_path: Path) -> None:
    target = Memory()
    with Outbox(tmp_path, [target], pytest.fail) as outbox:
        outbox.append(alerts(4))
        assert outbox.drain(LONG)
        target.down = outage
        target.tried.clear()
        outbox.append(alerts(4, 4))
        assert target.tried.wait(LONG)
        length = outbox.sync()
    later = Memory()
    with Outbox(tmp_path, [later], Messages(), length=length) as outbox:
        assert outbox.drain(LONG)
    assert rows(later.lines) == [4, 5, 6, 7]


def test_a_replay_repeats_alerts_with_their_ids(tmp_path: Path) -> None:
    """The alerts after the checkpoint were delivered before the kill; they are delivered again."""
    first, second = Memory(), Memory()
    with Outbox(tmp_path, [first], pytest.fail) as outbox:
        outbox.append(alerts(3))
        length = outbox.sync()
        outbox.append(alerts(3, 3))
        assert outbox.drain(LONG)
    with Outbox(tmp_path, [second], pytest.fail, length=length) as outbox:
        outbox.append(alerts(3, 3))
        assert outbox.drain(LONG)
    assert second.lines == first.lines[3:]


def test_a_new_target_gets_alerts_from_then_on(tmp_path: Path) -> None:
    with Outbox(tmp_path, [Memory("a")], pytest.fail) as outbox:
        outbox.append(alerts(3))
        assert outbox.drain(LONG)
    new = Memory("new")
    with Outbox(tmp_path, [Memory("a"), new], pytest.fail) as outbox:
        outbox.append(alerts(1, 3))
        assert outbox.drain(LONG)
    assert rows(new.lines) == [3]


@pytest.mark.parametrize("content", [None, b"", b"[", b'{"places": 1}'])
def test_when_deliveries_are_forgotten_alerts_are_repeated(tmp_path: Path, content: bytes | None) -> None:
    with Outbox(tmp_path, [Memory()], pytest.fail) as outbox:
        outbox.append(alerts(3))
    (tmp_path / DELIVERED).unlink() if content is None else (tmp_path / DELIVERED).write_bytes(content)
    target, told = Memory(), Messages()
    with Outbox(tmp_path, [target], told) as outbox:
        assert outbox.drain(LONG)
    assert rows(target.lines) == [0, 1, 2]
    repeated = f"{DELIVERED} cannot be read; all 3 alerts in {ALERTS} are sent again."
    assert told == ([] if content is None else [repeated])


def test_former_targets_are_mentioned_once(tmp_path: Path) -> None:
    target, told = Memory("https://host#0123"), Messages()
    target.down = outage
    with Outbox(tmp_path, [target], Messages()) as outbox:
        outbox.append(alerts(2))
    with Outbox(tmp_path, [], told):
        pass
    with Outbox(tmp_path, [], told):
        pass
    assert told == [f"https://host is no longer a target and has not received all alerts; 2 are only in {ALERTS}."]


def test_draining_ends_in_time(tmp_path: Path) -> None:
    target = Memory()
    target.down = outage
    with Outbox(tmp_path, [target], Messages()) as outbox:
        outbox.append(alerts(1))
        assert not outbox.drain(0.05)


def test_a_pipe_that_nobody_reads_ends_the_run(tmp_path: Path) -> None:
    out = io.StringIO()
    target = open_target("-", out)
    out.close()
    with Outbox(tmp_path, [target], pytest.fail) as outbox:
        outbox.append(alerts(1))
        with pytest.raises(BrokenPipeError):
            outbox.drain(LONG)
        with pytest.raises(BrokenPipeError):
            outbox.append(alerts(1))


def test_our_own_mistakes_are_not_hidden(tmp_path: Path) -> None:
    target = Memory()
    target.down = ZeroDivisionError
    with Outbox(tmp_path, [target], pytest.fail) as outbox:
        outbox.append(alerts(1))
        with pytest.raises(ZeroDivisionError):
            outbox.drain(LONG)


def test_the_file_stays_bounded_once_every_target_has_the_alerts(tmp_path: Path) -> None:
    slow, sizes = Memory("slow"), list[int]()
    slow.down = outage
    with Outbox(tmp_path, [Memory(), slow], Messages(), kept=20) as outbox:
        for i in range(100):
            if i == 50:
                slow.down = None
            outbox.append(alerts(10, 10 * i))
            if i >= 50:
                assert outbox.drain(LONG)
            outbox.commit(outbox.sync())
            sizes.append(len((tmp_path / ALERTS).read_bytes().splitlines()) - 1)
    assert sizes[49] == 500
    assert max(sizes[60:]) <= 70
    assert rows(slow.lines) == list(range(1000))


def test_targets_must_differ(tmp_path: Path) -> None:
    with pytest.raises(AlertError, match="target a is given twice"):
        Outbox(tmp_path, [Memory("a"), Memory("a")], print)
    with pytest.raises(AlertError, match="alerts are already written to"):
        Outbox(tmp_path, [open_target(str(tmp_path / ALERTS))], print)
    assert not list(tmp_path.iterdir())


def test_the_files_hold_no_secret(tmp_path: Path) -> None:
    urls = ["http://me:s3cret@127.0.0.1:9/t0ken?key=t0ken", "http://me:s3cret@127.0.0.1:9/other-t0ken"]
    told = Messages()
    with Outbox(tmp_path, [open_target(url) for url in urls], told) as outbox:
        outbox.append(alerts(1))
        told.wait_for("1 alert waits for http://127.0.0.1:9/… (Connection refused)")
    for path in tmp_path.iterdir():
        assert b"s3cret" not in path.read_bytes()
        assert b"t0ken" not in path.read_bytes()
    assert "s3cret" not in str(told)
    assert "t0ken" not in str(told)
    assert len(json.loads((tmp_path / DELIVERED).read_bytes())["places"]) == 2


def test_memory_does_not_grow_with_what_waits(tmp_path: Path) -> None:
    """A long outage: 13 MB of alerts wait on disk, and are delivered from there."""
    target = Memory(batch=500)
    target.down = outage
    many = [Alert(f"run:{i}", "row", "run", i, "x" * 500) for i in range(1000)]
    with Outbox(tmp_path, [target], Messages()) as outbox:
        outbox.append(many)
        tracemalloc.start()
        for _ in range(19):
            outbox.append(many)
        assert (tmp_path / ALERTS).stat().st_size > 13e6
        target.down, target.send = None, lambda lines: None  # type: ignore[method-assign]
        assert outbox.drain(LONG)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 6e6


def test_what_crashes_left_behind_is_removed(tmp_path: Path) -> None:
    for name in (f".{ALERTS}.next", f".{DELIVERED}.0123abcd", "other"):
        (tmp_path / name).touch()
    with Outbox(tmp_path, [Memory()], pytest.fail):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {ALERTS, DELIVERED, "other"}


def test_a_run_that_fails_before_it_begins_leaves_no_files(tmp_path: Path) -> None:
    with Outbox(tmp_path, [], print):
        pass
    assert not list(tmp_path.iterdir())
    with Outbox(tmp_path, [], print):
        (tmp_path / "model.safetensors").touch()
    assert {path.name for path in tmp_path.iterdir()} == {ALERTS, DELIVERED, "model.safetensors"}
