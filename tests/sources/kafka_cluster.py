"""A Kafka cluster for tests whose brokers can fail: librdkafka's mock, steered through its C functions."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

import pytest

PRODUCER = 0
ERROR_BYTES = 512
PLACE = (ctypes.c_char_p, ctypes.c_int32)  # topic and partition


def _library() -> ctypes.CDLL:
    """Return the librdkafka that confluent-kafka brings, whose Python functions do not reach its mock."""
    client = pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
    folder = Path(client.__file__).parent.with_name("confluent_kafka.libs")
    found = next(folder.glob("librdkafka*"), None)
    if found is None:
        pytest.skip("this confluent-kafka has no librdkafka of its own")
    library = ctypes.CDLL(str(found))
    for name in ("rd_kafka_conf_new", "rd_kafka_new", "rd_kafka_mock_cluster_new"):
        getattr(library, name).restype = ctypes.c_void_p
    library.rd_kafka_mock_cluster_bootstraps.restype = ctypes.c_char_p
    return library


class KafkaCluster:
    """Brokers that keep their messages in this process.

    Parameters
    ----------
    brokers : int, default=1
        How many; they are numbered from 1.
    """

    def __init__(self, brokers: int = 1) -> None:
        self._library, self._brokers = _library(), range(1, brokers + 1)
        error = ctypes.create_string_buffer(ERROR_BYTES)
        new = self._library.rd_kafka_new
        new.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t)
        settings = ctypes.c_void_p(self._library.rd_kafka_conf_new())
        self._library.rd_kafka_conf_set(settings, b"log_level", b"0", error, ctypes.c_size_t(ERROR_BYTES))
        self._handle = new(PRODUCER, settings, error, ERROR_BYTES)
        assert self._handle, error.value
        self._cluster = self._library.rd_kafka_mock_cluster_new(ctypes.c_void_p(self._handle), brokers)
        found = self._library.rd_kafka_mock_cluster_bootstraps(ctypes.c_void_p(self._cluster))
        self.address = found.decode()
        self._producers: dict[str, Any] = {}

    def _call(self, name: str, kinds: tuple[Any, ...], *values: object) -> None:
        function = getattr(self._library, f"rd_kafka_mock_{name}")
        function.argtypes = (ctypes.c_void_p, *kinds)
        assert function(self._cluster, *values) == 0, name

    def create(self, topic: str, partitions: int) -> str:
        """Create a topic; return the name of the source."""
        self._call("topic_create", (ctypes.c_char_p, ctypes.c_int, ctypes.c_int), topic.encode(), partitions, 1)
        return f"kafka://{self.address}/{topic}"

    def fill(self, topic: str, values: Iterable[bytes | None], partition: int = 0, compression: str = "none") -> None:
        """Append messages to a partition."""
        import confluent_kafka

        settings = {"bootstrap.servers": self.address, "compression.type": compression, "message.max.bytes": 50_000_000}
        if compression not in self._producers:
            self._producers[compression] = confluent_kafka.Producer({**settings, "log_level": 0})
        producer = self._producers[compression]
        for value in values:
            producer.produce(topic, value, partition=partition)
            producer.poll(0)
        assert producer.flush(30) == 0

    def lead(self, topic: str, partition: int, broker: int) -> None:
        """Make a broker the leader of a partition; -1 leaves it without one."""
        self._call("partition_set_leader", (*PLACE, ctypes.c_int32), topic.encode(), partition, broker)

    def remove(self, topic: str, partition: int, before: int) -> None:
        """Remove messages, as retention does."""
        self._call("partition_delete_records", (*PLACE, ctypes.c_int64), topic.encode(), partition, before)

    def down(self) -> None:
        """Let no broker answer."""
        for broker in self._brokers:
            self._call("broker_set_down", (ctypes.c_int32,), broker)

    def up(self) -> None:
        """Let all brokers answer again."""
        for broker in self._brokers:
            self._call("broker_set_up", (ctypes.c_int32,), broker)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self._producers.clear()
        self._library.rd_kafka_mock_cluster_destroy(ctypes.c_void_p(self._cluster))
        self._library.rd_kafka_destroy(ctypes.c_void_p(self._handle))
