"""The events of a run in bounded memory: points of the curves, and marks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streamgmm.plots.shares import BARS, Bar, flagged_shares

POINTS = 2000  # of a curve; no screen has more columns
MARKS = 300
NARROW = 0.2  # width at which a component no longer reaches its neighbours
RATE_SECONDS = 0.3
MARKED = ("source", "drift", "checkpoint", "idle", "resumed", "stop", "end")
COLUMNS = ("samples", "loss", "max_component", "sigma", "learning_rate", "live", "seconds", "rate")
TOTALS = ("judged", "flagged")


class Totals(NamedTuple):
    """Rows judged and flagged so far, and the share of typical rows that may be flagged, if it was chosen."""

    judged: int
    flagged: int
    expected: float | None


@dataclass
class History:
    """Events of a run, thinned so that memory stays bounded.

    Attributes
    ----------
    points : dict of str to list of float
        Columns of the curves, one entry per point.
    ids : list of str, int, float or None
        Id or time of the row at each point, where the source has one.
    marks : list of dict
        Events to mark on the curves, oldest first.
    facts : dict
        What the run said about itself when it started, or when it was given another source.
    last : dict
        The latest event that has a number of samples.
    round : dict
        The latest event about a round of a cluster.
    step : int
        Checks per point.
    totals : Totals or None
        Rows judged and flagged so far; None if rows are not judged.
    """

    points: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in COLUMNS})
    ids: list[Any] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)
    last: dict[str, Any] = field(default_factory=dict)
    round: dict[str, Any] = field(default_factory=dict)
    step: int = 1
    totals: Totals | None = None
    _totals: dict[str, list[float]] = field(default_factory=lambda: {name: [] for name in TOTALS})
    _n_checks: int = 0
    _rate_from: tuple[float, float] = (0.0, 0.0)  # samples and seconds at which the current rate begins
    _rate: float = float("nan")

    def add(self, event: dict[str, Any]) -> None:
        """Take in one event; fields that are missing or of an unexpected type are ignored.

        Parameters
        ----------
        event : dict
            A line of the event file.
        """
        kind = event.get("kind")
        if kind in ("start", "source"):
            self.facts = {k: v for k, v in event.items() if isinstance(v, str | int | float)}
        if kind == "start":
            self._rate_from = (0.0, _number(event.get("seconds", 0.0)))
        if kind == "round":
            self.round = event
        if kind in MARKED:
            self._mark(event)
        if not isinstance(event.get("samples"), int):
            return
        if kind == "check" and _number(event.get("sigma")) <= NARROW < _number(self.last.get("sigma")):
            self._mark({**event, "kind": "annealed"})
        self.last = event
        judged, flagged, expected = (event.get(name) for name in (*TOTALS, "expected_share"))
        if isinstance(judged, int) and isinstance(flagged, int):
            self.totals = Totals(judged, flagged, expected if isinstance(expected, float) else None)
        if kind == "check":
            self._n_checks += 1
            if self._n_checks % self.step == 0:
                self._add_point(event)

    def _add_point(self, event: dict[str, Any]) -> None:
        values = {name: _number(event.get(name)) for name in COLUMNS}
        values["rate"] = self._rate_at(values["samples"], values["seconds"])
        for name in COLUMNS:
            self.points[name].append(values[name])
        for name in TOTALS:
            self._totals[name].append(_number(event.get(name)))
        row_id = event.get("row_id")
        self.ids.append(row_id if isinstance(row_id, str | int | float) else None)
        if len(self.points["samples"]) > POINTS:
            for columns in (self.points, self._totals):
                columns.update({name: values[1::2] for name, values in columns.items()})
            self.ids = self.ids[1::2]
            self.step *= 2

    def flagged_shares(self, most: int = BARS) -> list[Bar]:
        """Return the share of flagged rows over time.

        Parameters
        ----------
        most : int, default=60
            Largest number of bars.
        """
        samples, judged, flagged = self.points["samples"], self._totals["judged"], self._totals["flagged"]
        if self.totals is not None:
            now = self.last["samples"], float(self.totals.judged), float(self.totals.flagged)
            samples, judged, flagged = ([*old, new] for old, new in zip((samples, judged, flagged), now, strict=True))
        return flagged_shares(samples, judged, flagged, most)

    def _mark(self, event: dict[str, Any]) -> None:
        """Keep the latest marks; checkpoints, which may come every second, are dropped first."""
        self.marks.append(event)
        if len(self.marks) > MARKS:
            oldest = next((i for i, m in enumerate(self.marks) if m["kind"] == "checkpoint"), 0)
            del self.marks[oldest]

    def _rate_at(self, samples: float, seconds: float) -> float:
        """Return samples per second, averaged because several checks may arrive at once."""
        since_samples, since_seconds = self._rate_from
        if seconds - since_seconds >= RATE_SECONDS:
            self._rate = (samples - since_samples) / (seconds - since_seconds)
            self._rate_from = (samples, seconds)
        elif seconds < since_seconds:  # the run was resumed
            self._rate_from = (samples, seconds)
        return self._rate


def _number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
