"""Learning one share of a round, wherever its rows are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.batches import PartialBatch, Shares
from streamgmm.core.covariance import Work
from streamgmm.core.grid import filters
from streamgmm.core.rounds import LearnedShare, RoundStart
from streamgmm.core.rows import rows_with_values
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines.serial import Serial
from streamgmm.native import Rows, Samples, Steps, Turn


class ShareLearner:
    """Learns one share of a round, chunk by chunk.

    Parameters
    ----------
    start : RoundStart
        Where the round starts.
    replica : int
        Number of the replica, from 0. Each replica of a round learns other rows.
    """

    def __init__(self, start: RoundStart, replica: int) -> None:
        if not 0 <= replica < start.replicas:
            raise ValueError(f"replica is {replica}; expected a number from 0 to {start.replicas - 1}.")
        self._start, self._number = start, replica
        facts = start.facts
        self._form = _form(json.dumps(facts["settings"]), int(facts["n_features"]), facts["dtype"])
        self._replica = self._form.replica_from(start.tensors)
        self._rule = self._form.rule if start.replicas == 1 else self._form.rule.for_replicas(start.replicas)
        self._filters = filters(self._form.grid, float(facts["sigma"]))
        self._size = self._form.batch_size
        self._pending = PartialBatch(self._form.n_features, self._form.dtype, self._size)
        self._steps = self._samples = self._skipped = 0
        self._ends, self._end = self._steps_to_checks(), 0
        self._pieces: list[list[Steps]] = []  # between two checks
        self._pass_checks()

    def feed(self, x: npt.ArrayLike, factor: float = 1.0, shares: Shares | None = None) -> None:
        """Learn from rows; the rest of a batch stays pending.

        Parameters
        ----------
        x : array-like of shape (N, D)
            Rows, as `Trainer.feed` takes them.
        factor : float, default=1.0
            Factor for bytes.
        shares : array of shape (N,) or None, default=None
            How much each row counts, within (0, 1].
        """
        rows: Rows = np.asarray(x)
        if rows.ndim != 2 or rows.shape[1] != self._form.n_features:
            raise ValueError(f"rows have shape {rows.shape}; expected (rows, {self._form.n_features}).")
        if rows.dtype != np.uint8:
            rows, factor = rows.astype(self._form.dtype, copy=False), 1.0
            if self._form.settings.allow_nan and not (known := rows_with_values(rows)).all():
                self._skipped += len(rows) - int(known.sum())
                rows, shares = rows[known], None if shares is None else shares[known]
        start = 0
        if len(self._pending):
            start = self._pending.add(rows, factor, shares)
            if len(self._pending) < self._size:
                return
            self._advance(self._pending.rows, 1.0, self._pending.shares)
            self._pending.clear()
        whole = len(rows) - (len(rows) - start) % self._size
        while start < whole:
            stop = min(whole, start + (self._end - self._steps) * self._size)
            self._advance(rows[start:stop], factor, None if shares is None else shares[start:stop])
            start = stop
        self._pending.add(rows[whole:], factor, None if shares is None else shares[whole:])

    def finish(self) -> LearnedShare:
        """Learn an incomplete batch as one smaller step, and return the share."""
        pieces = [_joined(steps, self._form.n_components) for steps in self._pieces]
        while pieces and not len(pieces[-1].losses):
            pieces.pop()
        lengths = [len(piece.losses) for piece in pieces]
        if rest := len(self._pending):
            pieces.append(self._learn(self._pending.rows, 1.0, self._pending.shares, rest))
            self._pending.clear()
        facts = {
            "round": self._start.facts["round"],
            "replica": self._number,
            "samples": self._samples,
            "skipped": self._skipped,
            "steps": lengths,
            "rest": rest,
        }
        tensors = {f"replica.{name}": value for name, value in self._replica.named().items()}
        tensors["losses"] = np.concatenate([np.empty(0), *(piece.losses for piece in pieces)])
        tensors["max_components"] = np.concatenate([np.empty(0), *(piece.max_components for piece in pieces)])
        tensors["wins"] = np.array([piece.wins for piece in pieces], np.int64).reshape(-1, self._form.n_components)
        return LearnedShare(facts, tensors)

    def _steps_to_checks(self) -> Iterator[int]:
        """Yield how many of its steps the replica has taken when all replicas together reach each check."""
        first = samples = int(self._start.facts["n_samples"])
        period = int(self._start.facts["period"])
        while True:
            samples += -(-(period - samples % period) // self._size) * self._size
            yield len(range(self._number, (samples - first) // self._size, self._start.replicas))

    def _pass_checks(self) -> None:
        """Begin another piece wherever a check falls before the next step."""
        while self._end <= self._steps:
            self._end = next(self._ends)
            self._pieces.append([])

    def _advance(self, rows: Rows, factor: float, shares: Shares | None) -> None:
        self._pieces[-1].append(self._learn(rows, factor, shares, self._size))
        self._pass_checks()

    def _learn(self, rows: Rows, factor: float, shares: Shares | None, batch_size: int) -> Steps:
        replica, facts = self._replica, self._start.facts
        step = int(facts["n_samples"]) // self._size + self._number + self._steps * self._start.replicas
        samples = Samples(
            rows=rows,
            batch_size=batch_size,
            factor=factor,
            gaps=bool(self._form.settings.allow_nan),
            shares=shares,
            typical_loss=replica.typical_loss if replica.parameters.kind.bounds_influence else None,
            frame=replica.frame,
            turn=Turn(step, self._start.replicas, int(facts["every"])),
        )
        steps = self._rule.advance(replica.state, replica.parameters, Work(samples, self._filters, self._form.bounds))
        self._steps += len(rows) // batch_size
        self._samples += len(rows)
        return steps


def learn_share(start: RoundStart, replica: int, x: npt.ArrayLike, factor: float = 1.0) -> LearnedShare:
    """Learn one share of a round from rows in memory.

    Parameters
    ----------
    start : RoundStart
        Where the round starts.
    replica : int
        Number of the replica, from 0. Each replica of a round learns other rows.
    x : array-like of shape (N, D)
        The rows.
    factor : float, default=1.0
        Factor for bytes.

    Examples
    --------
    >>> trainer = Trainer(Settings(4, scale="none"), 3, engine=Serial(), seed=0)
    >>> start = trainer.begin_round(replicas=2)
    >>> x = np.random.default_rng(0).random((50, 3))
    >>> learned = [learn_share(start, replica, x[replica::2]) for replica in range(2)]
    >>> checks = trainer.merge_round(start, learned)
    >>> trainer.n_samples, len(checks)
    (50, 1)
    """
    learner = ShareLearner(start, replica)
    learner.feed(x, factor)
    return learner.finish()


@lru_cache(maxsize=2)
def _form(settings: str, n_features: int, dtype: str) -> Trainer:
    """Return a training with these settings, from which replicas take their form; making one takes a while."""
    facts: dict[str, Any] = json.loads(settings)
    return Trainer(Settings.from_facts(facts, {}), n_features, dtype, engine=Serial(), seed=0)


def _joined(reports: list[Steps], n_components: int) -> Steps:
    losses, tops = (np.concatenate([np.empty(0), *(r[i] for r in reports)]) for i in (0, 1))
    wins = np.sum([np.zeros(n_components, np.int64), *(r.wins for r in reports)], axis=0)
    return Steps(losses, tops, wins, np.zeros(n_components), np.zeros(1, np.int64))
