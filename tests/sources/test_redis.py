"""Redis streams as sources, read from a real server."""

from __future__ import annotations

import itertools
import json
import random
import re
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamgmm.errors import DataWarning, Remedy
from streamgmm.sources import SourceError, open_source
from tests.sources.servers import Redis, read, rows_of

pytestmark = pytest.mark.services
X = np.random.default_rng(0).random((3210, 5)).astype("<f4")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Redis(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def stream(request: pytest.FixtureRequest) -> str:
    """A stream of its own for each test."""
    return str(request.node.name)


def numbers(count: int, first: int = 0) -> list[dict[str, float]]:
    return [{"a": i, "b": 2 * i} for i in range(first, first + count)]


def test_every_entry_once_and_every_position_resumes(server: Redis, stream: str) -> None:
    server.fill(stream, ({"v": row.tobytes()} for row in X))
    source = open_source(server.url(stream))
    assert source.n_rows == len(X)
    assert source.name == f"Redis stream {stream}"
    whole = list(source.chunks())
    rows = np.concatenate([c.rows for c in whole])
    np.testing.assert_array_equal(rows, X)
    np.testing.assert_array_equal(np.concatenate([c.numbers for c in whole]), np.arange(len(X)))
    for chunk in whole:
        position = json.loads(json.dumps(chunk.position))
        rest = list(open_source(server.url(stream)).chunks(position))
        np.testing.assert_array_equal(np.concatenate([rows[:0], *(c.rows for c in rest)]), rows[position["row"] :])
        assert [c.position for c in rest] == [c.position for c in whole[len(whole) - len(rest) :]]


def test_the_lag_counts_what_waits(server: Redis, stream: str) -> None:
    server.fill(stream, numbers(100))
    source = open_source(server.url(stream))
    assert source.lag(None) is None
    positions = [chunk.position for chunk in source.chunks()]
    assert [source.lag(p) for p in positions] == [100 - p["row"] for p in positions]
    server.fill(stream, numbers(7, 100))
    assert list(source.chunks(positions[-1]))
    assert source.lag(positions[-1]) == 7


def test_fields_are_columns(server: Redis, stream: str) -> None:
    ids = server.fill(stream, ({"a": i, "name": f"unit {i}", "b": i / 4} for i in range(5)))
    source = open_source(server.url(stream), columns=["b", "a"], id_column="name")
    [chunk] = source.chunks()
    assert chunk.rows.tolist() == [[i / 4, i] for i in range(5)]
    assert chunk.ids == tuple(f"unit {i}" for i in range(5))
    assert source.feature_names == ["b", "a"]
    [chunk] = open_source(server.url(stream), columns=["a"], id_column="id").chunks()
    assert chunk.ids == tuple(ids)


def test_one_field_may_hold_json(server: Redis, stream: str) -> None:
    server.fill(stream, ({"body": json.dumps({"a": i, "b": -i})} for i in range(4)))
    source = open_source(server.url(stream))
    assert rows_of(list(source.chunks())) == [[i, -i] for i in range(4)]
    assert source.feature_names == ["a", "b"]


def test_the_field_that_holds_rows_can_be_named(server: Redis, stream: str) -> None:
    server.fill(stream, ({"time": i, "x": X[i].tobytes()} for i in range(4)))
    np.testing.assert_array_equal(rows_of(list(open_source(f"{server.url(stream)}?field=x").chunks())), X[:4])
    server.fill(stream, [{"time": 4}])
    with pytest.raises(SourceError, match=rf"row 4 of Redis stream {stream} \(entry \d+-\d+\) has 0 bytes"):
        list(open_source(f"{server.url(stream)}?field=x").chunks())


def test_gaps(server: Redis, stream: str) -> None:
    server.fill(stream, [{"a": 1, "b": 2}, {"a": 3}, {"a": "", "b": 4}])
    with pytest.raises(SourceError, match=r"row 1 of .* has no 'b'") as caught:
        list(open_source(server.url(stream)).chunks())
    assert Remedy.ALLOW_MISSING in caught.value.remedies
    [chunk] = open_source(server.url(stream), missing=True).chunks()
    np.testing.assert_array_equal(chunk.rows, [[1, 2], [3, np.nan], [np.nan, 4]])


HOSTILE = {
    "text": {"a": "x", "b": "1"},
    "not UTF-8": {"a": b"\xff\xfe", "b": "1"},
    "escapes in a name": {"a": "1", "b": "2", "\x1b[2Jc": "3"},
    "bytes in a name": {b"\xff\x1b": "1"},
    "huge": {"a": "x" * 17_000_000, "b": "1"},
    "other fields": {"c": "1"},
    "nested": {"a": "[[1]]", "b": "{}"},
}


@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_entries_are_bad_rows(server: Redis, kind: str) -> None:
    server.fill(kind, [{"a": 1, "b": 2}, HOSTILE[kind], {"a": 3, "b": 4}])
    [chunk] = open_source(server.url(kind), skip_bad=True).chunks()
    assert chunk.rows.tolist() == [[1, 2], [3, 4]]
    assert [b.row for b in chunk.bad] == [1]
    assert chunk.bad[0].reason.isprintable()
    assert len(chunk.bad[0].reason) < 200
    with pytest.raises(SourceError, match="row 1 of") as caught:
        list(open_source(server.url(kind)).chunks())
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    "body", [b"[" * 100_000, b'{"a": [[[1]]], "b": 1}', b'{"\\u001b[2J": 1, "a": 1, "b": 2}', b"\xff{}", b"null", b"7"]
)
def test_hostile_bodies_are_bad_rows(server: Redis, body: bytes) -> None:
    server.client.delete("bodies")
    server.fill("bodies", [{"x": '{"a": 1, "b": 2}'}, {"x": body}, {"y": "1"}, {"x": '{"a": 3, "b": NaN}'}])
    [chunk] = open_source(server.url("bodies"), skip_bad=True).chunks()
    np.testing.assert_array_equal(chunk.rows, [[1, 2], [3, np.nan]])  # what has NaN is left to the model
    assert [b.row for b in chunk.bad] == [1, 2]


