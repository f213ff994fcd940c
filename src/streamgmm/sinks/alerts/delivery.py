"""A thread that delivers the alerts of a log to one target, however long that takes."""

from __future__ import annotations

import random
from collections.abc import Callable
from threading import Event, Lock, Thread
from time import monotonic

from streamgmm.sinks.alerts.outage import Outage
from streamgmm.sinks.alerts.target import DeliveryError, Target
from streamgmm.storage.alert_log import AlertLog

FIRST_PAUSE, LONGEST_PAUSE = 0.5, 60.0  # seconds between two attempts, doubled after each failure
SAVE_SECONDS = 1.0  # after which a place is saved, so that alerts need not wait for the disk; a kill repeats them

Tell = Callable[[str], None]
"""Say something to people. It is called by several threads."""


class Delivery:
    """Deliver alerts in their order. The next one is sent once the target has the ones before it.

    Parameters
    ----------
    target : Target
        Where to.
    log : AlertLog
        The alerts.
    place : int
        Up to where the target has them.
    save : callable
        Called after the place has moved.
    tell : callable
        Called with messages for the user.

    Attributes
    ----------
    place : int
        Up to where the target has the alerts.
    gone : Exception or None
        Why nothing is delivered any more.
    """

    def __init__(self, target: Target, log: AlertLog, place: int, save: Callable[[], None], tell: Tell) -> None:
        self.target, self.place = target, place
        self.gone: Exception | None = None
        self._log, self._save, self._tell = log, save, tell
        self._stopped, self._hurried, self._sending = Event(), Event(), Lock()
        self._outage, self._failures, self._began = Outage(), 0, 0.0
        self._unsaved_since: float | None = None
        target.listener = self._report
        self._thread = Thread(target=self._run, name=f"streamgmm-alerts-{target.key[:40]}", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    @property
    def done(self) -> bool:
        """Whether the target has all alerts, or never will."""
        return self.gone is not None or self.place >= self._log.length

    def send_now(self, latest: list[bytes]) -> None:
        """Deliver on this thread if the target takes what waits at once: waking another one takes longer.

        What fails is left to the thread of this delivery.

        Parameters
        ----------
        latest : list of bytes
            The alerts that were appended last, which need not be read from the log.
        """
        waiting = self._log.length - self.place
        if self.target.is_ready(waiting) and self._sending.acquire(blocking=False):
            try:
                size = sum(map(len, latest))
                self._send(latest if self.place + size == self._log.length else None)
            except (DeliveryError, OSError):
                pass
            finally:
                self._sending.release()

    def hurry(self) -> None:
        """Do not wait for the next attempt."""
        self._hurried.set()

    def stop(self) -> None:
        """Do not begin another attempt."""
        self._stopped.set()
        self._hurried.set()

    def join(self, seconds: float) -> None:
        """Wait for the thread to end; one that is blocked by its target is left behind."""
        self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopped.is_set():
                if self._log.wait(self.place, SAVE_SECONDS):
                    self._attempt()
                self._save_if_due()
        except Exception as problem:  # raised again where alerts are appended
            self.gone = problem
            self._log.wake()
        finally:
            self.target.close()

    def _attempt(self) -> None:
        self._began = monotonic()
        try:
            with self._sending:
                self._send()
        except DeliveryError as problem:
            self._fail(problem)
            return
        except BrokenPipeError:
            raise
        except OSError as problem:
            self._fail(DeliveryError(str(problem), lasting=True))
            return
        if self._stopped.is_set():  # the log may be closed
            return
        if self.done:
            self._log.wake()
        self._failures = 0
        if self._outage.end():
            waiting = self._log.count(self.place)
            rest = f"; {waiting} more {'follows' if waiting == 1 else 'follow'}" if waiting else ""
            self._tell(f"{self.target.name} accepts alerts again{rest}.")

    def _send(self, waiting: list[bytes] | None = None) -> None:
        lines = self._log.read(self.place, self.target.batch) if waiting is None else waiting
        if lines:
            self.target.send(lines)
            self.place += sum(map(len, lines))
            if self._unsaved_since is None:
                self._unsaved_since = monotonic()

    def _save_if_due(self) -> None:
        since = self._unsaved_since
        if since is not None and monotonic() - since >= SAVE_SECONDS and not self._stopped.is_set():
            self._unsaved_since = None
            self._save()

    def _fail(self, problem: DeliveryError) -> None:
        if self._stopped.is_set():
            return
        self._failures += 1
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(self._failures - 1, 30)) * random.uniform(0.5, 1.0)
        pause = max(pause, problem.retry_after)
        again = f"retrying in {pause:.0f} s" if pause >= 1 else "retrying"
        self._report(str(problem), again, lasting=problem.lasting or pause > LONGEST_PAUSE)
        self._hurried.wait(pause)
        if not self._stopped.is_set():
            self._hurried.clear()

    def _report(self, reason: str, again: str = "still trying", *, lasting: bool = False) -> None:
        if self._outage.is_news(self._began, monotonic(), lasting=lasting) and not self._stopped.is_set():
            waiting = self._log.count(self.place)
            alerts = "1 alert waits" if waiting == 1 else f"{waiting} alerts wait"
            self._tell(f"{alerts} for {self.target.name} ({reason}); {again}.")
