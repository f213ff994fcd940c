"""Messages of Kafka, MQTT and Redis, as their parsers read them.

A case is a file of messages, each with its length before it. Within those of MQTT and Redis, zero bytes separate the
topic from its payload, and names of fields from their values.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from streamgmm.errors import SourceError
from streamgmm.sources.base import Position, ReadOptions
from streamgmm.sources.message_parser import MessageParser
from streamgmm.sources.messages import Messages
from streamgmm.sources.mqtt_rows import Message, MqttParser
from streamgmm.sources.redis_entries import EntryParser
from tests.fuzz.formats import Format, cut_bytes, flip_bytes, mutate_json

OPTIONS = (ReadOptions(), ReadOptions(skip_bad=True, missing=True), ReadOptions(skip_bad=True, id_column="a"))
TEXTS = (b"", b"null", b"nan", b"inf", b"1e400", b"x", b"\xff\xfe", b"\x1b[2J", b"9" * 500, b"[" * 40_000)


@cache
def rows() -> np.ndarray:
    """Return what messages hold."""
    return np.random.default_rng(0).normal(size=(12, 3)).astype("<f4")


@cache
def bodies() -> list[list[bytes]]:
    """Return rows as objects, as arrays and as vectors of bytes."""
    objects = [json.dumps(dict(zip("abc", map(float, row), strict=True))).encode() for row in rows()]
    return [objects, [json.dumps(row.tolist()).encode() for row in rows()], [r.tobytes() for r in rows()]]


@cache
def kafka_examples() -> list[bytes]:
    """Return topics of messages."""
    return [_packed(messages) for messages in bodies()]


@cache
def mqtt_examples() -> list[bytes]:
    """Return messages that are rows, and topics that are columns."""
    texts = [f"plant/{name}\0{value:.3f}".encode() for row in rows() for name, value in zip("abc", row, strict=True)]
    return [*(_packed([b"plant/x\0" + body for body in messages]) for messages in bodies()), _packed(texts)]


@cache
def redis_examples() -> list[bytes]:
    """Return entries whose fields are columns, and entries with a row in one field."""
    entries = ["\0".join(f"{n}\0{v:.3f}" for n, v in zip("abc", row, strict=True)).encode() for row in rows()]
    return [*(_packed([b"row\0" + body for body in messages]) for messages in bodies()), _packed(entries)]


def _packed(messages: list[bytes]) -> bytes:
    return b"".join(len(m).to_bytes(2, "little") + m for m in messages)


def unpacked(content: bytes) -> list[bytes]:
    """Return the messages of a file."""
    messages = []
    while content:
        size = int.from_bytes(content[:2], "little")
        messages.append(content[2 : 2 + size])
        content = content[2 + size :]
    return messages


def change_message(rng: Random, content: bytes) -> bytes:
    """Change the value of a message, or send an empty, a shorter, an odd or a repeated one."""
    messages = unpacked(content) or [b""]
    at = rng.randrange(len(messages))
    head, zero, body = messages[at].rpartition(b"\0")
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        value = None
    if value is not None and rng.random() < 0.6:
        messages[at] = (head + zero + json.dumps(mutate_json(rng, value)).encode())[:60_000]
    else:
        odd = (messages[0], messages[at][:-1], b"\0" * 12, *(head + zero + text for text in TEXTS), *TEXTS[:3])
        messages[at] = rng.choice(odd)
    return _packed(messages)


def _tried(parse: Callable[[list[bytes], ReadOptions], None]) -> Callable[[Path], None]:
    def trial(path: Path) -> None:
        values = unpacked(path.read_bytes())
        for options in OPTIONS:
            try:
                parse(values, options)
            except SourceError:
                continue

    return trial


def parse_kafka(values: list[bytes], options: ReadOptions, position: Position | None = None) -> None:
    """Parse messages as the source of Kafka topics does, perhaps after a position."""
    parser, messages = MessageParser("topic", options), Messages()
    parser.restore(position or {})
    messages.put(values, list(range(len(values))))
    parser.detect(values)
    if parser.is_json is not None:
        parser.chunk(messages, 0, {"row": len(values)}, str)


def parse_mqtt(values: list[bytes], options: ReadOptions, position: Position | None = None) -> None:
    """Parse messages as the source of MQTT topics does, in two halves: with another parser after the first."""
    messages = []
    for number, value in enumerate(values):
        topic, _, payload = value.partition(b"\0")
        name = topic.decode(errors="backslashreplace")
        messages.append(Message(name, payload, name.startswith("retained"), number))
    parser, half = MqttParser("broker", options), len(messages) // 2
    parser.restore(position or {})
    parser.chunk(messages[:half], 0)
    again = MqttParser("broker", options)
    again.restore(_read_back(parser.facts()))
    again.chunk(messages[half:], half)
    again.mention_silence()


def parse_redis(values: list[bytes], options: ReadOptions, position: Position | None = None) -> None:
    """Parse entries as the source of Redis streams does, in two halves: with another parser after the first."""
    entries = []
    for number, value in enumerate(values):
        parts = value.split(b"\0")
        entries.append((f"{number}-0".encode(), dict(zip(parts[::2], parts[1::2], strict=False))))
    half = len(entries) // 2
    parser, again = EntryParser("stream", options), EntryParser("stream", options)
    parser.restore(position or {})
    for reader, some, first in ((parser, entries[:half], 0), (again, entries[half:], half)):
        reader.detect(some)
        if some:
            reader.chunk(some, first, {"row": first + len(some)})
        again.restore(_read_back(parser.facts()))


def _read_back(facts: dict[str, Any]) -> dict[str, Any]:
    """Return a position as a checkpoint gives it back."""
    found: dict[str, Any] = json.loads(json.dumps({"row": 0, **facts}))
    return found


MUTATIONS = (flip_bytes, cut_bytes, *3 * (change_message,))
MESSAGES = (
    Format("messages", ".bin", kafka_examples, MUTATIONS, _tried(parse_kafka)),
    Format("mqtt", ".bin", mqtt_examples, MUTATIONS, _tried(parse_mqtt)),
    Format("redis", ".bin", redis_examples, MUTATIONS, _tried(parse_redis)),
)
