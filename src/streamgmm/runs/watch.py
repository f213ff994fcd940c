"""Watching: each row is judged before it is learned, and what is strange becomes an alert."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.conditioning import Explainer
from streamgmm.core.rows import rows_with_values
from streamgmm.core.trainer import Trainer
from streamgmm.monitoring import Burst, Change, DiscoveryState, Judge, JudgedRows, Monitor, discover, group_rows
from streamgmm.monitoring.bursts import plain_id
from streamgmm.monitoring.reference import is_unlikely
from streamgmm.sinks.alerts import Alert, Outbox, close_alert

WINDOW = 20_000  # rows after which the share of flagged rows is compared with the one asked for


@dataclass(frozen=True)
class WatchOptions:
    """What is an anomaly, and what is said about it.

    Parameters
    ----------
    contamination : float, default=0.01
        Share of typical rows that may be flagged.
    max_p : float or None, default=None
        Flag rows whose p-value is at most this, instead.
    fdr : float or None, default=None
        Flag rows so that about this share of them is expected to be typical, instead; see `discover`.
    explain : int, default=3
        Number of features to name for each row, with the reason.
    every_row : bool, default=False
        Send a message for every anomalous row, instead of one when a burst begins and one when it ends.
    """

    contamination: float = 0.01
    max_p: float | None = None
    fdr: float | None = None
    explain: int = 3
    every_row: bool = False


class WatchState(NamedTuple):
    """Where watching stands, as plain data that goes into a checkpoint."""

    burst: Burst | None = None
    discoveries: DiscoveryState = DiscoveryState()
    judged: int = 0
    flagged: int = 0
    window_judged: int = 0
    window_flagged: int = 0
    alerts: int = 0  # bytes of all alerts; see `Outbox`

    def facts(self) -> dict[str, Any]:
        """Return the state as plain data."""
        burst = None if self.burst is None else self.burst._asdict()
        return {**self._asdict(), "burst": burst, "discoveries": self.discoveries._asdict()}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any]) -> WatchState:
        """Return the state that ``facts`` gave; raise KeyError, TypeError or ValueError if they are damaged."""
        burst = None if facts["burst"] is None else Burst(**facts["burst"])
        counts = {name: int(facts[name]) for name in cls._fields[2:]}
        return cls(burst, DiscoveryState.from_facts(facts["discoveries"]), **counts)


class Rows(NamedTuple):
    """Rows of a source: values (N, D), numbers (N,), and the ids of rows by number, if the source has some."""

    values: npt.NDArray[Any]
    numbers: npt.NDArray[np.int64]
    ids: Mapping[int, Any] | None = None


class Watcher:
    """Judges rows and sends alerts.

    Parameters
    ----------
    outbox : Outbox
        Where alerts go.
    options : WatchOptions
        What is an anomaly.
    state : WatchState
        Where watching stands; the beginning by default.

    Attributes
    ----------
    state : WatchState
        Where watching stands.
    """

    def __init__(self, outbox: Outbox, options: WatchOptions, state: WatchState = WatchState()) -> None:  # noqa: B008
        self.state = state
        self._outbox, self._options = outbox, options
        self._judge: Judge | None = None
        self._snapshot: Mapping[str, npt.NDArray[Any]] | None = None
        self._latest = np.zeros(0, np.bool_)  # which of the rows judged last are anomalous

    def judge(self, run: str, rows: Rows, trainer: Trainer, monitor: Monitor, names: Sequence[str] | None) -> None:
        """Judge rows that the model is about to learn, and send alerts about them.

        Parameters
        ----------
        run : str
            Name of the run; see `run_name`.
        rows : Rows
            The rows.
        trainer, monitor : Trainer, Monitor
            The model, and what is typical of its stream.
        names : sequence of str or None
            Names of the features.
        """
        self._latest = np.zeros(0, np.bool_)
        if not monitor.reference.known or not len(rows.values):
            return
        judge, options = self._current(trainer, monitor), self._options
        verdicts = self._judge_one(judge, rows.values) if len(rows.values) == 1 else None
        verdicts = verdicts or self._judge_all(judge, rows.values)
        anomalous = verdicts.anomalous
        ids = None if rows.ids is None else [rows.ids[number] for number in rows.numbers.tolist()]
        before = self.state.burst
        changes, burst = group_rows(run, before, JudgedRows(rows.numbers, anomalous, verdicts.p_values, ids))
        self._count(anomalous, burst)
        found = _Found(run, rows, verdicts, ids)
        wanted = _every_row(before, changes, anomalous) if options.every_row else _changes(changes)
        self._outbox.append([self._alert(found, judge.explainer, names, *one) for one in wanted])

    def prepare(self, trainer: Trainer, monitor: Monitor) -> None:
        """Get ready for the next rows, before they arrive: alerts need not wait for it.

        Parameters
        ----------
        trainer, monitor : Trainer, Monitor
            As for ``judge``.
        """
        if monitor.reference.known:
            self._current(trainer, monitor).prepare(self._options.contamination)

    def finish(self, run: str) -> None:
        """End the burst that is open: the source has ended."""
        burst, self.state = self.state.burst, self.state._replace(burst=None)
        if burst is not None and not self._options.every_row:
            self._outbox.append([close_alert(run, burst)])

    def figures(self, later: int = 0) -> dict[str, Any]:
        """Return rows judged and flagged so far, and the share of typical rows that may be, if it was chosen.

        Parameters
        ----------
        later : int, default=0
            Number of the rows judged last that do not count.
        """
        latest, options = self._latest[max(0, len(self._latest) - later) :], self._options
        judged, flagged = self.state.judged - len(latest), self.state.flagged - int(latest.sum())
        share = options.contamination if options.max_p is None else options.max_p
        return {"judged": judged, "flagged": flagged, "expected_share": share if options.fdr is None else None}

    def facts(self) -> dict[str, Any]:
        """Return the state as plain data, after all alerts so far have reached the disk."""
        self.state = self.state._replace(alerts=self._outbox.sync())
        return self.state.facts()

    def saved(self) -> None:
        """Note that a checkpoint with the latest ``facts`` is safe."""
        self._outbox.commit(self.state.alerts)

    def _current(self, trainer: Trainer, monitor: Monitor) -> Judge:
        """Return the judge for the present 256 rows; what it knows of rows with gaps is kept as long as they last."""
        snapshot = monitor.snapshot(trainer)
        if self._judge is None or self._snapshot is not snapshot:
            self._judge, self._snapshot = Judge(trainer, monitor, trainer.mixture_of(snapshot)), snapshot
        return self._judge

    def _judge_all(self, judge: Judge, rows: npt.NDArray[Any]) -> _Verdicts:
        scores = judge.mixture.scores(rows)
        p_values, thresholds = judge.judge(rows, scores.log_likelihood, self._options.contamination)
        if self._options.fdr is not None:
            found, discoveries = discover(self.state.discoveries, p_values, self._options.fdr)
            self.state = self.state._replace(discoveries=discoveries)
        elif self._options.max_p is not None:
            found = p_values <= self._options.max_p
        else:
            found = scores.log_likelihood < thresholds
        return _Verdicts(scores.log_likelihood, scores.winner, p_values, thresholds, found & rows_with_values(rows))

    def _judge_one(self, judge: Judge, row: npt.NDArray[Any]) -> _Verdicts | None:
        """Judge one row (1, D) the same way, with few NumPy calls: after a pause, each takes 10 µs or more.

        Return None for a row that has gaps, or where verdicts depend on those before.
        """
        found = None if self._options.fdr is not None else judge.mixture.score_row(row)
        if found is None:
            return None
        score, _, winner = found
        p_value, threshold = judge.judge_score(score, self._options.contamination)
        max_p = self._options.max_p
        anomalous = score < threshold if max_p is None else p_value <= max_p
        return _Verdicts([score], [winner], [p_value], [threshold], np.array([anomalous]))

    def _count(self, anomalous: npt.NDArray[np.bool_], burst: Burst | None) -> None:
        """Count rows, note the open burst, and warn if far more or fewer rows are flagged than asked for."""
        self._latest = anomalous
        judged, flagged, now, options = len(anomalous), int(np.count_nonzero(anomalous)), self.state, self._options
        seen, found = now.window_judged + judged, now.window_flagged + flagged
        if seen >= WINDOW:
            share = options.contamination if options.max_p is None else options.max_p
            if options.fdr is None and is_unlikely(found, seen, share):
                warnings.warn(
                    f"{found / seen:.2%} of the last {seen:,} rows were flagged, where {share:.2%} are expected among "
                    "typical rows: check columns and units, or whether the stream has changed.",
                    stacklevel=2,
                )
            seen = found = 0
        counts = now.judged + judged, now.flagged + flagged, seen, found
        self.state = WatchState(burst, now.discoveries, *counts, now.alerts)

    def _alert(
        self, found: _Found, explainer: Explainer, names: Sequence[str] | None, state: Any, at: int, burst: Burst | str
    ) -> Alert:
        if state == "close" and isinstance(burst, Burst):
            return close_alert(found.run, burst)
        most = self._options.explain
        reasons = explainer.explain(found.rows.values[at : at + 1], names, most)[0] if most else []
        return Alert(
            burst if isinstance(burst, str) else burst.id,
            state,
            found.run,
            int(found.rows.numbers[at]),
            None if found.ids is None else plain_id(found.ids[at]),
            score=float(found.verdicts.scores[at]),
            threshold=float(found.verdicts.thresholds[at]),
            p_value=float(found.verdicts.p_values[at]),
            component=int(found.verdicts.winners[at]),
            explain=reasons,
        )


class _Verdicts(NamedTuple):
    scores: Sequence[float] | npt.NDArray[np.float64]
    winners: Sequence[int] | npt.NDArray[np.int64]
    p_values: Sequence[float] | npt.NDArray[np.float64]
    thresholds: Sequence[float] | npt.NDArray[np.float64]
    anomalous: npt.NDArray[np.bool_]


class _Found(NamedTuple):
    run: str
    rows: Rows
    verdicts: _Verdicts
    ids: Sequence[Any] | None


def _changes(changes: Sequence[Change]) -> list[tuple[str, int, Burst | str]]:
    return [(change.state, change.at, change.burst) for change in changes]


def _every_row(
    before: Burst | None, changes: Sequence[Change], anomalous: npt.NDArray[np.bool_]
) -> list[tuple[str, int, Burst | str]]:
    """Return a message for each anomalous row, with the id of its burst."""
    opened = {change.at: change.burst.id for change in changes if change.state == "open"}
    found: list[tuple[str, int, Burst | str]] = []
    current = "" if before is None else before.id
    for at in anomalous.nonzero()[0].tolist():
        current = opened.get(at, current)
        found.append(("row", at, current))
    return found


@lru_cache(16)  # rows are judged one by one
def run_name(folder: str, source: str, earlier: int) -> str:
    """Return a name for the alerts of a run on one source; row numbers are unique under it.

    Parameters
    ----------
    folder : str
        Name of the run folder.
    source : str
        Name of the source.
    earlier : int
        Samples learned from other sources before.

    Examples
    --------
    >>> run_name("plant", "log.csv", 0) == run_name("plant", "log.csv", 10)
    False
    """
    digest = sha256(f"{source}\n{earlier}".encode("utf8", "backslashreplace")).hexdigest()[:8]
    return f"{folder}-{digest}"
