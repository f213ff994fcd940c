"""Kafka brokers for tests: librdkafka's own, over real sockets."""

from __future__ import annotations

from collections.abc import Iterable

import pytest


class Brokers:
    """One mock broker; a topic has four partitions, which keep 5 MB each."""

    def __init__(self) -> None:
        client = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
        self._producer = client.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
        self.address = next(f"{b.host}:{b.port}" for b in self._producer.list_topics(timeout=10).brokers.values())

    def fill(self, topic: str, values: Iterable[bytes], partition: int | None = None) -> str:
        """Puts messages into partitions in turn, or into one, and gives the source's name."""
        for i, value in enumerate(values):
            self._producer.produce(topic, value, partition=i % 4 if partition is None else partition)
            if i % 1000 == 0:
                self._producer.poll(0)
        self._producer.flush(30)
        return f"kafka://{self.address}/{topic}"
