"""What to say, and how long to wait, while a broker does not answer."""

from __future__ import annotations

import time
import warnings

from streamgmm.errors import DataWarning, Remedy, SourceError

FIRST_PAUSE, LONGEST_PAUSE = 1, 30  # seconds between two attempts, doubled after each failure
LONGEST_SILENCE = 600.0  # seconds after which an outage is mentioned again


class NoAnswerError(SourceError):
    """A broker does not answer; it may do so later.

    Parameters
    ----------
    source : str
        What was read.
    reason : str
        What the client says.
    """

    def __init__(self, source: str, reason: str) -> None:
        super().__init__(f"{source}: no broker answers ({reason}).", Remedy.LET_IT_WAIT)
        self.reason = reason


def tell(message: str, *remedies: Remedy) -> None:
    """Warn people, also if the same was said before: an outage may happen twice.

    Parameters
    ----------
    message : str
        What has happened.
    *remedies : Remedy
        What to do about it.
    """
    warnings.warn_explicit(DataWarning(message, *remedies), DataWarning, __file__, 1, registry={})


class Outage:
    """Time during which a broker does not answer. It is mentioned at once, then ever more rarely, and when it ends.

    Parameters
    ----------
    broker : str
        What to call the broker.
    """

    def __init__(self, broker: str) -> None:
        self._broker = broker
        self._since: float | None = None
        self._silence = 0.0
        self._told_at = self._retry_at = 0.0
        self._pause = float(FIRST_PAUSE)

    @property
    def pause(self) -> float:
        """Seconds until the next attempt."""
        return 0.0 if self._since is None else max(0.0, self._retry_at - time.monotonic())

    def fail(self, reason: str) -> None:
        """Note an attempt that failed.

        Parameters
        ----------
        reason : str
            Why it did.
        """
        now = time.monotonic()
        if self._since is None:
            self._since, self._told_at, self._silence, self._pause = now, -LONGEST_SILENCE, 0.0, FIRST_PAUSE
        self._retry_at, self._pause = now + self._pause, min(LONGEST_PAUSE, 2 * self._pause)
        if now - self._told_at >= self._silence:
            tell(f"{self._broker} does not answer ({reason}): waiting for it.")
            self._told_at, self._silence = now, min(LONGEST_SILENCE, max(10.0, 2 * self._silence))

    def end(self) -> None:
        """Note that the broker answers."""
        if self._since is not None:
            tell(f"{self._broker} answers again after {time.monotonic() - self._since:.0f} seconds.")
            self._since = None
