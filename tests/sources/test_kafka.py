"""Kafka topics as sources."""

from __future__ import annotations

import json

import numpy as np
import pytest

from streamgmm.errors import DataWarning
from streamgmm.sources import SourceError, open_source
from tests.sources.brokers import Brokers

pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")


@pytest.fixture(scope="module")
def brokers() -> Brokers:
    return Brokers()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read blocks of 250 vectors of five numbers."""
    monkeypatch.setattr("streamgmm.sources.kafka.BLOCK_BYTES", 250 * 20)


X = np.random.default_rng(0).random((3210, 5)).astype("<f4")


@pytest.fixture(scope="module")
def vectors(brokers: Brokers) -> str:
    return brokers.fill("vectors", (row.tobytes() for row in X))


def in_turn(rows: np.ndarray, block: int = 250) -> np.ndarray:
    """Return rows as blocks of each partition in turn."""
    parts = [list(rows[p::4]) for p in range(4)]
    found: list[np.ndarray] = []
    while any(parts):
        for part in parts:
            found += part[:block]
            del part[:block]
    return np.array(found)


@pytest.mark.services
def test_every_message_once_and_always_in_the_same_order(vectors: str) -> None:
    for _ in range(3):
        source = open_source(vectors)
        assert source.n_rows == len(X)
        chunks = list(source.chunks())
        np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), in_turn(X))
        np.testing.assert_array_equal(np.concatenate([c.numbers for c in chunks]), np.arange(len(X)))
        assert chunks[-1].position["row"] == len(X)


@pytest.mark.services
def test_the_lag_counts_what_waits(brokers: Brokers) -> None:
    url = brokers.fill("lag", (row.tobytes() for row in X[:1000]))
    source = open_source(url)
    assert source.lag(None) is None
    positions = [chunk.position for chunk in source.chunks()]
    assert [source.lag(p) for p in positions] == [1000 - p["row"] for p in positions]
    brokers.fill("lag", (row.tobytes() for row in X[:30]))
    assert list(source.chunks(positions[-1]))
    assert source.lag(positions[-1]) == 30


@pytest.mark.services
def test_every_position_resumes(vectors: str) -> None:
    whole = list(open_source(vectors).chunks())
    rows = np.concatenate([c.rows for c in whole])
    for chunk in whole:
        position = json.loads(json.dumps(chunk.position))
        rest = [c.rows for c in open_source(vectors).chunks(position)]
        np.testing.assert_array_equal(np.concatenate([rows[:0], *rest]), rows[position["row"] :])


@pytest.mark.services
def test_later_messages_are_read_later(brokers: Brokers) -> None:
    name = brokers.fill("growing", (row.tobytes() for row in X[:100]))
    source = open_source(name)
    first = list(source.chunks())
    assert sum(len(c.rows) for c in first) == 100
    brokers.fill("growing", (row.tobytes() for row in X[100:103]), partition=2)
    more = list(source.chunks(first[-1].position))
    np.testing.assert_array_equal(more[0].rows, X[100:103])
    assert more[-1].position["row"] == 103
    assert not list(source.chunks(more[-1].position))


@pytest.mark.services
def test_a_small_buffer_keeps_the_order(brokers: Brokers, vectors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Partitions pause and resume if the buffer is smaller than a block."""
    monkeypatch.setattr("streamgmm.sources.kafka_partitions.BUFFER_BYTES", 8000)
    rows = np.concatenate([c.rows for c in open_source(vectors).chunks()])
    np.testing.assert_array_equal(rows, in_turn(X))


@pytest.mark.services
@pytest.mark.parametrize("as_object", [False, True])
def test_json(brokers: Brokers, as_object: bool) -> None:
    def text(i: int) -> bytes:
        values = X[i].tolist()
        return json.dumps(dict(zip("abcde", values, strict=True)) | {"time": i} if as_object else values).encode()

    name = brokers.fill(f"json-{as_object}", (text(i) for i in range(8)), partition=0)
    source = open_source(name, columns=["a", "c"] if as_object else None, id_column="time" if as_object else None)
    chunk = next(source.chunks())
    np.testing.assert_allclose(chunk.rows, X[:8][:, [0, 2]] if as_object else X[:8], rtol=1e-6)
    assert chunk.ids == (tuple(range(8)) if as_object else None)


@pytest.mark.services
def test_bad_messages(brokers: Brokers) -> None:
    values = [row.tobytes() for row in X[:10]]
    values[3], values[7] = b"abc", b""
    name = brokers.fill("bad", values, partition=1)
    with pytest.raises(
        SourceError, match=r"row 3 of topic bad \(partition 1, offset 3\) has 3 bytes; expected a vector"
    ):
        list(open_source(name).chunks())
    chunk = next(open_source(name, skip_bad=True).chunks())
    assert [b.row for b in chunk.bad] == [3, 7]
    np.testing.assert_array_equal(chunk.rows, np.delete(X[:10], [3, 7], axis=0))
    np.testing.assert_array_equal(chunk.numbers, [0, 1, 2, 4, 5, 6, 8, 9])


