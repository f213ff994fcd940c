"""Messages of a Kafka topic, each partition's in its order, while they wait for their turn."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import kernels
from streamgmm.streams.base import SourceError

SECONDS = 10.0  # to wait for an answer of the brokers
WAITING_BYTES = 1 << 24  # of all partitions, for their turn; one that has more than its share of it pauses
MESSAGE_BYTES = 100  # that one takes while it waits, beside its value
BURST_BYTES, BURST_MOST = 1 << 19, 2000  # of messages taken over at once: while they are, whoever learns cannot go on
PAUSE = 1e-4  # seconds after a burst: who lets go of the interpreter for less has it back before others wake up


class Messages:
    """Messages as they came."""

    def __init__(self) -> None:
        self.values: list[bytes] = []
        self.offsets: list[int] = []

    def __len__(self) -> int:
        return len(self.offsets)

    def put(self, values: list[bytes], offsets: list[int]) -> None:
        self.values += values
        self.offsets += offsets

    def take(self, count: int) -> Messages:
        """The first ``count``, or all if there are fewer."""
        first = Messages()
        first.put(self.values[:count], self.offsets[:count])
        del self.values[:count], self.offsets[:count]
        return first

    def packed(self, width: int) -> Vectors:
        vectors = Vectors(width, len(self))
        vectors.put(self.values, self.offsets)
        return vectors

    @property
    def size(self) -> int:
        """Bytes that they take while they wait."""
        return sum(map(len, self.values)) + MESSAGE_BYTES * len(self)


class Vectors:
    """Up to ``most`` messages of ``width`` bytes, side by side; of any other one only its length is kept."""

    def __init__(self, width: int, most: int) -> None:
        self.offsets: list[int] = []
        self.odd: dict[int, int] = {}  # lengths, by the place among the rows
        self._rows = np.empty((most, width), np.uint8)

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def rows(self) -> npt.NDArray[np.uint8]:
        return self._rows[: len(self)]

    @property
    def room(self) -> int:
        return len(self._rows) - len(self)

    def put(self, values: list[bytes], offsets: list[int]) -> None:
        begin, width = len(self), self._rows.shape[1]
        if not width or set(map(len, values)) != {width}:
            odd = {i: len(v) for i, v in enumerate(values) if len(v) != width or not width}
            self.odd |= {begin + i: size for i, size in odd.items()}
            values = [bytes(width) if i in odd else v for i, v in enumerate(values)]
        kernels.join(values, self._rows[begin : begin + len(values)])
        self.offsets += offsets


class Blocks:
    """Vectors, ``most`` in a block; each is put into its place as soon as it comes, while the cache still holds it."""

    def __init__(self, width: int, most: int) -> None:
        self._width, self._most = width, most
        self._blocks: deque[Vectors] = deque()

    def __len__(self) -> int:
        return sum(map(len, self._blocks))

    def put(self, values: list[bytes], offsets: list[int]) -> None:
        at = 0
        while at < len(values):
            if not self._blocks or not self._blocks[-1].room:
                self._blocks.append(Vectors(self._width, self._most))
            some = slice(at, at + self._blocks[-1].room)
            self._blocks[-1].put(values[some], offsets[some])
            at = some.stop

    def take(self, count: int) -> Vectors:
        """The first block; a full one has ``count`` messages, which all have agreed upon."""
        return self._blocks.popleft() if self._blocks else Vectors(self._width, 0)

    @property
    def size(self) -> int:
        return (self._width + MESSAGE_BYTES) * len(self)


class Reader:
    """Takes messages over from a consumer, and hands out those of one partition after the other."""

    def __init__(self, client: Any, consumer: Any, topic: str, ends: dict[int, int], at: dict[int, int]) -> None:
        self._client, self._consumer, self._topic, self._ends = client, consumer, topic, ends
        self._waiting: dict[int, Messages | Blocks] = {p: Messages() for p in ends}
        self._over = {p for p in ends if at[p] >= ends[p]}
        self._most_bytes = WAITING_BYTES // len(ends)
        self._paused: set[int] = set()
        self._burst = 10

    def left(self, p: int) -> bool:
        return bool(len(self._waiting[p])) or p not in self._over

    def first_size(self, p: int) -> int | None:
        """Bytes of the next message of a partition, if there is one."""
        self._await(p, 1)
        waiting = self._waiting[p]
        return len(waiting.values[0]) if isinstance(waiting, Messages) and len(waiting) else None

    def pack(self, width: int, most: int) -> None:
        """From now on messages are vectors of ``width`` bytes, taken ``most`` at a time."""
        for p, waiting in self._waiting.items():
            if isinstance(waiting, Messages):
                self._waiting[p] = Blocks(width, most)
                self._waiting[p].put(waiting.values, waiting.offsets)

    def take(self, p: int, count: int) -> Messages | Vectors:
        """The next ``count`` messages of a partition, fewer at its end, with their offsets."""
        self._await(p, count)
        messages = self._waiting[p].take(count)
        if self._waiting[p].size < self._most_bytes // 2:
            self._resume(p)
        return messages

    def _await(self, p: int, count: int) -> None:
        while len(self._waiting[p]) < count and p not in self._over:
            self._resume(p)
            self._fetch(p)

    def _resume(self, p: int) -> None:
        if p in self._paused:
            self._consumer.resume([self._client.TopicPartition(self._topic, p)])
            self._paused.discard(p)

    def _fetch(self, wanted: int) -> None:
        first = self._consumer.poll(SECONDS)
        if first is None:
            raise SourceError(f"topic {self._topic}: no message came within {SECONDS:g} seconds, though some are left.")
        messages = [first, *self._consumer.consume(self._burst, timeout=0)]  # what is here already
        size = self._keep(messages) // len(messages)
        self._burst = max(1, min(BURST_MOST, BURST_BYTES // max(1, size)))
        for p, waiting in self._waiting.items():
            if p != wanted and p not in self._paused | self._over and waiting.size > self._most_bytes:
                self._consumer.pause([self._client.TopicPartition(self._topic, p)])
                self._paused.add(p)
        time.sleep(PAUSE)

    def _keep(self, messages: list[Any]) -> int:
        """Sorts messages by partition, all of them at once because that is fast; says how many bytes they have."""
        message, total = self._client.Message, 0
        problems = list(map(message.error, messages))
        if set(map(type, problems)) != {type(None)}:  # comparing an error with None raises
            for m, problem in zip(messages, problems, strict=True):
                if problem is not None:
                    self._stop_for(problem, m.partition())
            messages = [m for m, problem in zip(messages, problems, strict=True) if problem is None]
        partitions = list(map(message.partition, messages))
        for p in set(partitions):
            alone = partitions.count(p) == len(partitions)
            its = messages if alone else [m for m, q in zip(messages, partitions, strict=True) if q == p]
            offsets = list(map(message.offset, its))
            if offsets[-1] + 1 >= self._ends[p]:  # what came after we began is for the next time
                self._over.add(p)
                del offsets[bisect_left(offsets, self._ends[p]) :]
            values = list(map(message.value, its[: len(offsets)]))
            if None in values:
                values = [v or b"" for v in values]
            self._waiting[p].put(values, offsets)
            total += sum(map(len, values))
        return total

    def _stop_for(self, problem: Any, p: int) -> None:
        if problem.code() == self._client.KafkaError._PARTITION_EOF:
            self._over.add(p)  # compaction and transactions may leave nothing before the end
        elif not problem.retriable():
            raise SourceError(f"topic {self._topic}: {problem.str()}.")
