"""From entries of a Redis stream to rows."""

from __future__ import annotations

import json
from typing import Any

from streamgmm.sources.base import Chunk, Position, ReadOptions
from streamgmm.sources.message_parser import BodyParser, MessageParser, holds_json, holds_text
from streamgmm.sources.messages import Messages

ENTRY_ID = "id"  # what to call the id of an entry, unless entries have a field of that name

Entry = tuple[bytes, dict[bytes, bytes]]


class EntryParser:
    """Parse entries into rows, one row per entry.

    The fields of an entry are columns. If the first entry has a single field, and that holds JSON or bytes that are not
    text, each entry's row is inside that field.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    options : ReadOptions
        How to read it.
    field : str or None, default=None
        The field that holds rows.
    """

    def __init__(self, source: str, options: ReadOptions, field: str | None = None) -> None:
        self._source, self._options = source, options
        self._field = None if field is None else field.encode()
        self._columns: bool | None = None if field is None else False  # whether fields are columns
        self._fields, self._bodies = BodyParser(source, options), MessageParser(source, options)

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, once they are known."""
        return self._fields.feature_names if self._columns else self._bodies.feature_names

    @property
    def left_out(self) -> list[str]:
        """Names of columns without numbers, which are not features."""
        return self._fields.left_out if self._columns else self._bodies.left_out

    def expect(self, names: list[str] | None, width: int) -> None:
        """Remember the features of the model.

        Parameters
        ----------
        names : list of str or None
            Names of the features, if they have names.
        width : int
            Number of features.
        """
        self._fields.expect(names, width)
        self._bodies.expect(names, width)

    def facts(self) -> dict[str, Any]:
        """Return the format, as part of a position."""
        field = None if self._field is None else self._field.decode(errors="surrogateescape")
        return {"columns": self._columns, "field": field, **self._bodies.facts()}

    def restore(self, position: Position) -> None:
        """Take the format from a position, if it was known there.

        Parameters
        ----------
        position : dict
            Where reading resumes.
        """
        columns, field = position.get("columns"), position.get("field")
        if columns:
            self._columns, self._field = True, None
        elif columns is False and field is not None:
            self._columns, self._field = False, field.encode(errors="surrogateescape")
        self._bodies.restore(position)

    def detect(self, entries: list[Entry]) -> None:
        """Let the first entry decide on the format.

        Parameters
        ----------
        entries : list of (bytes, dict)
            Ids and fields of the first entries.
        """
        if self._columns is None and entries:
            fields = entries[0][1]
            alone = next(iter(fields)) if len(fields) == 1 else None
            self._columns = alone is None or (not holds_json(fields[alone]) and holds_text(fields[alone]))
            self._field = None if self._columns else alone
        if self._columns is False:
            self._bodies.detect([fields.get(self._field or b"", b"") for _, fields in entries])

    def chunk(self, entries: list[Entry], first: int, position: Position) -> Chunk:
        """Parse entries into a chunk.

        Parameters
        ----------
        entries : list of (bytes, dict)
            Ids and fields.
        first : int
            Number of the first entry.
        position : dict
            Position after the last entry.
        """
        if self._columns:
            chunk = self._fields.chunk([_as_json(fields) for _, fields in entries], first, position)
        else:
            absent = b"null" if self._bodies.is_json else b""
            messages = Messages()
            messages.put([fields.get(self._field or b"", absent) for _, fields in entries], [0] * len(entries))
            chunk = self._bodies.chunk(messages, first, position, lambda i: f"entry {entries[i][0].decode()}")
        if self._options.id_column == ENTRY_ID and chunk.ids is not None:
            own = (entries[n - first][0].decode() for n in chunk.numbers)
            chunk = chunk._replace(ids=tuple(o if i is None else i for i, o in zip(chunk.ids, own, strict=True)))
        return chunk


def _as_json(fields: dict[bytes, bytes]) -> bytes:
    """Return fields as an object; bytes that are not UTF-8 become escapes, which are not numbers."""
    return json.dumps({_text(name): _text(value) for name, value in fields.items()}).encode()


def _text(value: bytes) -> str:
    return value.decode(errors="backslashreplace")
