"""What a target of alerts is, and how it fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable


class DeliveryError(Exception):
    """A target that does not accept alerts now. They wait until it does.

    Parameters
    ----------
    reason : str
        Why, without secrets.
    retry_after : float, default=0.0
        Seconds to wait at least, as the target wishes.
    lasting : bool, default=False
        Whether someone must do something about it.
    """

    def __init__(self, reason: str, retry_after: float = 0.0, *, lasting: bool = False) -> None:
        super().__init__(reason)
        self.retry_after, self.lasting = retry_after, lasting


class Target(ABC):
    """A place that alerts are delivered to.

    Attributes
    ----------
    name : str
        What to call it, without secrets.
    key : str
        What it is known by when the program starts again, without secrets.
    batch : int
        How many alerts ``send`` takes at once.
    listener : callable or None
        Called with what ``report`` is given.
    """

    name: str
    key: str
    batch: int = 500
    listener: Callable[[str], None] | None = None

    @abstractmethod
    def send(self, lines: list[bytes]) -> None:
        """Deliver alerts, and return once the target has them all.

        Raise ``DeliveryError`` if it may accept them later, and ``BrokenPipeError`` if it is gone for good.

        Parameters
        ----------
        lines : list of bytes
            One JSON object each, with a line break.
        """

    def is_ready(self, size: int) -> bool:
        """Return whether ``send`` surely takes this many bytes without waiting.

        Parameters
        ----------
        size : int
            Bytes of all alerts to send.
        """
        return False

    def report(self, reason: str) -> None:
        """Say why ``send`` still waits, so that people can be told.

        Parameters
        ----------
        reason : str
            Why, without secrets.
        """
        if self.listener is not None:
            self.listener(reason)

    def close(self) -> None:  # noqa: B027 - most targets have nothing to close
        """Let go of connections."""
