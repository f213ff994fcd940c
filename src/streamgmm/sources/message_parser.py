"""From messages to rows: each one is JSON, or a vector of raw little-endian float32."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import BadRow, Chunk, Position, ReadOptions
from streamgmm.sources.json_lines import JsonParser
from streamgmm.sources.line_parser import LineError
from streamgmm.sources.messages import Messages, Vectors
from streamgmm.storage.schema import flag, number, optional, refuse

MOST_BYTES = 1 << 24  # of a message in JSON
WIDEST = 1 << 28  # bytes of a vector


def _vector_bytes(value: Any, place: str) -> None:
    number(0, WIDEST, whole=True)(value, place)
    if value % 4:
        refuse(value, place, "the bytes of a vector of float32")


FORMAT = {"json": optional(flag), "width": optional(_vector_bytes)}
"""What a parser adds to positions."""


class BodyParser(JsonParser):
    """Parse JSON that anyone may have sent: names that could control a terminal are not names of features."""

    def load(self, line: bytes) -> Any:
        if len(line) > MOST_BYTES:
            raise LineError(f"has {len(line)} bytes; expected at most {MOST_BYTES}")
        value = super().load(line)
        if isinstance(value, dict) and (odd := next((name for name in value if not name.isprintable()), None)):
            raise LineError(f"has a field with characters that cannot be printed, {odd[:30]!a}")
        return value


class MessageParser:
    """Parse messages into rows, one row per message. The first message that is not empty decides on the format.

    Parameters
    ----------
    source : str
        Name of the source, for messages to people.
    options : ReadOptions
        How to read it.

    Attributes
    ----------
    is_json : bool or None
        Whether messages are JSON, otherwise vectors; None until it is known.
    width : int or None
        Bytes of a vector.
    """

    def __init__(self, source: str, options: ReadOptions) -> None:
        self._source, self._options = source, options
        self._json = BodyParser(source, options)
        self._expected_bytes: int | None = None  # of a vector that the model can learn
        self.is_json: bool | None = None
        self.width: int | None = None

    @property
    def feature_names(self) -> list[str] | None:
        """Names of the features, once they are known."""
        return self._json.feature_names

    @property
    def left_out(self) -> list[str]:
        """Names of columns without numbers, which are not features."""
        return self._json.left_out

    def expect(self, names: list[str] | None, width: int) -> None:
        """Remember the features of the model.

        Parameters
        ----------
        names : list of str or None
            Names of the features, if they have names.
        width : int
            Number of features.
        """
        self._json.expect(names, width)
        self._expected_bytes = 4 * width

    def facts(self) -> dict[str, Any]:
        """Return the format, as part of a position."""
        return {"json": self.is_json, "width": self.width}

    def restore(self, position: Position) -> None:
        """Take the format from a position, if it was known there.

        Parameters
        ----------
        position : dict
            Where reading resumes.
        """
        width = self._expected_bytes or position.get("width")
        if position.get("json") or (position.get("json") is False and width):
            self.is_json, self.width = position["json"], None if position["json"] else width

    def detect(self, values: list[bytes]) -> None:
        """Let the first message that is not empty decide between JSON and vectors, and the majority on their size.

        Parameters
        ----------
        values : list of bytes
            The first messages.
        """
        first = next((v for v in values if v), None)
        if self.is_json is not None or first is None:
            return
        self.is_json = holds_json(first)
        if not self.is_json and self._options.names_columns:
            raise SourceError(f"{self._source} contains vectors, whose columns have no names.", Remedy.DROP_COLUMNS)
        sizes = Counter(len(v) for v in values if v and not len(v) % 4)
        if not self.is_json and not sizes:
            raise SourceError(
                f"the first message of {self._source} has {len(first)} bytes; expected JSON or a vector of float32."
            )
        self.width = None if self.is_json else self._expected_bytes or sizes.most_common(1)[0][0]

    def chunk(self, messages: Messages | Vectors, first: int, position: Position, place: Callable[[int], str]) -> Chunk:
        """Parse messages into a chunk.

        Parameters
        ----------
        messages : Messages or Vectors
            The messages, as they arrived or packed.
        first : int
            Number of the first row.
        position : dict
            Position after the last message.
        place : callable
            Returns where a message is, given its number among these.
        """
        if isinstance(messages, Messages):
            if self.is_json:  # an empty line of a file is nothing, but an empty message is a message
                values = [value if value.strip() else b"null" for value in messages.values]
                return self._json.chunk(values, first, position)
            messages = messages.packed(self.width or 0)
        bad = []
        for i, size in messages.odd.items():
            reason = f"has {size} bytes; expected a vector of float32 with {self.width} bytes, or JSON throughout"
            bad.append(BadRow(first + i, reason))
            if not self._options.skip_bad:
                message = f"row {first + i} of {self._source} ({place(i)}) {reason}."
                raise SourceError(message, Remedy.SKIP_BAD_ROWS)
        rows, numbers = messages.rows, first + np.arange(len(messages))
        if bad:
            good = np.delete(np.arange(len(rows)), list(messages.odd))
            rows, numbers = rows[good], numbers[good]
        return Chunk(rows.view("<f4").astype(np.float32, copy=False), numbers, position, tuple(bad))


def holds_json(value: bytes) -> bool:
    """Return whether a message is a JSON array or object.

    Parameters
    ----------
    value : bytes
        The message.
    """
    try:
        return isinstance(json.loads(value), list | dict)
    except (ValueError, RecursionError):
        return False


def holds_text(value: bytes) -> bool:
    """Return whether a message is text that can be printed, not a vector.

    Parameters
    ----------
    value : bytes
        The message.
    """
    try:
        return all(c.isprintable() or c.isspace() for c in value.decode())
    except UnicodeDecodeError:
        return False
