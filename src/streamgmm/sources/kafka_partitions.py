"""Partitions of a Kafka topic, whose messages wait for their turn."""

from __future__ import annotations

import time
from bisect import bisect_left
from typing import Any

from streamgmm.errors import SourceError
from streamgmm.sources.messages import Messages, VectorBlocks, Vectors
from streamgmm.sources.outages import NoAnswerError

TIMEOUT_SECONDS = 10.0  # to wait for the brokers
BUFFER_BYTES = 1 << 24  # for all partitions; one that fills more than its share pauses
BURST_BYTES, BURST_MESSAGES = 1 << 19, 2000  # fetched at once; meanwhile the learning thread waits for the interpreter
PAUSE_SECONDS = 1e-4  # after a burst: with a shorter pause, no other thread gets the interpreter


class MessagesGoneError(SourceError):
    """Messages were removed while they were read."""


def is_outage(client: Any, problem: Any) -> bool:
    """Return whether brokers may answer later: they are down, out of reach, or another one becomes the leader.

    Parameters
    ----------
    client : module
        ``confluent_kafka``.
    problem : confluent_kafka.KafkaError
        What the client says.
    """
    error = client.KafkaError
    silent = (error._TRANSPORT, error._TIMED_OUT, error._ALL_BROKERS_DOWN, error._RESOLVE)
    leaderless = (error.LEADER_NOT_AVAILABLE, error.NOT_LEADER_FOR_PARTITION, error._UNKNOWN_PARTITION)
    return bool(problem.retriable()) or problem.code() in (*silent, *leaderless)


class PartitionReader:
    """Fetch messages, and hand them out partition by partition.

    Parameters
    ----------
    client : module
        ``confluent_kafka``.
    consumer : confluent_kafka.Consumer
        A consumer to which the partitions are assigned.
    topic : str
        Name of the topic.
    ends : dict of int to int
        For each partition, the offset to stop at.
    starts : dict of int to int
        For each partition, the offset to start at.
    """

    def __init__(self, client: Any, consumer: Any, topic: str, ends: dict[int, int], starts: dict[int, int]) -> None:
        self._client, self._consumer, self._topic, self._ends = client, consumer, topic, ends
        self._waiting: dict[int, Messages | VectorBlocks] = {p: Messages() for p in ends}
        self._over = {p for p in ends if starts[p] >= ends[p]}
        self._share_bytes = BUFFER_BYTES // len(ends)
        self._paused: set[int] = set()
        self._burst = 10

    def left(self, partition: int) -> bool:
        """Return whether a partition may have more messages.

        Parameters
        ----------
        partition : int
            The partition.
        """
        return bool(len(self._waiting[partition])) or partition not in self._over

    def first_size(self, partition: int) -> int | None:
        """Return the size of the next message of a partition; None if there is none.

        Parameters
        ----------
        partition : int
            The partition.
        """
        self._await(partition, 1)
        waiting = self._waiting[partition]
        return len(waiting.values[0]) if isinstance(waiting, Messages) and len(waiting) else None

    def pack(self, width: int, capacity: int) -> None:
        """Keep messages as blocks of vectors from now on.

        Parameters
        ----------
        width : int
            Bytes of a vector.
        capacity : int
            Vectors per block; ``take`` must be called with the same count.
        """
        for p, waiting in self._waiting.items():
            if isinstance(waiting, Messages):
                self._waiting[p] = VectorBlocks(width, capacity)
                self._waiting[p].put(waiting.values, waiting.offsets)

    def take(self, partition: int, count: int) -> Messages | Vectors:
        """Remove and return the next messages of a partition.

        Parameters
        ----------
        partition : int
            The partition.
        count : int
            How many messages; fewer are returned at the end.
        """
        self._await(partition, count)
        messages = self._waiting[partition].take(count)
        if self._waiting[partition].size < self._share_bytes // 2:
            self._resume(partition)
        return messages

    def _await(self, partition: int, count: int) -> None:
        while len(self._waiting[partition]) < count and partition not in self._over:
            self._resume(partition)
            self._fetch(partition)

    def _resume(self, partition: int) -> None:
        if partition in self._paused:
            self._consumer.resume([self._client.TopicPartition(self._topic, partition)])
            self._paused.discard(partition)

    def _fetch(self, wanted: int) -> None:
        first = self._consumer.poll(TIMEOUT_SECONDS)
        if first is None:
            raise NoAnswerError(
                f"topic {self._topic}", f"no message arrived within {TIMEOUT_SECONDS:g} seconds, though more exist"
            )
        messages = [first, *self._consumer.consume(self._burst, timeout=0)]  # only what has arrived already
        size = self._keep(messages) // len(messages)
        self._burst = max(1, min(BURST_MESSAGES, BURST_BYTES // max(1, size)))
        for p, waiting in self._waiting.items():
            if p != wanted and p not in self._paused | self._over and waiting.size > self._share_bytes:
                self._consumer.pause([self._client.TopicPartition(self._topic, p)])
                self._paused.add(p)
        time.sleep(PAUSE_SECONDS)

    def _keep(self, messages: list[Any]) -> int:
        """Sort messages by partition and return their size in bytes. Whole lists at once: a loop would be slow."""
        message, total = self._client.Message, 0
        problems = list(map(message.error, messages))
        if set(map(type, problems)) != {type(None)}:  # comparing an error with None raises
            for m, problem in zip(messages, problems, strict=True):
                if problem is not None:
                    self._handle(problem, m.partition())
            messages = [m for m, problem in zip(messages, problems, strict=True) if problem is None]
        partitions = list(map(message.partition, messages))
        for p in set(partitions):
            alone = partitions.count(p) == len(partitions)
            own = messages if alone else [m for m, q in zip(messages, partitions, strict=True) if q == p]
            offsets = list(map(message.offset, own))
            if offsets[-1] + 1 >= self._ends[p]:  # later messages are left for the next read
                self._over.add(p)
                del offsets[bisect_left(offsets, self._ends[p]) :]
            values = list(map(message.value, own[: len(offsets)]))
            if None in values:
                values = [v or b"" for v in values]
            self._waiting[p].put(values, offsets)
            total += sum(map(len, values))
        return total

    def _handle(self, problem: Any, partition: int) -> None:
        if problem.code() == self._client.KafkaError._PARTITION_EOF:
            self._over.add(partition)  # compaction and transactions may leave no message before the end
        elif problem.code() == self._client.KafkaError._AUTO_OFFSET_RESET:
            raise MessagesGoneError(f"topic {self._topic}: {problem.str()}.")
        elif not is_outage(self._client, problem):  # the client itself connects again
            raise SourceError(f"topic {self._topic}: {problem.str()}.")
