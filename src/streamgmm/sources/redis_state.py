"""What a Redis stream says about itself, and whether entries are gone that were not read."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from streamgmm.errors import SourceError
from streamgmm.storage.schema import refuse

EntryId = tuple[int, int]


def entry_id(text: bytes | str) -> EntryId:
    """Return the id of an entry as numbers, which are ordered.

    Parameters
    ----------
    text : bytes or str
        Milliseconds and a number, such as ``1526919030474-55``.
    """
    milliseconds, number = (text.decode() if isinstance(text, bytes) else text).split("-")
    return int(milliseconds), int(number)


def written_id(value: Any, place: str) -> None:
    """Raise ValueError unless a value is the id of an entry, as Redis writes it.

    Parameters
    ----------
    value : object
        What a file holds.
    place : str
        Where.
    """
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{1,20}-[0-9]{1,20}", value):
        refuse(value, place, "the id of an entry, such as '1526919030474-55'")


def id_text(number: EntryId) -> str:
    """Return the id of an entry as Redis writes it.

    Parameters
    ----------
    number : tuple of int
        Milliseconds and a number.
    """
    return f"{number[0]}-{number[1]}"


class StreamState(NamedTuple):
    """A stream at one moment.

    Parameters
    ----------
    added : int
        Entries that were ever added.
    length : int
        Entries that are left.
    first : tuple of int or None
        Id of the first entry that is left.
    last : tuple of int
        Id of the last entry that was added.
    """

    added: int
    length: int
    first: EntryId | None
    last: EntryId

    @classmethod
    def from_reply(cls, source: str, reply: dict[str, Any]) -> StreamState:
        """Interpret the reply to XINFO STREAM.

        Parameters
        ----------
        source : str
            Name of the source, for messages.
        reply : dict
            What the server says.
        """
        if "entries-added" not in reply:
            raise SourceError(
                f"the server of {source} does not count entries, so lost ones would go unnoticed; "
                "expected Redis 7 or later."
            )
        first = reply["first-entry"]
        return cls(
            int(reply["entries-added"]),
            int(reply["length"]),
            None if not first else entry_id(first[0]),
            entry_id(reply["last-generated-id"]),
        )

    @property
    def gone(self) -> int:
        """Entries that were added and are no longer there."""
        return self.added - self.length

    def is_another(self, last: EntryId, added: int) -> bool:
        """Return whether this cannot be the stream that was read: it was deleted and created again.

        Parameters
        ----------
        last : tuple of int
            Id of the last entry that was read.
        added : int
            Entries that had been added up to it.
        """
        return self.last < last or self.added < added

    def lost(self, last: EntryId, added: int) -> int:
        """Return how many entries were removed before they were read.

        As long as the last entry that was read is still there, trimming has not come that far.

        Parameters
        ----------
        last : tuple of int
            Id of the last entry that was read.
        added : int
            Entries that had been added up to it.
        """
        return max(0, self.gone - added) if self.first is None or self.first > last else 0
