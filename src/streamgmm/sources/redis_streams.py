"""Redis streams: one row per entry.

Positions contain the id of the last entry that was read, so they are saved together with the parameters they belong to;
there is no consumer group, and nothing is written to the server. Entries that were removed before they were read are
noticed, because the server counts what was ever added.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Event
from typing import Any, NamedTuple

import numpy as np

from streamgmm.errors import MissingExtraError, Remedy, SourceError
from streamgmm.sources.base import CHUNK_BYTES, BadRow, Chunk, Position, ReadOptions, Source, check_position
from streamgmm.sources.message_parser import FORMAT
from streamgmm.sources.outages import Outage, tell
from streamgmm.sources.redis_entries import Entry, EntryParser
from streamgmm.sources.redis_state import EntryId, StreamState, entry_id, id_text, written_id
from streamgmm.storage.schema import COUNT, flag, number, optional, text
from streamgmm.transports.broker_urls import FILE_SETTINGS, BrokerUrl, parse_broker_url

EXPECTED = "redis://[user:password@]host[:6379][/database]/stream"
SETTINGS = ("field", *FILE_SETTINGS)
TIMEOUT_SECONDS = 10.0
WAIT_MILLISECONDS = 1000  # for new entries, before a followed stream counts as idle
FIRST_COUNT, MOST_ENTRIES = 10, 1000  # entries of the first chunk, and of later ones if they are small
POSITION = {"entry": written_id, "added": COUNT, "most": number(1, MOST_ENTRIES, whole=True)}
FACTS = {"columns": optional(flag), "field": optional(text), **FORMAT}  # of a position, if they are known


class Bookmark(NamedTuple):
    """Where reading is: rows so far, last entry, how many were ever added up to it, and how many to read next."""

    row: int = 0
    last: EntryId | None = None
    added: int = 0
    most: int = FIRST_COUNT


class RedisSource(Source):
    """Entries of a stream.

    Parameters
    ----------
    url : str
        ``redis://host:port/stream`` or ``redis://host:port/database/stream``; ``rediss://`` for TLS. Settings:
        ``field`` (the field that holds JSON or a vector), and for TLS ``ca``, ``cert`` and ``key`` (files).
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    grows = True

    def __init__(self, url: str, options: ReadOptions | None = None) -> None:
        place, options = parse_broker_url(url, 6379, SETTINGS, EXPECTED), options or ReadOptions()
        first, _, rest = place.path.partition("/")
        database, self._stream = (int(first), rest) if first.isdecimal() and rest else (0, place.path)
        self.name, self.skip_bad = f"Redis stream {place.path}", options.skip_bad
        self._follow = options.follow
        self._connect(place, database, secure=url.startswith("rediss:"))
        self._outage = Outage(f"the server of {self.name}")
        self._parser = EntryParser(self.name, options, place.settings.get("field"))
        self._closed, self._unused = Event(), Event()
        self._unused.set()
        self._added: int | None = None  # entries that were ever added, as last seen
        self._absent = False  # whether people know that the stream does not exist

    def _connect(self, place: BrokerUrl, database: int, *, secure: bool) -> None:
        try:
            import redis
            from redis.backoff import NoBackoff
            from redis.retry import Retry
        except ImportError as problem:
            raise MissingExtraError("Redis requires redis-py", "redis") from problem
        files = {"ssl_ca_certs": "ca", "ssl_certfile": "cert", "ssl_keyfile": "key"}
        tls: dict[str, Any] = {option: place.settings.get(name) for option, name in files.items()}
        self._errors = redis.exceptions
        self._client: Any = redis.Redis(
            place.host,
            place.port,
            database,
            username=place.user,
            password=place.password,
            socket_timeout=TIMEOUT_SECONDS,
            socket_connect_timeout=TIMEOUT_SECONDS,
            retry=Retry(NoBackoff(), 0),
            protocol=2,
            ssl=secure,
            **(tls if secure else {}),
        )

    def expect(self, names: list[str] | None, width: int) -> None:
        self._parser.expect(names, width)

    @property
    def n_rows(self) -> int | None:
        """Number of entries that the server holds now; None if a followed stream cannot be asked."""
        try:
            return int(self._client.xlen(self._stream))
        except self._errors.RedisError as problem:
            if self._follow and self._is_outage(problem):
                return None
            raise self._as_source_error(problem) from problem

    def lag(self, position: Position | None) -> int | None:
        return None if self._added is None or position is None else max(0, self._added - int(position["added"]))

    def close(self) -> None:
        self._closed.set()
        self._client.close()
        self._unused.wait(TIMEOUT_SECONDS)  # a thread that is left behind would disturb the end of the program

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Yield chunks up to the present end. A followed stream ends when nothing new arrives for a second."""
        check_position(start, POSITION, self.name, FACTS)
        self._closed.clear()
        self._unused.clear()
        mark = Bookmark()
        if start is not None:
            mark = Bookmark(int(start["row"]), entry_id(start["entry"]), int(start["added"]), int(start["most"]))
            self._parser.restore(start)
        try:
            if not self._closed.wait(min(1.0, self._outage.pause)) and not self._outage.pause:
                yield from self._read(mark)
        except self._errors.RedisError as problem:
            if self._closed.is_set():
                return
            if not (self._follow and self._is_outage(problem)):
                raise self._as_source_error(problem) from problem
            self._outage.fail(str(problem).rstrip("."))
        finally:
            self._unused.set()

    def _read(self, mark: Bookmark) -> Iterator[Chunk]:
        end = None  # id of the entry to stop at
        while True:
            state, entries = self._fetch(mark, "+" if end is None else id_text(end))
            self._outage.end()
            if state is None:
                self._report_absence()
                return
            self._added = state.added
            before, (mark, bad) = mark, self._inspect(state, mark)
            if bad:
                yield Chunk(np.empty((0, 0)), np.empty(0, int), self._position(mark), tuple(bad))
            if before.last is not None and mark is not before:
                continue
            end = end or (None if self._follow else state.last)
            if not entries and not self._wait(mark):
                return
            if entries:
                self._parser.detect(entries)
                first, mark = mark.row, _advance(mark, state, entries)
                chunk = self._parser.chunk(entries, first, self._position(mark))
                self.feature_names, self.left_out = self._parser.feature_names, self._parser.left_out
                yield chunk

    def _fetch(self, mark: Bookmark, end: str) -> tuple[StreamState | None, list[Entry]]:
        """Ask for the state of the stream and the next entries at one moment."""
        with self._client.pipeline(transaction=True) as request:
            request.xinfo_stream(self._stream)
            request.xrange(self._stream, "-" if mark.last is None else f"({id_text(mark.last)}", end, mark.most)
            state, entries = request.execute(raise_on_error=False)
        if isinstance(state, self._errors.ResponseError) and "no such key" in str(state):
            return None, []
        for reply in (state, entries):
            if isinstance(reply, Exception):
                raise reply
        return StreamState.from_reply(self.name, state), entries

    def _wait(self, mark: Bookmark) -> bool:
        """Wait for a new entry; return whether one has arrived."""
        last = "0-0" if mark.last is None else id_text(mark.last)
        return self._follow and bool(self._client.xread({self._stream: last}, count=1, block=WAIT_MILLISECONDS))

    def _inspect(self, state: StreamState, mark: Bookmark) -> tuple[Bookmark, list[BadRow]]:
        """Compare the stream with what was read; return where to continue, and what is lost."""
        if mark.last is None:
            return mark._replace(added=state.gone), []
        if state.is_another(mark.last, mark.added):
            self._report_loss("was deleted and created again: entries may be lost")
            return Bookmark(mark.row, most=mark.most), []
        lost = state.lost(mark.last, mark.added)
        if not lost:
            return mark, []
        reason = "was removed before it could be read"
        if lost > 1:
            reason = f"and {lost - 1} more were removed before they could be read"
        self._report_loss(f"has lost {lost} entries after {id_text(mark.last)} before they were read")
        mark = mark._replace(row=mark.row + lost, added=mark.added + lost)
        return mark, [BadRow(mark.row - lost, reason)]

    def _report_loss(self, what: str) -> None:
        if not self.skip_bad:
            raise SourceError(f"{self.name} {what}.", Remedy.KEEP_ENTRIES, Remedy.SKIP_BAD_ROWS, Remedy.START_NEW_RUN)
        tell(f"{self.name} {what}.", Remedy.KEEP_ENTRIES)

    def _report_absence(self) -> None:
        if not self._follow:
            raise SourceError(f"{self.name} does not exist.")
        if not self._absent:
            tell(f"{self.name} does not exist: waiting for it.")
            self._absent = True

    def _position(self, mark: Bookmark) -> Position:
        last = id_text(mark.last or (0, 0))
        return {"row": mark.row, "entry": last, "added": mark.added, "most": mark.most, **self._parser.facts()}

    def _is_outage(self, problem: Exception) -> bool:
        """Whether the server may answer later: it is down, out of reach, or still loading."""
        errors = self._errors
        refused = isinstance(problem, errors.AuthenticationError | errors.AuthorizationError)
        return isinstance(problem, errors.ConnectionError | errors.TimeoutError) and not refused

    def _as_source_error(self, problem: Exception) -> SourceError:
        reason = str(problem).rstrip(".")
        if self._is_outage(problem):
            return SourceError(f"{self.name}: no server answers ({reason}).", Remedy.LET_IT_WAIT)
        return SourceError(f"{self.name}: {reason}.")


def _advance(mark: Bookmark, state: StreamState, entries: list[Entry]) -> Bookmark:
    """Move behind entries. Chunks grow while entries are small, as the position says, so that they are repeatable."""
    last = entry_id(entries[-1][0])
    largest = max(sum(len(name) + len(value) for name, value in fields.items()) for _, fields in entries)
    most = max(1, min(MOST_ENTRIES, 2 * mark.most, CHUNK_BYTES // max(1, largest)))
    added = state.added if last == state.last else mark.added + len(entries)
    return Bookmark(mark.row + len(entries), last, added, most)
