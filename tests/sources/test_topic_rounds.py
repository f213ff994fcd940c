"""Rows from topics, and messages that are sent again: what needs no broker."""

from __future__ import annotations

import json
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm.errors import DataWarning, SourceError
from streamgmm.sources.base import ReadOptions
from streamgmm.sources.mqtt_mailbox import Mailbox
from streamgmm.sources.topic_rounds import TopicRounds

READINGS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), max_size=60)


def collect(rounds: TopicRounds, readings: list[tuple[str, int]]) -> list[dict[str, str]]:
    return [row for topic, value in readings for row in rounds.put(topic, str(value), retained=False)]


@given(READINGS)
def test_every_reading_is_in_one_round(readings: list[tuple[str, int]]) -> None:
    rounds = TopicRounds("x", ReadOptions(columns=["a", "b", "c"], missing=True))
    rows = [*collect(rounds, readings), rounds.facts()["round"]]
    for topic in "abc":
        assert [int(row[topic]) for row in rows if topic in row] == [v for t, v in readings if t == topic]


@given(READINGS, st.integers(0, 60))
def test_a_position_continues_a_round(readings: list[tuple[str, int]], at: int) -> None:
    whole, before, after = (TopicRounds("x", ReadOptions(columns=["a", "b", "c"])) for _ in range(3))
    rows = collect(before, readings[:at])
    after.restore(json.loads(json.dumps(before.facts())))
    assert rows + collect(after, readings[at:]) == collect(whole, readings)


def test_the_topics_heard_until_a_third_report_are_columns() -> None:
    rounds = TopicRounds("x", ReadOptions())
    assert collect(rounds, [("a", 1), ("b", 2), ("a", 3), ("b", 4)]) == []
    assert collect(rounds, [("a", 5)]) == [{"a": "1", "b": "2"}, {"a": "3", "b": "4"}]
    assert rounds.columns == ["a", "b"]
    with pytest.warns(DataWarning, match="x has a topic c, which is not a feature: it is ignored"):
        assert collect(rounds, [("c", 1), ("b", 6)]) == [{"a": "5", "b": "6"}]


def test_endless_topics_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.topic_rounds.MOST_TOPICS", 5)
    with pytest.raises(SourceError, match="x has more than 5 topics"):
        collect(TopicRounds("x", ReadOptions()), [(f"t{i}", i) for i in range(6)])


def put(box: Mailbox, packet: int) -> bool:
    return box.put("t", b"%d" % packet, retained=False, packet=packet)


def test_messages_that_are_sent_again_are_read_once() -> None:
    box = Mailbox(100)
    assert not any(put(box, packet) for packet in (1, 2, 3))
    assert [m.number for m in box.take(10)] == [101, 102, 103]
    assert box.acknowledge(101) == [1]
    box.disconnect()
    assert box.acknowledge(102) == [], "the broker will send it again"
    assert put(box, 2), "it is safe"
    assert not put(box, 3)
    assert box.take(10) == []
    assert box.acknowledge(103) == [3]
    assert not put(box, 1), "a new message may have the same packet id"
    assert [m.number for m in box.take(10)] == [104]


def test_a_session_that_the_broker_forgot() -> None:
    box = Mailbox()
    put(box, 1)
    box.forget()
    assert box.acknowledge(1) == []
    put(box, 1)
    assert [m.number for m in box.take(10)] == [1, 2]


def test_a_full_mailbox_holds_the_network_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.mqtt_mailbox.MOST_WAITING", 2)
    box = Mailbox()
    network = threading.Thread(target=lambda: [put(box, packet) for packet in range(1, 8)])
    network.start()
    sizes, numbers = [], list[int]()
    while len(numbers) < 7:
        messages = box.take(10)
        sizes.append(len(messages))
        numbers += [m.number for m in messages]
    network.join()
    assert max(sizes) <= 2
    assert numbers == list(range(1, 8))