def test_large_entries_come_in_small_chunks(server: Redis, stream: str) -> None:
    server.fill(stream, ({"v": np.full(250_000, i, "<f4").tobytes()} for i in range(25)))
    sizes = [len(c.rows) for c in open_source(server.url(stream)).chunks()]
    assert sizes == [10, 4, 4, 4, 3]


def test_following(server: Redis, stream: str) -> None:
    """A followed stream waits for entries, and counts as idle after a second without any."""
    server.fill(stream, numbers(3))
    source = open_source(server.url(stream), follow=True)
    adding = threading.Timer(0.3, server.fill, (stream, numbers(4, 3)))
    adding.start()
    chunks = list(source.chunks())
    adding.join()
    assert rows_of(chunks) == [[i, 2 * i] for i in range(7)]
    assert not list(source.chunks(chunks[-1].position))


class TestLoss:
    """Entries that are removed before they are read."""

    @pytest.fixture
    def position(self, server: Redis, stream: str) -> dict:
        server.fill(stream, numbers(50))
        first = next(iter(open_source(server.url(stream)).chunks()))
        assert first.position["row"] == 10
        return first.position

    def test_it_is_counted(self, server: Redis, stream: str, position: dict) -> None:
        server.client.xtrim(stream, maxlen=15, approximate=False)
        with pytest.raises(SourceError, match=f"Redis stream {stream} has lost 25 entries after") as caught:
            list(open_source(server.url(stream)).chunks(position))
        assert caught.value.remedies == (Remedy.KEEP_ENTRIES, Remedy.SKIP_BAD_ROWS, Remedy.START_NEW_RUN)

    def test_it_can_be_skipped(self, server: Redis, stream: str, position: dict) -> None:
        server.client.xtrim(stream, maxlen=15, approximate=False)
        with pytest.warns(DataWarning, match="has lost 25 entries"):
            chunks = list(open_source(server.url(stream), skip_bad=True).chunks(position))
        assert [tuple(b) for c in chunks for b in c.bad] == [(10, "and 24 more were removed before they could be read")]
        assert rows_of(chunks) == [[i, 2 * i] for i in range(35, 50)]
        assert np.concatenate([c.numbers for c in chunks]).tolist() == list(range(35, 50))
        assert not list(open_source(server.url(stream)).chunks(chunks[-1].position))

    def test_everything_is_lost(self, server: Redis, stream: str, position: dict) -> None:
        server.client.xtrim(stream, maxlen=0, approximate=False)
        with pytest.raises(SourceError, match="has lost 40 entries"):
            list(open_source(server.url(stream)).chunks(position))

    def test_what_was_read_may_be_removed(self, server: Redis, stream: str, position: dict) -> None:
        server.client.xtrim(stream, maxlen=40, approximate=False)
        assert rows_of(list(open_source(server.url(stream)).chunks(position)))[0] == [10, 20]
        server.client.delete(stream)
        ids = server.fill(stream, numbers(12))
        server.client.xdel(stream, *ids[2:4])
        chunks = list(open_source(server.url(stream)).chunks())
        server.client.xdel(stream, *ids)
        assert not list(open_source(server.url(stream)).chunks(chunks[-1].position))

    def test_trimming_while_it_is_read(self, server: Redis, stream: str, position: dict) -> None:
        reading = open_source(server.url(stream)).chunks()
        next(reading)
        server.client.xtrim(stream, maxlen=30, approximate=False)
        with pytest.raises(SourceError, match="has lost 10 entries"):
            list(reading)

    @pytest.mark.parametrize("seed", range(10))
    def test_what_is_read_and_what_is_lost_add_up(self, server: Redis, stream: str, seed: int) -> None:
        """Adding, trimming and reading in any order."""
        choices, position, rows, lost = random.Random(seed), None, list[list[float]](), 0
        for step in range(41):
            server.fill(stream, numbers(choices.randint(1, 30)))
            if position and choices.random() < 0.5:
                server.client.xtrim(stream, maxlen=choices.randint(0, 30), approximate=False)
            reading = open_source(server.url(stream), skip_bad=True).chunks(position)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                chunks = list(itertools.islice(reading, None if step == 40 else choices.randint(0, 3)))
            rows += rows_of(chunks)
            lost += sum(int("0" + re.sub(r"\D", "", b.reason)) + 1 for c in chunks for b in c.bad)
            position = chunks[-1].position if chunks else position
        added = server.client.xinfo_stream(stream)["entries-added"]
        assert lost > 0
        assert position is not None
        assert position["row"] == position["added"] == len(rows) + lost == added

    def test_another_stream_of_that_name(self, server: Redis, stream: str, position: dict) -> None:
        server.client.delete(stream)
        server.fill(stream, numbers(4))
        with pytest.raises(SourceError, match="was deleted and created again: entries may be lost"):
            list(open_source(server.url(stream)).chunks(position))
        with pytest.warns(DataWarning, match="was deleted and created again"):
            chunks = list(open_source(server.url(stream), skip_bad=True).chunks(position))
        assert rows_of(chunks) == [[i, 2 * i] for i in range(4)]
        assert chunks[-1].position["row"] == 14


