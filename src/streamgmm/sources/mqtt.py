"""MQTT topics: one row per message, or one column per topic.

A broker has no positions. It keeps the messages of a session until they are acknowledged, and they are acknowledged
once they are part of a checkpoint. A reader that is killed gets everything after its last checkpoint again. It may also
get messages of that checkpoint again, if it was killed before their acknowledgement arrived: at least once. These are
fewer than two windows, because a checkpoint is due whenever a window is full.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from uuid import uuid4

from streamgmm.errors import MissingExtraError, SourceError
from streamgmm.sources.base import Chunk, Position, ReadOptions, Source, check_position
from streamgmm.sources.message_parser import FORMAT
from streamgmm.sources.mqtt_rows import ROW_KINDS, MqttParser
from streamgmm.sources.mqtt_session import Login, Session
from streamgmm.storage.schema import COUNT, choice, optional, record, text
from streamgmm.transports.broker_urls import FILE_SETTINGS, parse_broker_url
from streamgmm.transports.mqtt_client import DEFAULT_PORT, SECURE_PORT, is_secure

EXPECTED = "mqtt://[user:password@]host[:1883]/topic/filter"
SETTINGS = ("client", "rows", "window", *FILE_SETTINGS)
WINDOW = 10  # brokers send at least this many messages ahead of acknowledgements
MOST_MESSAGES = 1000  # of a chunk
WAIT_SECONDS = 1.0  # for messages, before a followed topic counts as idle
POSITION = {"messages": COUNT}
TEXTS = record({}, unknown=text)
FACTS = {"client": optional(text), "rows": choice(None, *ROW_KINDS), "latest": TEXTS, "round": TEXTS, **FORMAT}
"""What a position may have, beside the number of messages."""


class MqttSource(Source):
    """Messages of the topics that match a filter.

    A source with a ``client`` or a ``reader`` has a session that the broker keeps. The caller must then ``commit`` the
    positions that are safe, because brokers send only a few messages ahead of acknowledgements. Other sources get what
    is published while they read.

    Parameters
    ----------
    url : str
        ``mqtt://host:port/topic/filter``; ``mqtts://`` for TLS. Settings: ``rows`` ("messages" or "topics"),
        ``client`` (name of the client), ``window`` (commit after this many messages), and for TLS ``ca``, ``cert`` and
        ``key`` (files).
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    grows = True
    rereadable = False

    def __init__(self, url: str, options: ReadOptions | None = None) -> None:
        if find_spec("paho") is None:
            raise MissingExtraError("MQTT requires paho-mqtt", "mqtt")
        self._secure = is_secure(url)
        self._place = place = parse_broker_url(url, SECURE_PORT if self._secure else DEFAULT_PORT, SETTINGS, EXPECTED)
        options = options or ReadOptions()
        self.name, self.skip_bad, self._follow = f"MQTT topic {place.path}", options.skip_bad, options.follow
        self._check_filter()
        rows, window = place.settings.get("rows"), place.settings.get("window", str(WINDOW))
        if rows not in (None, *ROW_KINDS):
            raise SourceError(f"setting rows of {self.name} is {rows!r}; expected {' or '.join(ROW_KINDS)}.")
        if not window.isdecimal() or not 1 <= int(window) <= 65535:
            raise SourceError(f"setting window of {self.name} is {window!r}; expected a number from 1 to 65535.")
        self._window = int(window)
        reader = None if options.reader is None else f"streamgmm-{options.reader}"
        self._reader = place.settings.get("client") or reader
        self._parser = MqttParser(self.name, options, rows)
        self._session: Session | None = None

    def _check_filter(self) -> None:
        levels = self._place.path.split("/")
        if any(("+" in x or "#" in x) and len(x) > 1 for x in levels) or "#" in levels[:-1]:
            raise SourceError(f"{self.name} is not a topic filter; + and # replace whole levels, and # only the last.")

    def expect(self, names: list[str] | None, width: int) -> None:
        self._parser.expect(names, width)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Yield chunks as messages arrive. A followed topic ends when nothing arrives for a second."""
        check_position(start, POSITION, self.name, FACTS)
        if start is not None:
            self._parser.restore(start)
        session, client = self._open(start)
        most = MOST_MESSAGES if client is None else min(MOST_MESSAGES, self._window)  # what a crash may repeat
        row = 0 if start is None else int(start["row"])
        while True:
            messages = session.take(most, WAIT_SECONDS)
            if messages:
                chunk = self._parser.chunk(messages, row)
                self.feature_names, row = self._parser.feature_names, chunk.position["row"]
                self.left_out = self._parser.left_out
                place = {"row": row, "messages": messages[-1].number, "client": client}
                yield chunk._replace(position={**place, **self._parser.facts()})
                continue
            self._parser.mention_silence()
            if self._follow or session.closed:
                return

    def _open(self, start: Position | None) -> tuple[Session, str | None]:
        """Return the session that continues after a position, and the name of the client if the broker keeps it."""
        place = start or {}
        number = int(place.get("messages", 0))
        client = None if self._reader is None else str(place.get("client") or self._reader)
        if self._session is not None and (self._session.closed or self._session.taken != number):
            self.close()  # messages that were taken but not acknowledged arrive again in the next session
        if self._session is None:
            self._parser.restart()
            name = client or f"streamgmm-{uuid4().hex[:12]}"
            known = client is not None and start is not None
            session = Session(self.name, Login(self._place, self._secure, name, client is not None, known), number)
            try:
                session.open(patient=self._follow)
            except BaseException:
                session.close()
                raise
            self._session = session
        return self._session, client

    def needs_commit(self, position: Position | None) -> bool:
        session = self._session
        if session is None or position is None:
            return False
        return int(position["messages"]) - session.acknowledged >= self._window

    def commit(self, position: Position | None) -> None:
        if self._session is not None and position is not None:
            self._session.acknowledge(int(position["messages"]))

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            session.close()
