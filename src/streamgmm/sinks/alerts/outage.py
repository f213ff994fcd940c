"""When to mention that a target does not accept alerts."""

from __future__ import annotations

from dataclasses import dataclass, field

PATIENCE, LONGEST_PATIENCE = 2.0, 60.0  # seconds of an outage that are not mentioned: the next attempt may succeed
LONGEST_SILENCE = 600.0  # seconds after which an outage is mentioned again


@dataclass
class Outage:
    """Decide what is news. If a target fails again and again, an outage must last longer to be mentioned.

    Times are in seconds of any clock.

    Examples
    --------
    >>> outage = Outage()
    >>> [outage.is_news(100.0, now) for now in (100.0, 101.0, 102.0, 103.0)]
    [False, False, True, False]
    >>> outage.end()  # people know of it, so they should know that it is over
    True
    """

    since: float | None = None
    told_at: float | None = None
    failed_at: float = float("-inf")  # the last time
    patience: float = field(default_factory=lambda: PATIENCE)

    def is_news(self, began: float, now: float, *, lasting: bool = False) -> bool:
        """Note that an attempt which began then has not succeeded by now, and return whether to mention it.

        It is mentioned at once if it is ``lasting``: someone must do something about it.
        """
        if now - self.failed_at >= LONGEST_SILENCE:
            self.patience = PATIENCE
        self.failed_at = now
        if self.since is None:
            self.since = began
        if self.told_at is not None:
            due = now - self.told_at >= LONGEST_SILENCE
        else:
            due = now - self.since >= self.patience or (lasting and self.patience == PATIENCE)
        if due:
            self.told_at = now
        return due

    def end(self) -> bool:
        """Note a success, and return whether to mention it."""
        told = self.told_at is not None
        if told:
            self.patience = min(LONGEST_PATIENCE, 4 * self.patience)
        self.since = self.told_at = None
        return told