def test_streams_that_do_not_exist(server: Redis, stream: str) -> None:
    with pytest.raises(SourceError, match=f"Redis stream {stream} does not exist"):
        list(open_source(server.url(stream)).chunks())
    source = open_source(server.url(stream), follow=True)
    with pytest.warns(DataWarning, match=f"Redis stream {stream} does not exist: waiting for it"):
        assert not list(source.chunks())
    server.fill(stream, numbers(2))
    assert len(read(source, 2)) == 1
    server.client.set("text", "x")
    with pytest.raises(SourceError, match="Redis stream text: WRONGTYPE"):
        list(open_source(server.url("text")).chunks())


def test_databases(server: Redis, stream: str) -> None:
    server.client.execute_command("SELECT", 0)
    server.fill(stream, numbers(1))
    server.client.copy(stream, "a/b", destination_db=3)
    source = open_source(f"redis://{server.address}/3/a/b")
    assert source.name == "Redis stream 3/a/b"
    assert rows_of(list(source.chunks())) == [[0, 0]]


def test_no_server() -> None:
    with pytest.raises(SourceError, match=r"Redis stream s: no server answers \(.*refused") as caught:
        list(open_source("redis://127.0.0.1:1/s").chunks())
    assert caught.value.remedies == (Remedy.LET_IT_WAIT,)


def test_an_outage_is_waited_for(tmp_path: Path) -> None:
    with Redis(tmp_path) as server:
        server.fill("s", numbers(5))
        source = open_source(server.url("s"), follow=True)
        chunks = read(source, 5)
        server.stop()
        with pytest.warns(DataWarning, match=r"the server of Redis stream s does not answer \(.*waiting for it"):
            assert not list(source.chunks(chunks[-1].position))
        assert source.n_rows is None
        server.start()
        server.fill("s", numbers(5, 5))
        with pytest.warns(DataWarning, match=r"answers again after \d+ second"):
            more = read(source, 5, chunks[-1].position)
        assert rows_of(more) == [[i, 2 * i] for i in range(5, 10)]


def test_passwords_are_used_but_not_shown(tmp_path: Path) -> None:
    with Redis(tmp_path, "--requirepass", "p@ss/word") as server:
        address = server.address
        source = open_source(f"redis://:p%40ss%2Fword@{address}/s", follow=True)
        assert source.name == "Redis stream s"
        with pytest.warns(DataWarning, match="does not exist"):
            assert not list(source.chunks())
        for url in (f"redis://:other@{address}/s", f"redis://{address}/s", f"redis://me:p%40ss%2Fword@{address}/s"):
            with pytest.raises(SourceError, match="Redis stream s: ") as caught:
                list(open_source(url, follow=True).chunks())
            assert "word" not in str(caught.value).replace("username-password", "")
            assert "other" not in str(caught.value)
