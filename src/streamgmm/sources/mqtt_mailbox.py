"""Messages from an MQTT broker that wait to be read, and those that wait to be acknowledged."""

from __future__ import annotations

import time
from collections import deque
from threading import Condition

from streamgmm.errors import SourceError
from streamgmm.sources.mqtt_rows import Message

MOST_WAITING, WAITING_BYTES = 10_000, 1 << 24  # messages; then the network thread waits, and so does the broker


class Mailbox:
    """A bounded queue between the network thread and the reading thread, which numbers messages.

    Parameters
    ----------
    number : int, default=0
        How many messages that need an acknowledgement came before.

    Attributes
    ----------
    acknowledged : int
        Number up to which messages are safe.
    closed : bool
        Whether reading has ended.
    """

    def __init__(self, number: int = 0) -> None:
        self.acknowledged = self._arrived = number
        self.closed = False
        self._changed = Condition()
        self._waiting: deque[Message] = deque()
        self._bytes = 0
        self._notes: deque[tuple[str, str]] = deque()
        self._problem: SourceError | None = None
        self._held: dict[int, int] = {}  # numbers of messages that need an acknowledgement, by packet id
        self._stale: set[int] = set()  # packet ids of an earlier connection, which the broker will send again

    # For the network thread

    def put(self, topic: str, payload: bytes, *, retained: bool, packet: int | None) -> bool:
        """Add a message; wait while the queue is full. Return whether to acknowledge it at once.

        Parameters
        ----------
        topic : str
            Where it was published.
        payload : bytes
            What was published.
        retained : bool
            Whether the broker kept it for new subscribers.
        packet : int or None
            Its packet id, if it needs an acknowledgement. If that is held, the message was sent again.
        """
        with self._changed:
            if packet is not None and (number := self._held.get(packet)) is not None:
                self._stale.discard(packet)
                if number <= self.acknowledged:
                    del self._held[packet]
                return number <= self.acknowledged
            while not self.closed and (len(self._waiting) >= MOST_WAITING or self._bytes > WAITING_BYTES):
                self._changed.wait()
            if packet is not None:
                self._arrived += 1
                self._held[packet] = self._arrived
            self._waiting.append(Message(topic, payload, retained, self._arrived))
            self._bytes += len(payload)
            self._changed.notify_all()
        return False

    def disconnect(self) -> None:
        """Note that the connection broke: the broker sends again what it holds."""
        with self._changed:
            self._stale = set(self._held)

    def forget(self) -> None:
        """Note that the broker holds nothing any more."""
        with self._changed:
            self._held.clear()
            self._stale.clear()

    def note(self, kind: str, text: str = "") -> None:
        """Leave a note for the reading thread.

        Parameters
        ----------
        kind : str
            What it is about.
        text : str, default=""
            What to say.
        """
        with self._changed:
            self._notes.append((kind, text))
            self._changed.notify_all()

    def fail(self, problem: SourceError) -> None:
        """Let the reading thread raise an error.

        Parameters
        ----------
        problem : SourceError
            The error.
        """
        with self._changed:
            self._problem = problem
            self._changed.notify_all()

    # For the reading thread

    def wait(self, end: float) -> None:
        """Wait until there is something to take.

        Parameters
        ----------
        end : float
            When to give up, as ``time.monotonic`` counts.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._waiting or self._notes or self._problem or self.closed, max(0.0, end - time.monotonic())
            )

    def take(self, most: int) -> list[Message]:
        """Remove and return messages. If there are none, raise the error of the network thread.

        Parameters
        ----------
        most : int
            How many, at most.
        """
        with self._changed:
            messages = [self._waiting.popleft() for _ in range(min(most, len(self._waiting)))]
            self._bytes -= sum(len(m.payload) for m in messages)
            self._changed.notify_all()
            if self._problem is not None and not messages:
                raise self._problem
        return messages

    def take_notes(self) -> list[tuple[str, str]]:
        """Remove and return the notes."""
        with self._changed:
            notes = list(self._notes)
            self._notes.clear()
        return notes

    def acknowledge(self, number: int) -> list[int]:
        """Return the packet ids to acknowledge now that messages are safe.

        Parameters
        ----------
        number : int
            Number of the last message that is safe.
        """
        with self._changed:
            self.acknowledged = max(self.acknowledged, number)
            safe = [packet for packet, at in self._held.items() if at <= number and packet not in self._stale]
            for packet in safe:
                del self._held[packet]
        return safe

    def close(self) -> None:
        """Wake all waiting threads."""
        with self._changed:
            self.closed = True
            self._changed.notify_all()
