"""Brokers that misbehave: each function disturbs runs that follow one, and returns what happened, in words.

It fails if anything was lost without a word, or learned twice. ``docs/reliability.md`` is made of these words.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from threading import Timer
from unittest.mock import patch

import pytest

from streamgmm.errors import DataWarning, SourceError
from streamgmm.sources import open_source
from tests.chaos.followed_runs import assert_same_parameters, follow, impatient, later, vectors
from tests.sources.kafka_cluster import KafkaCluster
from tests.sources.servers import Mosquitto, Redis

ROWS, HALF = 1200, 600


def kafka_down(folder: Path, seconds: float = 4.0) -> str:
    with impatient(), KafkaCluster() as cluster:
        url = cluster.create("t", 1)
        cluster.fill("t", vectors(ROWS)[:HALF])

        def fail() -> Timer:
            cluster.down()
            return later(seconds, cluster.up, lambda: cluster.fill("t", vectors(ROWS)[HALF:]))

        run = follow(folder / "run", url, ROWS, fail)
        whole = follow(folder / "whole", url, ROWS)
    assert_same_parameters(run, whole)
    assert "does not answer" in run.said
    assert "answers again after" in run.said
    return "The run says so, waits, and says when the broker is back. Every message is learned once: same bits."


def kafka_leader(folder: Path) -> str:
    with impatient(), KafkaCluster(3) as cluster:
        url = cluster.create("t", 1)
        cluster.fill("t", vectors(ROWS)[:HALF])

        def change() -> Timer:
            cluster.lead("t", 0, -1)
            return later(1.0, lambda: cluster.lead("t", 0, 3), lambda: cluster.fill("t", vectors(ROWS)[HALF:]))

        run = follow(folder / "run", url, ROWS, change)
        whole = follow(folder / "whole", url, ROWS)
    assert_same_parameters(run, whole)
    return "The run continues with the new leader. Every message is learned once: same bits."


def kafka_retention(folder: Path) -> str:
    with impatient(), KafkaCluster() as cluster:
        url = cluster.create("t", 1)
        cluster.fill("t", vectors(ROWS))
        first = follow(folder / "run", url, 300).run.progress.samples
        cluster.remove("t", 0, 700)
        with pytest.raises(SourceError, match=f"has lost messages {first} to 699 .*{700 - first} in all") as stopped:
            follow(folder / "run", url, ROWS)
        assert "Raise the retention" in str(stopped.value)
        run = follow(folder / "run", url, ROWS - (700 - first), skip_bad=True)
        assert f"{700 - first} in all" in run.said
        assert run.run.progress.samples == ROWS - (700 - first)
        _remove_while_reading(cluster)
    return (
        "The run stops and says which messages and how many are gone, also when it is reading them; with "
        "`--bad-rows skip` it says so and continues with the first one that is left."
    )


def _remove_while_reading(cluster: KafkaCluster) -> None:
    """Remove messages that a reader is about to fetch: what it gets and what it says is lost add up."""
    url = cluster.create("u", 1) + "?queued.min.messages=1&queued.max.messages.kbytes=1&fetch.message.max.bytes=600"
    for first in range(0, ROWS, 50):
        cluster.fill("u", vectors(ROWS)[first : first + 50])
    chunks = open_source(url).chunks()
    assert len(next(chunks).rows) == 100
    cluster.remove("u", 0, 700)
    with pytest.raises(SourceError, match=r"lost messages \d+ to 699 of partition 0"):
        list(chunks)
    chunks = open_source(url, skip_bad=True).chunks()
    read = len(next(chunks).rows)
    cluster.remove("u", 0, 1000)
    with pytest.warns(DataWarning, match=r"lost messages \d+ to 999 of partition 0") as told:
        read += sum(len(chunk.rows) for chunk in chunks)
    lost = int(str(told[0].message).partition(" in all")[0].rpartition("(")[2].replace(",", ""))
    assert read + lost == ROWS - 700


def kafka_partitions(folder: Path) -> str:
    with impatient(), KafkaCluster() as cluster:
        url = cluster.create("t", 3)
        cluster.fill("t", vectors(600))
        run = follow(folder / "run", url, 600).run
        position = run.progress.position
        assert position is not None
        run.progress.position = {**position, "offsets": {"0": position["offsets"]["0"]}}
        run.save()
        cluster.fill("t", vectors(300), 1)
        cluster.fill("t", vectors(300), 2)
        done = follow(folder / "run", url, ROWS)
    assert done.run.progress.samples == ROWS
    return "The run reads them from their start, without a restart. Every message is learned once."


def kafka_odd_bodies(folder: Path) -> str:
    bodies: list[bytes | None] = [json.dumps([i, i % 7, -i]).encode() for i in range(600)]
    bodies[300:300] = [None, b"", b"[1, 2", b"[1, 2]", b"[" + b" " * 300_000 + b"1, 2, 3]", b"\xff\xfe"]
    with impatient(), KafkaCluster() as cluster, patch("streamgmm.sources.message_parser.MOST_BYTES", 100_000):
        url = cluster.create("t", 1)
        cluster.fill("t", bodies)
        with pytest.raises(SourceError, match="row 300 of topic t"):
            follow(folder / "stopped", url, len(bodies))
        run = follow(folder / "run", url, len(bodies), skip_bad=True).run
    assert (run.progress.samples, run.progress.bad) == (600, 6)
    return (
        "The run stops and names the row; with `--bad-rows skip` such messages are counted, named in the events, and "
        "not learned."
    )


def kafka_compressed(folder: Path) -> str:
    with impatient(), KafkaCluster() as cluster:
        runs = []
        for kind in ("none", "gzip", "snappy", "lz4", "zstd"):
            url = cluster.create(kind, 1)
            cluster.fill(kind, vectors(600), compression=kind)
            runs.append(follow(folder / kind, url, 600))
    for run in runs[1:]:
        assert_same_parameters(run, runs[0])
    return "gzip, snappy, lz4 and zstd: same bits as without compression."


def kafka_duplicates(folder: Path) -> str:
    messages = vectors(300)
    sent = [*messages, *messages[:150][::-1], *messages[150:]]
    with impatient(), KafkaCluster() as cluster:
        url = cluster.create("t", 1)
        cluster.fill("t", sent)
        whole = follow(folder / "whole", url, len(sent))
        follow(folder / "run", url, 250)
        run = follow(folder / "run", url, len(sent))
    assert run.run.progress.samples == len(sent)
    assert_same_parameters(run, whole)
    return "Each message is a row, in the order of its partition, and is learned once, also after a resume: same bits."


def redis_down(folder: Path, seconds: float = 4.0) -> str:
    (folder / "server").mkdir()
    with Redis(folder / "server") as server:
        server.fill("x", ({"v": row} for row in vectors(ROWS)[:HALF]))

        def fail() -> Timer:
            server.stop()
            return later(seconds, server.start, lambda: server.fill("x", ({"v": row} for row in vectors(ROWS)[HALF:])))

        run = follow(folder / "run", server.url("x"), ROWS, fail)
        whole = follow(folder / "whole", server.url("x"), ROWS)
    assert_same_parameters(run, whole)
    assert "does not answer" in run.said
    return "The run says so, waits, and says when the server is back. Every entry is learned once: same bits."


def redis_trimmed(folder: Path) -> str:
    (folder / "server").mkdir()
    with Redis(folder / "server") as server:
        server.fill("x", ({"v": row} for row in vectors(ROWS)))
        first = follow(folder / "run", server.url("x"), 300).run.progress.samples
        server.client.xtrim("x", maxlen=500, approximate=False)
        with pytest.raises(SourceError, match=f"has lost {ROWS - 500 - first} entries"):
            follow(folder / "run", server.url("x"), ROWS)
        run = follow(folder / "run", server.url("x"), first + 501, skip_bad=True)
    assert run.run.progress.samples == first + 500
    assert f"has lost {ROWS - 500 - first} entries" in run.said
    return "The run stops and says how many; with `--bad-rows skip` it says so and continues."


def mqtt_down(folder: Path, seconds: float = 4.0) -> str:
    (folder / "broker").mkdir()
    rows = [("rows", json.dumps([i % 11, i % 7, i % 5])) for i in range(600)]
    with Mosquitto(folder / "broker") as broker:
        url = broker.keep_for("run", "rows")
        broker.publish(rows[:300])

        def fail() -> Timer:
            broker.stop()
            return later(seconds, broker.start, lambda: broker.publish(rows[300:]))

        run = follow(folder / "run", url, len(rows), fail)
    assert "does not answer" in run.said or "answers again" in run.said, run.said
    learned = run.run.progress.samples
    assert len(rows) <= learned <= len(rows) + 20
    return (
        f"The run says so, waits, and connects again to its session. All {len(rows)} messages are learned; at most "
        "two windows of them may arrive twice, because MQTT promises no more."
    )


def mqtt_odd_bodies(folder: Path) -> str:
    (folder / "broker").mkdir()
    rows = [("rows", json.dumps([i % 11, i % 7, i % 5])) for i in range(300)]
    odd = [("rows", ""), ("rows", "[1, 2"), ("rows", "[" + " " * 300_000 + "1, 2, 3]"), ("rows", b"\xff\xfe")]
    with Mosquitto(folder / "broker") as broker, patch("streamgmm.sources.message_parser.MOST_BYTES", 100_000):
        url = broker.keep_for("run", "rows")
        broker.publish([*rows[:250], *odd, *rows[250:]])
        run = follow(folder / "run", url, len(rows) + len(odd), skip_bad=True).run
    assert (run.progress.samples, run.progress.bad) == (len(rows), len(odd))
    return "Counted, named in the events, and not learned; without `--bad-rows skip` the run stops at the first one."


OUTAGES: dict[str, Callable[[Path, float], str]] = {
    "Kafka: all brokers down for some seconds": kafka_down,
    "Redis: server down for some seconds": redis_down,
    "MQTT: broker down for some seconds": mqtt_down,
}
BROKERS: dict[str, Callable[[Path], str]] = {
    "Kafka: no leader for a second, then another one": kafka_leader,
    "Kafka: messages removed before they are read (offset out of range)": kafka_retention,
    "Kafka: partitions that a run did not know": kafka_partitions,
    "Kafka: tombstones, empty, damaged, short and oversized messages": kafka_odd_bodies,
    "Kafka: compressed messages": kafka_compressed,
    "Kafka: messages sent twice, or in another order": kafka_duplicates,
    "Redis: entries trimmed before they are read": redis_trimmed,
    "MQTT: empty, damaged and oversized messages": mqtt_odd_bodies,
}
