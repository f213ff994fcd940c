"""Kafka brokers for tests: librdkafka's mock, over real sockets."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


class Brokers:
    """A mock broker. Topics have four partitions that keep 5 MB each."""

    def __init__(self) -> None:
        client = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
        self._producer = client.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
        self.address = next(f"{b.host}:{b.port}" for b in self._producer.list_topics(timeout=10).brokers.values())

    def fill(self, topic: str, values: Iterable[bytes], partition: int | None = None) -> str:
        """Put messages into one partition, or into all in turn, and return the name of the source."""
        for i, value in enumerate(values):
            self._producer.produce(topic, value, partition=i % 4 if partition is None else partition)
            if i % 1000 == 0:
                self._producer.poll(0)
        self._producer.flush(30)
        return f"kafka://{self.address}/{topic}"
