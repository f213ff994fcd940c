"""MQTT topics as sources, read from a real broker."""

from __future__ import annotations

import json
import subprocess
import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from streamgmm.errors import DataWarning, Remedy
from streamgmm.sources import Source, SourceError, open_source
from tests.sources.servers import Mosquitto, program, read, rows_of

pytestmark = pytest.mark.services
X = np.random.default_rng(0).random((100, 5)).astype("<f4")
Subscribe = Callable[..., Source]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as broker:
        yield broker


@pytest.fixture
def subscribe(broker: Mosquitto, monkeypatch: pytest.MonkeyPatch) -> Iterator[Subscribe]:
    """Open sources that are subscribed already, and close them at the end."""
    monkeypatch.setattr("streamgmm.sources.mqtt.WAIT_SECONDS", 0.2)
    opened = []

    def subscribed(topic: str, settings: str = "", *, reader: str | None = "me", **options: object) -> Source:
        source = open_source(broker.url(topic, settings), follow=True, reader=reader and f"{topic}-{reader}", **options)
        opened.append(source)
        assert not list(source.chunks()), "nothing is published so far"
        return source

    yield subscribed
    for source in opened:
        source.close()


def objects(count: int, first: int = 0) -> list[tuple[str, str]]:
    return [("objects", json.dumps({"a": i, "b": -i})) for i in range(first, first + count)]


def read_until_told(source: Source, words: str) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        while not any(words in str(w.message) for w in caught):
            assert not list(source.chunks())


