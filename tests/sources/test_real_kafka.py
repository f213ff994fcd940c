"""Kafka topics of a real broker, if there is one: ``STREAMGMM_KAFKA=host:port``."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path
from uuid import uuid4

import numpy as np
import pytest

from streamgmm.sources import open_source
from tests.chaos.test_kills import kill_and_resume_source, write

ADDRESS = os.environ.get("STREAMGMM_KAFKA")
pytestmark = [
    pytest.mark.services,
    pytest.mark.skipif(ADDRESS is None, reason="STREAMGMM_KAFKA does not name a broker"),
]
PARTITIONS = 4
X = np.random.default_rng(0).random((5000, 5)).astype("<f4")


def fill(values: Iterable[bytes], compression: str = "none") -> str:
    """Put messages into a new topic, into its partitions in turn, and return the name of the source."""
    client = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = f"streamgmm-{uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": ADDRESS})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    producer = client.Producer({"bootstrap.servers": ADDRESS, "compression.type": compression})
    for i, value in enumerate(values):
        producer.produce(topic, value, partition=i % PARTITIONS)
        producer.poll(0)
    assert producer.flush(60) == 0
    return f"kafka://{ADDRESS}/{topic}"


@pytest.mark.parametrize("compression", ["none", "gzip", "lz4"])
def test_every_message_once_and_every_position_resumes(compression: str) -> None:
    url = fill((row.tobytes() for row in X), compression)
    source = open_source(url)
    assert source.n_rows == len(X)
    whole = list(source.chunks())
    rows = np.concatenate([c.rows for c in whole])
    assert sorted(map(tuple, rows.tolist())) == sorted(map(tuple, X.tolist()))
    for chunk in whole:
        position = json.loads(json.dumps(chunk.position))
        rest = [c.rows for c in open_source(url).chunks(position)]
        np.testing.assert_array_equal(np.concatenate([rows[:0], *rest]), rows[position["row"] :])


def test_json() -> None:
    source = open_source(fill(json.dumps({"a": i, "b": -i}).encode() for i in range(100)))
    rows = np.concatenate([c.rows for c in source.chunks()])
    assert sorted(rows.tolist()) == [[i, -i] for i in range(100)]
    assert source.feature_names == ["a", "b"]


def test_three_kills(tmp_path: Path) -> None:
    rows = np.load(write(tmp_path, "npy", 40_000))
    kill_and_resume_source(tmp_path, fill(row.tobytes() for row in rows), 3)
