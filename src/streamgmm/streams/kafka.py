"""Kafka topics: vectors as raw little-endian float32, or JSON arrays and objects, one sample a message.

Offsets live in our own checkpoint, beside the parameters that they belong to; nothing is committed to the brokers. A
read goes up to where the topic ends when it begins, in blocks of each partition in turn, so the order of samples
depends on what the topic holds and not on which partition happens to answer first.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from urllib.parse import parse_qsl, urlsplit

import numpy as np

from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError
from streamgmm.streams.lines import Ndjson
from streamgmm.streams.partitions import SECONDS, Messages, Reader, Vectors

BLOCK_BYTES = 1 << 22  # of a partition's messages before it is the next one's turn, judged by the first message
FETCHING = {
    "group.id": "streamgmm",  # required, not used: we assign partitions and keep offsets ourselves
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "queued.min.messages": 4000,
    "queued.max.messages.kbytes": 8192,
    "fetch.queue.backoff.ms": 2,  # a full queue is soon empty again
    "fetch.wait.max.ms": 10,
}


class Kafka(Source):
    """All partitions of a topic, ``kafka://host:port/topic``; what follows a ``?`` is configuration of librdkafka."""

    grows = True

    def __init__(
        self,
        url: str,
        *,
        columns: Sequence[str] | None = None,
        id_column: str | None = None,
        skip_bad: bool = False,
        missing: bool = False,
    ) -> None:
        try:
            import confluent_kafka as client
        except ImportError as problem:
            raise ImportError("Kafka needs confluent-kafka: pip install 'streamgmm[kafka]'") from problem
        parts = urlsplit(url)
        self._topic = parts.path.strip("/")
        if not parts.netloc or not self._topic or "/" in self._topic:
            raise SourceError(f"{url} names no topic; expected kafka://host:port/topic.")
        settings = dict(parse_qsl(parts.query))
        if "plugin.library.paths" in settings:
            raise SourceError("plugin.library.paths would load code; it cannot be part of a source.")
        self.name, self._client, self.skip_bad = f"topic {self._topic}", client, skip_bad
        try:
            quiet = {"logger": None, "log_level": 0}
            self._consumer = client.Consumer({**FETCHING, **quiet, **settings, "bootstrap.servers": parts.netloc})
        except client.KafkaException as problem:
            raise SourceError(f"{url}: {problem.args[0]}.") from problem
        self._json = Ndjson(None, columns=columns, id_column=id_column, skip_bad=skip_bad, missing=missing)
        self._json.name = self.name
        self._named = bool(columns or id_column)
        self._learned: int | None = None  # bytes of the vectors that a model knows
        self._width: int | None = None
        self._is_json: bool | None = None

    def expect(self, names: list[str] | None, width: int) -> None:
        self._json.expect(names, width)
        self._learned = 4 * width

    @property
    def n_rows(self) -> int:
        return sum(high - low for low, high in self._ends().values())

    def _ends(self) -> dict[int, tuple[int, int]]:
        """First offset of each partition, and the one behind its last."""
        try:
            topic = self._consumer.list_topics(self._topic, timeout=SECONDS).topics[self._topic]
            if topic.error is not None:
                raise SourceError(f"{self.name}: {topic.error.str()}.")
            place = self._client.TopicPartition
            return {
                p: self._consumer.get_watermark_offsets(place(self._topic, p), timeout=SECONDS)
                for p in sorted(topic.partitions)
            }
        except self._client.KafkaException as problem:
            raise SourceError(f"{self.name}: no broker answers ({problem.args[0].str()}).") from problem

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        ends = self._ends()
        if start is not None and "offsets" not in start:
            raise SourceError(f"the run stands at row {start['row']} of another kind of source than {self.name}.")
        known = {int(p): int(offset) for p, offset in (start or {}).get("offsets", {}).items()}
        at = {p: known.get(p, low) for p, (low, _) in ends.items()}
        for p, (low, high) in ends.items():
            if at[p] > high:
                raise SourceError(
                    f"{self.name} ends at offset {high} in partition {p}, but was read up to {at[p]}: it is another "
                    "topic of that name. Start a new run for it."
                )
            if at[p] < low:
                raise SourceError(
                    f"{self.name} has lost messages {at[p]} to {low - 1} of partition {p}, which were not read yet. "
                    "Raise the topic's retention; start a new run to go on with what is left."
                )
        if start and start.get("json") is not None:
            self._is_json, self._width = start["json"], start["width"]
        self._consumer.assign([self._client.TopicPartition(self._topic, p, offset) for p, offset in at.items()])
        row, turn = int((start or {}).get("row", 0)), int((start or {}).get("turn", 0))
        reader = Reader(self._client, self._consumer, self._topic, {p: high for p, (_, high) in ends.items()}, at)
        try:
            yield from self._in_turn(reader, at, row, turn, (start or {}).get("block"))
        finally:
            self._consumer.unassign()  # or it would go on fetching, and keep the brokers from answering anything else

    def _in_turn(self, reader: Reader, at: dict[int, int], row: int, turn: int, block: int | None) -> Iterator[Chunk]:
        ends = sorted(at)
        while any(reader.left(p) for p in ends):
            p = ends[turn % len(ends)]
            turn = (turn + 1) % len(ends)
            if block is None and (size := reader.first_size(p)) is not None:
                block = max(100, min(4000, BLOCK_BYTES // max(1, size)))
            if self._is_json is False and block:
                reader.pack(self._width or 0, block)
            messages = reader.take(p, block or 1)
            if len(messages):
                at[p] = messages.offsets[-1] + 1
                behind = {str(q): offset for q, offset in at.items()}
                if isinstance(messages, Messages):
                    self._find_form(messages.values)
                form = {"json": self._is_json, "width": self._width}
                position = {"row": row + len(messages), "offsets": behind, "turn": turn, "block": block, **form}
                yield self._chunk(p, messages, row, position)
                row += len(messages)

    def _chunk(self, partition: int, messages: Messages | Vectors, first: int, position: Position) -> Chunk:
        if isinstance(messages, Messages) and self._is_json:
            chunk = self._json._chunk(messages.values, first, position)
            self.feature_names = self._json.feature_names
            return chunk
        vectors = messages.packed(self._width or 0) if isinstance(messages, Messages) else messages
        bad = []
        for i, size in vectors.odd.items():
            reason = f"has {size} bytes; expected a vector of float32, {self._width} bytes, or only JSON"
            bad.append(Bad(first + i, reason))
            if not self.skip_bad:
                raise SourceError(
                    f"row {first + i} of {self.name} (partition {partition}, offset {vectors.offsets[i]}) {reason}. "
                    "Leave out such rows with --bad-rows skip."
                )
        rows, numbers = vectors.rows, first + np.arange(len(vectors))
        if bad:
            good = np.delete(np.arange(len(rows)), list(vectors.odd))
            rows, numbers = rows[good], numbers[good]
        return Chunk(rows.view("<f4").astype(np.float32, copy=False), numbers, position, tuple(bad))

    def _find_form(self, values: list[bytes]) -> None:
        """JSON or raw vectors: what the first message with anything in it is; and of how many bytes most are."""
        first = next((v for v in values if v), None)
        if self._is_json is not None or first is None:
            return
        try:
            self._is_json = isinstance(json.loads(first), list | dict)
        except (ValueError, RecursionError):
            self._is_json = False
        if not self._is_json and self._named:
            raise SourceError(f"{self.name} holds vectors without names of columns; leave --columns and --id away.")
        sizes = Counter(len(v) for v in values if v and not len(v) % 4)
        if not self._is_json and not sizes:
            raise SourceError(
                f"{self.name} holds neither JSON nor vectors of float32: its first message has {len(first)} bytes."
            )
        self._width = None if self._is_json else self._learned or sizes.most_common(1)[0][0]
