"""From MQTT messages to rows: one row per message, or one value per topic."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np

from streamgmm.errors import Remedy
from streamgmm.sources.base import Chunk, Position, ReadOptions
from streamgmm.sources.message_parser import BodyParser, MessageParser, holds_json, holds_text
from streamgmm.sources.messages import Messages
from streamgmm.sources.outages import tell
from streamgmm.sources.topic_rounds import TopicRounds

TOPIC = "topic"  # what to call the topic of a message, unless messages have a field of that name
MOST_DIGITS = 400  # bytes of a number as text; what is longer is cut, and no number
ROW_KINDS = ("messages", "topics")


class Message(NamedTuple):
    """A message as it arrived.

    Parameters
    ----------
    topic : str
        Where it was published; printable.
    payload : bytes
        What was published.
    retained : bool
        Whether the broker kept it for new subscribers.
    number : int
        How many messages that need an acknowledgement have arrived up to this one.
    """

    topic: str
    payload: bytes
    retained: bool
    number: int


class MqttParser:
    """Parse messages into rows. Unless it is said, the first message decides how.

    Parameters
    ----------
    source : str
        Name of the source, for messages to people.
    options : ReadOptions
        How to read it.
    rows : {"messages", "topics"} or None, default=None
        Whether each message is a row, or each topic a column.
    """

    def __init__(self, source: str, options: ReadOptions, rows: str | None = None) -> None:
        self._source, self._options, self._rows = source, options, rows
        self._bodies, self._values = MessageParser(source, options), BodyParser(source, options)
        self._rounds = TopicRounds(source, options)
        self._warned = False  # of retained messages, or of topics without a value

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, once they are known."""
        return self._rounds.columns if self._rows == "topics" else self._bodies.feature_names

    @property
    def left_out(self) -> list[str]:
        """Names of columns without numbers, which are not features."""
        return [] if self._rows == "topics" else self._bodies.left_out

    def expect(self, names: list[str] | None, width: int) -> None:
        """Remember the features of the model.

        Parameters
        ----------
        names : list of str or None
            Names of the features, if they have names.
        width : int
            Number of features.
        """
        self._bodies.expect(names, width)
        if names is not None and self._options.columns is None:
            self._rounds.columns = names

    def facts(self) -> dict[str, Any]:
        """Return the format, as part of a position."""
        return {"rows": self._rows, **self._bodies.facts(), **self._rounds.facts()}

    def restore(self, position: Position) -> None:
        """Take the format from a position, if it was known there.

        Parameters
        ----------
        position : dict
            Where reading resumes.
        """
        self._rows = position.get("rows") or self._rows
        self._bodies.restore(position)
        self._rounds.restore(position)

    def restart(self) -> None:
        """Expect messages again that are not part of a position."""
        self._rounds.restart()

    def chunk(self, messages: list[Message], first: int) -> Chunk:
        """Parse messages into a chunk; the caller completes its position.

        Parameters
        ----------
        messages : list of Message
            The messages.
        first : int
            Number of the first row.
        """
        if self._rows is None and (payload := next((m.payload for m in messages if m.payload), None)) is not None:
            text = holds_text(payload) and not holds_json(payload)
            self._rows = "topics" if text else "messages"
        if self._rows == "topics":
            return self._chunk_of_topics(messages, first)
        return self._chunk_of_messages(messages, first)

    def mention_silence(self) -> None:
        """Warn once, when nothing arrives, of columns that have never had a value."""
        unheard = self._rounds.unheard() if self._rows == "topics" else []
        if unheard and not self._warned:
            self._warned = True
            tell(f"{self._source}: nothing has arrived for column {unheard[0]!r} so far.", Remedy.CHOOSE_COLUMNS)

    def _chunk_of_messages(self, messages: list[Message], first: int) -> Chunk:
        new = [m for m in messages if not m.retained]
        if len(new) < len(messages) and not self._warned:
            self._warned = True
            tell(f"{self._source} has retained messages; they are ignored, because their age is unknown.")
        self._bodies.detect([m.payload for m in messages])
        bodies, end = Messages(), {"row": first + len(new)}
        bodies.put([m.payload for m in new], [0] * len(new))
        if not new:
            return Chunk(np.empty((0, 0)), np.empty(0, int), end)
        chunk = self._bodies.chunk(bodies, first, end, lambda i: f"topic {new[i].topic}")
        if self._options.id_column == TOPIC and chunk.ids is not None:
            own = (new[n - first].topic for n in chunk.numbers)
            chunk = chunk._replace(ids=tuple(o if i is None else i for i, o in zip(chunk.ids, own, strict=True)))
        return chunk

    def _chunk_of_topics(self, messages: list[Message], first: int) -> Chunk:
        rounds: list[dict[str, str]] = []
        for m in messages:
            rounds += self._rounds.put(m.topic, _text(m.payload), retained=m.retained)
        end = {"row": first + len(rounds)}
        if not rounds:
            return Chunk(np.empty((0, 0)), np.empty(0, int), end)
        self._values.feature_names = self._rounds.columns
        return self._values.chunk([json.dumps(row).encode() for row in rounds], first, end)


def _text(payload: bytes) -> str:
    if len(payload) > MOST_DIGITS:
        return payload[:30].decode(errors="backslashreplace") + "…"
    return payload.decode(errors="backslashreplace")
