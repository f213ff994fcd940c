"""Kafka topics: one row per message, either raw little-endian float32 or a JSON array or object.

Positions contain the offsets, so they are saved together with the parameters they belong to; nothing is committed to
the brokers. Reading stops where the topic ended when it began, and takes blocks of each partition in turn. The order of
rows therefore depends on the topic, not on which partition answers first.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from functools import partial
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from streamgmm.errors import DataWarning, MissingExtraError, Remedy, SourceError
from streamgmm.sources.base import Chunk, Position, ReadOptions, Source, check_position
from streamgmm.sources.kafka_partitions import TIMEOUT_SECONDS, MessagesGoneError, PartitionReader, is_outage
from streamgmm.sources.message_parser import FORMAT, MessageParser
from streamgmm.sources.messages import Messages
from streamgmm.sources.outages import NoAnswerError, Outage
from streamgmm.storage.schema import COUNT, number, optional, record
from streamgmm.transports.broker_urls import without_secrets

FEWEST_TOGETHER, MOST_TOGETHER = 100, 4000  # messages of a block
BLOCK_BYTES = 1 << 22  # of one partition before the next one's turn, judged by the size of the first message
CONSUMER_SETTINGS = {
    "group.id": "streamgmm",  # required but unused: partitions are assigned here, offsets are kept in positions
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "queued.min.messages": 4000,
    "queued.max.messages.kbytes": 8192,
    "fetch.queue.backoff.ms": 2,  # a full queue drains quickly
    "fetch.wait.max.ms": 10,
    "logger": None,
    "log_level": 0,
}
OFFSETS = record({}, unknown=COUNT)
FACTS = {"turn": COUNT, "block": optional(number(1, MOST_TOGETHER, whole=True)), **FORMAT}  # of a position


class KafkaSource(Source):
    """Messages of all partitions of a topic.

    Parameters
    ----------
    url : str
        ``kafka://host:port/topic``, optionally followed by ``?`` and settings of librdkafka.
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    grows = True

    def __init__(self, url: str, options: ReadOptions | None = None) -> None:
        try:
            import confluent_kafka as client
        except ImportError as problem:
            raise MissingExtraError("Kafka requires confluent-kafka", "kafka") from problem
        parts = urlsplit(url)
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic or "/" in self._topic:
            raise SourceError(f"{without_secrets(url)} does not name a topic; expected kafka://host:port/topic.")
        settings = dict(parse_qsl(parts.query))
        if "plugin.library.paths" in settings:
            raise SourceError("plugin.library.paths is not allowed in the name of a source: it would load code.")
        options = options or ReadOptions()
        self.name, self._client, self.skip_bad = f"topic {self._topic}", client, options.skip_bad
        try:
            self._consumer = client.Consumer({**CONSUMER_SETTINGS, **settings, "bootstrap.servers": parts.netloc})
        except client.KafkaException as problem:
            raise SourceError(f"{without_secrets(url)}: {problem.args[0]}.") from problem
        self._parser, self._follow = MessageParser(self.name, options), options.follow
        self._outage = Outage(f"the broker of {self.name}")
        self._ends: dict[int, int] | None = None  # offsets after the last messages, as last seen

    def expect(self, names: list[str] | None, width: int) -> None:
        self._parser.expect(names, width)

    @property
    def n_rows(self) -> int | None:
        """Number of messages that the brokers hold now; None if a followed topic cannot be asked."""
        try:
            return sum(high - low for low, high in self.offset_ranges().values())
        except NoAnswerError:
            if not self._follow:
                raise
            return None

    def offset_ranges(self) -> dict[int, tuple[int, int]]:
        """Return for each partition its first offset and the one after its last message."""
        try:
            topic = self._consumer.list_topics(self._topic, timeout=TIMEOUT_SECONDS).topics[self._topic]
            if topic.error is not None:
                raise self._client.KafkaException(topic.error)
            place = self._client.TopicPartition
            return {
                p: self._consumer.get_watermark_offsets(place(self._topic, p), timeout=TIMEOUT_SECONDS)
                for p in sorted(topic.partitions)
            }
        except self._client.KafkaException as problem:
            reason = problem.args[0].str()
            if is_outage(self._client, problem.args[0]):
                raise NoAnswerError(self.name, reason) from problem
            raise SourceError(f"{self.name}: {reason}.") from problem

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Yield chunks up to the present end. A followed topic ends while no broker answers: read it again later."""
        check_position(start, {"offsets": OFFSETS}, self.name, FACTS)
        position, gone = start or {}, None
        time.sleep(min(1.0, self._outage.pause))
        while not self._outage.pause:
            try:
                for chunk in self._read(position):
                    position = chunk.position
                    yield chunk
                return
            except MessagesGoneError:  # reading again tells how many
                if position is gone:
                    raise
                gone = position
            except NoAnswerError as problem:
                if not self._follow:
                    raise
                self._outage.fail(problem.reason)

    def _read(self, position: Position) -> Iterator[Chunk]:
        ranges = self.offset_ranges()
        self._outage.end()
        offsets = self._start_offsets(position, ranges)
        self._parser.restore(position)
        self._consumer.assign([self._client.TopicPartition(self._topic, p, offset) for p, offset in offsets.items()])
        ends = {p: high for p, (_, high) in ranges.items()}
        self._ends = dict(ends)
        reader = PartitionReader(self._client, self._consumer, self._topic, ends, offsets)
        try:
            yield from self._take_turns(reader, offsets, position)
        finally:
            self._consumer.unassign()  # otherwise fetching continues and delays all other requests

    def lag(self, position: Position | None) -> int | None:
        if self._ends is None or position is None:
            return None
        read = position["offsets"]
        return sum(max(0, end - int(read.get(str(p), 0))) for p, end in self._ends.items())

    def _note_end(self, partition: int) -> None:
        """Note where a partition ends now, as the latest answer of its broker told."""
        place = self._client.TopicPartition(self._topic, partition)
        _, high = self._consumer.get_watermark_offsets(place, cached=True)
        if self._ends is not None and high > self._ends[partition]:
            self._ends[partition] = high

    def read_partition(self, partition: int, first: int, stop: int) -> Chunk:
        """Read the messages of one partition from one offset up to another; raise if some are gone.

        Parameters
        ----------
        partition : int
            The partition.
        first, stop : int
            Offset of the first message, and the one after the last message.
        """
        ranges = self.offset_ranges()
        self._start_offsets({"offsets": {str(partition): first}}, {partition: ranges[partition]})
        self._consumer.assign([self._client.TopicPartition(self._topic, partition, first)])
        reader = PartitionReader(self._client, self._consumer, self._topic, {partition: stop}, {partition: first})
        try:
            messages = reader.take(partition, max(1, stop - first))
        finally:
            self._consumer.unassign()
        if isinstance(messages, Messages):
            self._parser.detect(messages.values)
        chunk = self._parser.chunk(messages, 0, {"row": 0}, partial(_place, partition, messages.offsets))
        self.feature_names, self.left_out = self._parser.feature_names, self._parser.left_out
        offsets = np.array(messages.offsets, np.int64)
        bad = tuple(b._replace(row=int(offsets[b.row]) * len(ranges) + partition) for b in chunk.bad)
        return chunk._replace(numbers=offsets[chunk.numbers] * len(ranges) + partition, bad=bad)

    def _start_offsets(self, position: Position, ranges: dict[int, tuple[int, int]]) -> dict[int, int]:
        """Return the offset to start at in each partition; raise if messages there are gone."""
        known = position.get("offsets", {})
        offsets = {p: int(known.get(str(p), low)) for p, (low, _) in ranges.items()}
        for p, (low, high) in ranges.items():
            if offsets[p] > high:
                raise SourceError(
                    f"{self.name} ends at offset {high} in partition {p}, but was read up to {offsets[p]}: it is "
                    "another topic of that name.",
                    Remedy.START_NEW_RUN,
                )
            if offsets[p] < low:
                self._report_loss(p, offsets[p], low)
                offsets[p] = low
        return offsets

    def _report_loss(self, partition: int, first: int, low: int) -> None:
        """Say how many messages are gone; stop unless rows that cannot be used are skipped."""
        lost = (
            f"{self.name} has lost messages {first} to {low - 1} of partition {partition} before they were read "
            f"({low - first:,} in all)"
        )
        if not self.skip_bad:
            raise SourceError(f"{lost}.", Remedy.RAISE_RETENTION, Remedy.SKIP_BAD_ROWS, Remedy.START_NEW_RUN)
        warnings.warn(DataWarning(f"{lost}; reading continues after them.", Remedy.RAISE_RETENTION), stacklevel=2)

    def _take_turns(self, reader: PartitionReader, offsets: dict[int, int], position: Position) -> Iterator[Chunk]:
        row, turn, block = int(position.get("row", 0)), int(position.get("turn", 0)), position.get("block")
        partitions = sorted(offsets)
        while any(reader.left(p) for p in partitions):
            p = partitions[turn % len(partitions)]
            turn = (turn + 1) % len(partitions)
            if block is None and (size := reader.first_size(p)) is not None:
                block = max(FEWEST_TOGETHER, min(MOST_TOGETHER, BLOCK_BYTES // max(1, size)))
            if self._parser.is_json is False and block:
                reader.pack(self._parser.width or 0, block)
            messages = reader.take(p, block or 1)
            if not len(messages):
                continue
            offsets[p] = messages.offsets[-1] + 1
            self._note_end(p)
            if isinstance(messages, Messages):
                self._parser.detect(messages.values)
            first, row = row, row + len(messages)
            after = {
                "row": row,
                "offsets": {str(q): offset for q, offset in offsets.items()},
                "turn": turn,
                "block": block,
                **self._parser.facts(),
            }
            chunk = self._parser.chunk(messages, first, after, partial(_place, p, messages.offsets))
            self.feature_names, self.left_out = self._parser.feature_names, self._parser.left_out
            yield chunk


def _place(partition: int, offsets: list[int], number: int) -> str:
    return f"partition {partition}, offset {offsets[number]}"