class TestMessages:
    """One row per message."""

    def test_json(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("json/+", columns=["b"], id_column="topic")
        broker.publish((f"json/{i}", json.dumps({"a": i, "b": i / 2})) for i in range(50))
        chunks = read(source, 50)
        assert source.name == "MQTT topic json/+"
        assert source.feature_names == ["b"]
        assert rows_of(chunks) == [[i / 2] for i in range(50)]
        assert [i for c in chunks for i in c.ids or ()] == [f"json/{i}" for i in range(50)]
        assert chunks[-1].position["row"] == 50

    def test_vectors(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("vectors")
        broker.publish(("vectors", row.tobytes()) for row in X)
        np.testing.assert_array_equal(rows_of(read(source, len(X))), X)

    @pytest.mark.parametrize(
        "payload", [b"\xff\xfe", b"[" * 100_000, b'{"a": {}, "b": 1}', b'{"\\u001b[2J": 1}', b"x" * 17_000_000, b"nan"]
    )
    def test_hostile_payloads_are_bad_rows(self, broker: Mosquitto, subscribe: Subscribe, payload: bytes) -> None:
        source = subscribe("objects", skip_bad=True)
        broker.publish([*objects(1), ("objects", payload), *objects(1, 1)])
        chunks = read(source, 3)
        assert rows_of(chunks) == [[0, 0], [1, -1]]
        [bad] = [b for c in chunks for b in c.bad]
        assert bad.row == 1
        assert bad.reason.isprintable()
        assert len(bad.reason) < 200

    def test_retained_messages_are_not_new(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        broker.publish([("kept/x", '{"a": 7}')], retain=True)
        source = open_source(broker.url("kept/#"), follow=True)
        with pytest.warns(DataWarning, match="MQTT topic kept/# has retained messages; they are ignored"):
            assert rows_of(list(source.chunks())) == []
        broker.publish([("kept/x", '{"a": 8}')])
        assert rows_of(read(source, 1)) == [[8]]
        source.close()


class TestTopics:
    """One column per topic."""

    def test_a_round_is_a_row(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("plant/#")
        broker.publish((f"plant/{name}", f"{i}.5") for i in range(4) for name in ("b", "a", "c"))
        chunks = read(source, 4)
        assert source.feature_names == ["plant/a", "plant/b", "plant/c"]
        assert rows_of(chunks) == [[i + 0.5] * 3 for i in range(4)]

    def test_silent_topics_keep_their_value_or_are_gaps(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        topics = ["slow/a", "slow/b"]
        held = subscribe("slow/+", columns=topics)
        gaps = subscribe("slow/+", columns=topics, missing=True, reader="other")
        readings = [("a", 1), ("a", 2), ("b", 3), ("a", 4), ("a", 5), ("a", 6), ("b", 7)]
        broker.publish((f"slow/{topic}", str(value)) for topic, value in readings)
        assert rows_of(read(held, 4)) == [[2, 3], [4, 3], [5, 3], [6, 7]]
        np.testing.assert_array_equal(rows_of(read(gaps, 5)), [[1, np.nan], [2, 3], [4, np.nan], [5, np.nan], [6, 7]])

    def test_a_round_survives_in_the_position(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("half/+", columns=["half/a", "half/b"])
        broker.publish([("half/a", "1"), ("half/b", "2"), ("half/a", "3")])
        chunks = read(source, 1)
        while chunks[-1].position["messages"] < 3:
            chunks += list(source.chunks(chunks[-1].position))
        position = json.loads(json.dumps(chunks[-1].position))
        source.commit(position)
        source.close()
        broker.publish([("half/b", "4")])
        again = open_source(broker.url("half/+"), columns=["half/a", "half/b"], follow=True, reader="half/+-me")
        assert rows_of(read(again, 1, position)) == [[3, 4]]
        again.close()

    def test_other_topics_are_mentioned(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("mixed/+")
        broker.publish([("mixed/state", "online"), *(("mixed/a", str(i)) for i in range(3)), ("mixed/late", "1")])
        with pytest.warns(DataWarning, match="has 'online' in topic mixed/state, which is not a number") as caught:
            assert rows_of(read(source, 3)) == [[0], [1], [2]]
        assert caught[0].message.remedies == (Remedy.CHOOSE_COLUMNS,)

    def test_a_column_without_values_is_mentioned(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("typo/+", columns=["typo/a", "typo/bb"])
        broker.publish([("typo/b", "0"), *(("typo/a", str(i)) for i in range(4))])
        with pytest.warns(DataWarning, match="nothing has arrived for column 'typo/bb' so far"):
            list(source.chunks())

    def test_retained_values_are_last_values(self, broker: Mosquitto) -> None:
        broker.publish([("known/a", "1"), ("known/b", "2")], retain=True)
        source = open_source(broker.url("known/+"), columns=["known/a", "known/b"], follow=True)
        assert rows_of(list(source.chunks())) == []
        broker.publish([("known/a", "3"), ("known/a", "4"), ("known/b", "5")])
        assert rows_of(read(source, 2)) == [[3, 2], [4, 5]]
        source.close()

    @pytest.mark.parametrize("payload", [b"\xff\xfe\x00", b"high", b"", b"9" * 1_000_000 + b"x", b"[1]"])
    def test_values_that_are_not_numbers(self, broker: Mosquitto, subscribe: Subscribe, payload: bytes) -> None:
        source = subscribe("values/+", "?rows=topics", columns=["values/a", "values/b"], skip_bad=True)
        readings = [("a", b"1"), ("b", b"2"), ("a", payload), ("b", b"3"), ("a", b"4"), ("a", b"5")]
        broker.publish((f"values/{topic}", value) for topic, value in readings)
        chunks = read(source, 3)
        assert rows_of(chunks) == [[1, 2], [4, 3]]
        [bad] = [b for c in chunks for b in c.bad]
        assert bad.reason.isprintable()
        assert "column values/a" in bad.reason

    def test_ids_are_the_latest_value_of_their_topic(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("batch/+", columns=["batch/x"], id_column="batch/number")
        broker.publish([("batch/number", "b1"), ("batch/x", "1"), ("batch/x", "2"), ("batch/number", "b2")])
        broker.publish([("batch/x", "3")])
        chunks = read(source, 3)
        assert [i for c in chunks for i in c.ids or ()] == ["b1", "b1", "b2"]


class TestDelivery:
    """What the broker keeps, and what it sends again."""

    def test_what_was_not_committed_arrives_again(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("objects", reader="kept")
        broker.publish(objects(15))
        first = next(iter(source.chunks()))
        chunks = [first, *source.chunks(first.position)]
        assert rows_of(chunks) == [[i, -i] for i in range(15)]
        at = next(c.position for c in chunks if c.position["messages"] >= 1)
        source.commit(at)
        source.close()
        broker.publish(objects(5, 15))  # while nobody reads
        again = open_source(broker.url("objects"), follow=True, reader="objects-kept")
        rest = read(again, 20 - at["row"], at)
        assert rows_of(rest) == [[i, -i] for i in range(at["row"], 20)]
        assert rest[-1].position["row"] == 20
        again.close()

    def test_the_broker_waits_for_commits(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        """It sends 20 messages ahead, so a run must commit before that."""
        source = subscribe("objects", reader="slow")
        broker.publish(objects(60))
        chunks = list(source.chunks())
        assert rows_of(chunks) == [[i, -i] for i in range(20)]
        assert source.needs_commit(chunks[-1].position)
        source.commit(chunks[-1].position)
        assert not source.needs_commit(chunks[-1].position)
        assert len(rows_of(read(source, 40, chunks[-1].position))) == 40

    def test_without_a_reader_nothing_needs_a_commit(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("objects", reader=None)
        broker.publish(objects(60))
        chunks: list = []
        while len(rows_of(chunks)) < 60:
            chunks += source.chunks(chunks[-1].position if chunks else None)
        assert not source.needs_commit(chunks[-1].position)

    def test_a_broker_that_restarts(self, tmp_path: Path) -> None:
        """What is not yet committed is sent again, but read only once."""
        with Mosquitto(tmp_path) as broker:
            source = open_source(broker.url("objects"), follow=True, reader="me")
            assert not list(source.chunks())
            broker.publish(objects(7))
            chunks = list(source.chunks())
            broker.stop()
            with pytest.warns(DataWarning, match=rf"the broker at {broker.address} does not answer .*waiting for it"):
                assert not list(source.chunks(chunks[-1].position))
            source.commit(chunks[0].position)
            broker.start()
            broker.publish(objects(3, 7))
            with pytest.warns(DataWarning, match="answers again after"):
                chunks += read(source, 3, chunks[-1].position)
            assert rows_of(chunks) == [[i, -i] for i in range(10)]
            source.close()

    def test_a_broker_that_forgets(self, tmp_path: Path) -> None:
        (tmp_path / "other").mkdir()
        with Mosquitto(tmp_path) as broker:
            source = open_source(broker.url("objects"), follow=True, reader="me")
            assert not list(source.chunks())
            broker.publish(objects(3))
            [*_, position] = [c.position for c in read(source, 3)]
            source.close()
            broker.stop()
            (tmp_path / "mosquitto.db").unlink()
            broker.start()
            again = open_source(broker.url("objects"), follow=True, reader="me")
            with pytest.warns(DataWarning, match="forgotten this reader; what it held for it is lost"):
                assert not list(again.chunks(position))
            again.close()

    def test_qos_0_is_mentioned(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("objects", reader="fast")
        broker.publish(objects(5), qos=0)
        with pytest.warns(DataWarning, match="messages have QoS 0: the broker does not keep them"):
            assert len(rows_of(read(source, 5))) == 5

    def test_two_readers_of_one_name(self, broker: Mosquitto, subscribe: Subscribe) -> None:
        source = subscribe("objects", "?client=one")
        other = subscribe("objects", "?client=one")
        read_until_told(source, "breaks again and again; perhaps another client is called one")
        other.close()

    def test_a_slow_learner_slows_the_broker_down(
        self, broker: Mosquitto, subscribe: Subscribe, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Messages wait at the broker, not in memory; none is lost."""
        monkeypatch.setattr("streamgmm.sources.mqtt_mailbox.MOST_WAITING", 5)
        source = subscribe("objects", reader=None)
        publishing = threading.Thread(target=broker.publish, args=(objects(300),))
        publishing.start()
        chunks: list = []
        while len(rows_of(chunks)) < 300:
            chunks += source.chunks(chunks[-1].position if chunks else None)
        publishing.join()
        assert max(len(c.rows) for c in chunks) <= 5
        assert rows_of(chunks) == [[i, -i] for i in range(300)]


class TestConnections:
    def test_no_broker(self) -> None:
        with pytest.raises(
            SourceError, match=r"MQTT topic t: no broker answers at 127\.0\.0\.1:1 \(.*refused"
        ) as caught:
            list(open_source("mqtt://127.0.0.1:1/t").chunks())
        assert caught.value.remedies == (Remedy.LET_IT_WAIT,)

    def test_a_broker_that_comes_later(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        with Mosquitto(tmp_path) as broker:
            broker.stop()
            source = open_source(broker.url("objects"), follow=True, reader="me")
            with pytest.warns(DataWarning, match=r"does not answer \(.*refused\): waiting for it"):
                assert not list(source.chunks())
            broker.start()
            read_until_told(source, "answers again")
            while not list(source.chunks()):  # what is published before it has subscribed is not for it
                broker.publish(objects(1))
            source.close()

    def test_passwords_are_used_but_not_shown(self, tmp_path: Path) -> None:
        subprocess.run([program("mosquitto_passwd"), "-b", "-c", str(tmp_path / "users"), "me", "s/cret"], check=True)
        settings = ["allow_anonymous false", f"password_file {tmp_path / 'users'}"]
        with Mosquitto(tmp_path, *settings) as broker:
            source = open_source(f"mqtt://me:s%2Fcret@{broker.address}/t", follow=True)
            assert not list(source.chunks())
            source.close()
            assert source.name == "MQTT topic t"
            for url in (f"mqtt://me:wrong@{broker.address}/t", f"mqtt://{broker.address}/t"):
                with pytest.raises(SourceError, match="the broker refuses the connection") as caught:
                    list(open_source(url, follow=True).chunks())
                assert "wrong" not in str(caught.value)
