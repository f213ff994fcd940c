"""The outbox of a run: alerts on disk, and one delivery per target.

Alerts are delivered at least once, in their order. What a target has is noted in a file beside the alerts, so alerts
that wait when the program ends are delivered at the next start.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from time import monotonic
from typing import Any, Self

from streamgmm.errors import AlertError
from streamgmm.sinks.alerts.delivery import Delivery, Tell
from streamgmm.sinks.alerts.message import Alert, encode_alert
from streamgmm.sinks.alerts.target import Target
from streamgmm.sinks.alerts.text import FileTarget
from streamgmm.storage.alert_log import ALERTS, KEPT, AlertLog
from streamgmm.storage.atomic import remove_torn, write_atomically
from streamgmm.storage.container import DAMAGE

DELIVERED = "alerts.delivered.json"
CLOSE_SECONDS = 1.0  # for attempts that are under way


class Outbox:
    """Take alerts and deliver them to all targets, each in its own time.

    Parameters
    ----------
    folder : Path
        The run folder. Its lock must be held.
    targets : sequence of Target
        Where alerts go. One that is added to a run later gets alerts from then on.
    tell : callable
        Called with messages for the user: that alerts wait for a target, and that it accepts them again. Other
        threads call it.
    length : int or None, default=None
        What ``sync`` returned for the checkpoint that the run resumes from, or 0 if there is none yet. Later alerts are
        removed, because the run is about to find them again, with the same ids. None keeps all: for sources that cannot
        be read again.
    kept : int, default=10_000
        Delivered alerts that stay in the file, for people.

    Examples
    --------
    >>> import sys, tempfile
    >>> from streamgmm.sinks.alerts import open_target
    >>> folder = Path(tempfile.mkdtemp())
    >>> with Outbox(folder, [open_target("-", sys.stdout)], print) as outbox:
    ...     outbox.append([Alert("plant:7", "row", "plant", 7)])
    ...     length = outbox.sync()  # store it in a checkpoint
    ...     outbox.commit(length)  # once the checkpoint is safe
    ...     outbox.drain(10)
    {"id": "plant:7", "state": "row", "run": "plant", "row": 7, "row_id": null, "score": null, "threshold": null, \
"p_value": null, "component": null, "explain": []}
    True
    """

    def __init__(
        self, folder: Path, targets: Sequence[Target], tell: Tell, *, length: int | None = None, kept: int = KEPT
    ) -> None:
        _check(folder, targets)
        self._folder, self._path, self._lock = folder, folder / DELIVERED, Lock()
        remove_torn(self._path)
        self._log = AlertLog(folder, length, kept)
        try:
            self._deliveries = self._start(targets, tell)
        except BaseException:
            self._log.close()
            raise
        for delivery in self._deliveries:
            delivery.start()

    def _start(self, targets: Sequence[Target], tell: Tell) -> list[Delivery]:
        """Note where each target stands, and report alerts that no target will receive."""
        places = _read_places(self._path)
        start = self._log.first if places is None else self._log.length
        if places is None and self._path.exists():
            tell(f"{self._path.name} cannot be read; all {self._log.count(start)} alerts in {ALERTS} are sent again.")
        places = places or {}
        for key in sorted(places.keys() - {target.key for target in targets}):
            if waiting := self._log.count(self._within(places[key])):
                name = key.partition("#")[0]
                tell(f"{name} is no longer a target and has not received all alerts; {waiting} are only in {ALERTS}.")
        self._deliveries = [
            Delivery(target, self._log, self._within(places.get(target.key, start)), self._save, tell)
            for target in targets
        ]
        self._save()
        return self._deliveries

    def _within(self, place: int) -> int:
        return min(max(place, self._log.first), self._log.length)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    @property
    def waiting(self) -> list[tuple[str, int]]:
        """Name of each target, and how many alerts it still has to get."""
        return [(delivery.target.name, self._log.count(delivery.place)) for delivery in self._deliveries]

    def append(self, alerts: Iterable[Alert]) -> None:
        """Add alerts and return at once; they survive the end of the process.

        Raise ``BrokenPipeError`` if a target is gone for good, such as a pipe that nobody reads.

        Parameters
        ----------
        alerts : iterable of Alert
            The messages, oldest first.
        """
        self._raise_if_gone()
        lines = [encode_alert(alert) for alert in alerts]
        if lines:
            self._log.append(lines)
            for delivery in self._deliveries:
                delivery.send_now(lines)
            if not all(delivery.done for delivery in self._deliveries):
                self._log.wake()

    def sync(self) -> int:
        """Make all alerts survive a power failure; return a number that belongs into the checkpoint."""
        return self._log.sync()

    def commit(self, length: int) -> None:
        """Note that a checkpoint is safe, so that old alerts that all targets have may be removed.

        Parameters
        ----------
        length : int
            What ``sync`` returned for it.
        """
        self._log.release(length, min((d.place for d in self._deliveries), default=self._log.length))

    def drain(self, seconds: float) -> bool:
        """Wait until all targets have all alerts; return whether they do.

        Parameters
        ----------
        seconds : float
            How long to wait at most.
        """
        for delivery in self._deliveries:
            delivery.hurry()
        end = monotonic() + seconds
        while not all(d.done for d in self._deliveries) and (left := end - monotonic()) > 0:
            self._log.wait(self._log.length, min(left, 0.2))
        self._raise_if_gone()
        return all(d.done for d in self._deliveries)

    def close(self) -> None:
        """Stop delivering. What waits is delivered by the next outbox of this folder.

        A folder that holds no alert, and nothing else, becomes empty again: the run has failed before it began.
        """
        for delivery in self._deliveries:
            delivery.stop()
        self._log.wake()
        end = monotonic() + CLOSE_SECONDS
        for delivery in self._deliveries:
            delivery.join(max(0.0, end - monotonic()))
        try:
            self._log.sync()
            self._save()
        finally:
            self._log.close()
        if not self._log.length and {path.name for path in self._folder.iterdir()} <= {ALERTS, DELIVERED}:
            for name in (ALERTS, DELIVERED):
                (self._folder / name).unlink(missing_ok=True)

    def _raise_if_gone(self) -> None:
        for delivery in self._deliveries:
            if delivery.gone is not None:
                raise delivery.gone

    def _save(self) -> None:
        with self._lock:
            places = {delivery.target.key: delivery.place for delivery in self._deliveries}
            write_atomically(self._path, json.dumps({"v": 1, "places": places}).encode())


def _check(folder: Path, targets: Sequence[Target]) -> None:
    keys = [target.key for target in targets]
    for target in targets:
        if keys.count(target.key) > 1:
            raise AlertError(f"{target.name} is given twice as a target of alerts; expected different targets.")
        if isinstance(target, FileTarget) and target.path.resolve() == (folder / ALERTS).resolve():
            raise AlertError(f"alerts are already written to {target.name}; expected another file.")


def _read_places(path: Path) -> dict[str, int] | None:
    """Return up to where each target has the alerts; None if that is not known."""
    try:
        facts: Any = json.loads(path.read_bytes())
        return {str(key): int(place) for key, place in facts["places"].items()}
    except (OSError, *DAMAGE):
        return None
