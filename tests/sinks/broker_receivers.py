"""Readers of what alerts leave on brokers."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from typing import Any, Self

import pytest

from tests.sinks.receivers import LONG

MOCK = """
import sys, confluent_kafka
producer = confluent_kafka.Producer({"bootstrap.servers": "mock", "test.mock.num.brokers": 1, "log_level": 0})
print(next(f"{b.host}:{b.port}" for b in producer.list_topics(timeout=10).brokers.values()), flush=True)
sys.stdin.read()
"""


class Subscriber:
    """A client of an MQTT broker that collects the messages of a topic; the broker keeps them while it is away."""

    def __init__(self, port: int, topic: str) -> None:
        paho = pytest.importorskip("paho.mqtt.client", reason="paho-mqtt is not installed")
        from paho.mqtt.enums import CallbackAPIVersion

        self.messages: list[dict[str, Any]] = []
        self._ready, self._topic = threading.Event(), topic
        self._client = paho.Client(CallbackAPIVersion.VERSION2, f"subscriber-{topic}", clean_session=False)
        self._client.on_connect = lambda client, *_: client.subscribe(topic, qos=1)
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = lambda _, __, message: self.messages.append(json.loads(message.payload))
        self._client.reconnect_delay_set(1, 1)
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._ready.wait(LONG)

    def wait_for(self, message: dict[str, Any]) -> None:
        end = time.monotonic() + LONG
        while message not in self.messages:
            assert time.monotonic() < end
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.disconnect()
        self._client.loop_stop()


class MockKafka:
    """librdkafka's mock broker in a process of its own, which can be stopped like one that hangs."""

    def __init__(self) -> None:
        pytest.importorskip("confluent_kafka", reason="confluent-kafka is not installed")
        self._process = subprocess.Popen(
            [sys.executable, "-c", MOCK], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().strip()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()


def read_topic(address: str, topic: str) -> list[tuple[str, dict[str, Any], int]]:
    """Return key, body and partition of all messages of a topic."""
    import confluent_kafka as kafka

    consumer = kafka.Consumer(
        {"bootstrap.servers": address, "group.id": "test", "enable.partition.eof": True, "log_level": 0}
    )
    try:
        partitions = consumer.list_topics(topic, timeout=10).topics[topic].partitions
        consumer.assign([kafka.TopicPartition(topic, p, kafka.OFFSET_BEGINNING) for p in partitions])
        found, ended = [], 0
        while ended < len(partitions):
            message = consumer.poll(10)
            assert message is not None
            if message.error() is None:
                found.append((message.key().decode(), json.loads(message.value()), message.partition()))
            else:
                assert message.error().code() == kafka.KafkaError._PARTITION_EOF
                ended += 1
        return found
    finally:
        consumer.close()