@pytest.mark.services
def test_lost_messages_raise(brokers: Brokers) -> None:
    name = brokers.fill("short", (bytes(100_000) for _ in range(100)), partition=0)  # the broker keeps the last 5 MB
    with pytest.raises(SourceError, match=r"topic short has lost messages 0 to \d+ of partition 0"):
        next(open_source(name).chunks({"row": 0, "offsets": {"0": 0, "1": 0, "2": 0, "3": 0}, "turn": 0}))
    start = {"row": 0, "offsets": {"0": 0, "1": 0, "2": 0, "3": 0}, "turn": 0}
    with pytest.warns(DataWarning, match=r"has lost messages 0 to \d+ of partition 0 .* in all\); reading continues"):
        assert len(next(open_source(name, skip_bad=True).chunks(start)).rows)


def test_no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.kafka.TIMEOUT_SECONDS", 0.5)
    with pytest.raises(SourceError, match="topic t: no broker answers"):
        next(open_source("kafka://127.0.0.1:1/t").chunks())


@pytest.mark.parametrize("name", ["kafka://localhost:9092", "kafka:///t", "kafka://localhost:9092/a/b"])
def test_names_without_a_topic(name: str) -> None:
    with pytest.raises(SourceError, match="does not name a topic; expected kafka://host:port/topic"):
        open_source(name)


@pytest.mark.services
def test_configuration(vectors: str) -> None:
    assert open_source(f"{vectors}?client.id=me").n_rows == len(X)
    with pytest.raises(SourceError, match="No such configuration property"):
        open_source(f"{vectors}?no.such.thing=1")
    with pytest.raises(SourceError, match="it would load code"):
        open_source(f"{vectors}?plugin.library.paths=x")


@pytest.mark.services
def test_vectors_that_start_like_json_are_vectors(brokers: Brokers) -> None:
    first = b"[" + np.ones(3, "<f4").tobytes()[1:]
    url = brokers.fill("like-json", [first, *(np.full(3, i, "<f4").tobytes() for i in range(5))], partition=0)
    [chunk] = open_source(url).chunks()
    assert chunk.rows.shape == (6, 3)
    assert chunk.rows[1:, 0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.services
def test_an_empty_message_does_not_decide_on_the_format(brokers: Brokers) -> None:
    url = brokers.fill("empty-first", [b"", b"[1.0, 2.0, 3.0]", b"[4.0, 5.0, 6.0]"], partition=0)
    [chunk] = open_source(url, skip_bad=True).chunks()
    assert chunk.rows.tolist() == [[1, 2, 3], [4, 5, 6]]
    [rest] = open_source(url, skip_bad=True).chunks({**chunk.position, "row": 2, "offsets": {"0": 2}})
    assert rest.rows.tolist() == [[4, 5, 6]]


@pytest.mark.services
def test_objects_have_names(brokers: Brokers) -> None:
    source = open_source(brokers.fill("objects-named", [b'{"a": 1, "b": 2}', b'{"b": 4, "a": 3}'], partition=0))
    assert [c.rows.tolist() for c in source.chunks()] == [[[1, 2], [3, 4]]]
    assert source.feature_names == ["a", "b"]


@pytest.mark.services
def test_bad_messages_in_later_blocks(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors are copied into blocks as they arrive; only the number of one of another size remains."""
    monkeypatch.setattr("streamgmm.sources.kafka.BLOCK_BYTES", 2000)
    rows = np.arange(2000, dtype="<f4").reshape(500, 4)
    values = [row.tobytes() for row in rows]
    values[150], values[399], values[400] = b"abc", b"", bytes(20)
    url = brokers.fill("bad-later", values, partition=0)
    chunks = list(open_source(url, skip_bad=True).chunks())
    good = np.delete(np.arange(500), [150, 399, 400])
    np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), rows[good])
    np.testing.assert_array_equal(np.concatenate([c.numbers for c in chunks]), good)
    assert [(b.row, b.reason.split(";")[0]) for c in chunks for b in c.bad] == [
        (150, "has 3 bytes"),
        (399, "has 0 bytes"),
        (400, "has 20 bytes"),
    ]
    with pytest.raises(SourceError, match=r"partition 0, offset 399\) has 0 bytes"):
        list(open_source(url).chunks(chunks[1].position))


@pytest.mark.services
def test_nothing_but_empty_messages(brokers: Brokers) -> None:
    url = brokers.fill("empty-all", [b"", b"", b""], partition=0)
    [chunk] = open_source(url, skip_bad=True).chunks()
    assert len(chunk.rows) == 0
    assert [b.row for b in chunk.bad] == [0, 1, 2]


@pytest.mark.services
def test_small_bursts(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.kafka_partitions.BURST_BYTES", 700)
    rows = np.arange(64, dtype="<f4").reshape(16, 4)
    url = brokers.fill("bursts", [row.tobytes() for row in rows for _ in range(20)], partition=3)
    found = np.concatenate([c.rows for c in open_source(url).chunks()])
    np.testing.assert_array_equal(found, np.repeat(rows, 20, axis=0))
