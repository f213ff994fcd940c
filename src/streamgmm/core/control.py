"""The control of a training: what happens once per period, in plain Python.

It smooths the loss, narrows the annealing, detects drift, and counts which components are in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core import annealing, drift
from streamgmm.core.annealing import Annealing, Schedule, Smoothing
from streamgmm.core.drift import DriftState
from streamgmm.core.state import require_range
from streamgmm.native import Steps, Tally, average_usage, smooth_losses, sum_above

USAGE_SAMPLES = 50  # samples per component over which a component's share of wins is averaged
LIVE_SHARE = 0.1  # of an even share: below it a component counts as dead
ARRAYS = ("_wins", "_level", "_above", "usage")


class Check(NamedTuple):
    """What is known at the end of a period; ``loss`` and ``max_component`` are smoothed over about one period."""

    samples: int
    loss: float
    max_component: float
    sigma: float
    learning_rate: float
    live: int
    shrunk: bool
    drift: bool = False


class Control:
    """State of the control of a training with ``n_components`` components.

    Parameters
    ----------
    schedule : Schedule
        Settings of the annealing.
    n_components : int
        Number of components.
    """

    _live: int | None = None  # known since the last check

    def __init__(self, schedule: Schedule, n_components: int) -> None:
        self.schedule = schedule
        self._smoothing = Smoothing.of(schedule)
        self._level, self._above = np.empty(5), np.empty(4)
        self.annealing = annealing.start(schedule)
        self._drift = DriftState()
        self._wins = np.zeros(n_components, np.int64)
        self.usage = np.full(n_components, 1 / n_components)

    def __setstate__(self, values: dict[str, Any]) -> None:
        """Take copies: joblib hands over large arrays as memory maps that cannot be written."""
        vars(self).update(values, **{name: values[name].copy() for name in ARRAYS})

    @property
    def annealing(self) -> Annealing:
        """State of the annealing; the kernel smooths its losses in an array."""
        return annealing.with_level(self._annealing, self._level)

    @annealing.setter
    def annealing(self, state: Annealing) -> None:
        self._annealing, self._level[:] = state, annealing.level_of(state)

    @property
    def _drift(self) -> DriftState:
        """State of the drift detection; the kernel sums its losses in an array."""
        return drift.with_sums(self._watched, self._above)

    @_drift.setter
    def _drift(self, state: DriftState) -> None:
        self._watched, self._above[:] = state, drift.sums_of(state)

    @property
    def tally(self) -> Tally:
        """What single steps change here."""
        return Tally(self._level, self._above, self._wins, *self._smoothing)

    @property
    def samples(self) -> int:
        """Samples learned."""
        return int(self._level[0])

    @property
    def sigma(self) -> float:
        """Width of the annealing."""
        return self._annealing.sigma

    @property
    def live(self) -> int:
        """Components that win at least a tenth of an even share of recent samples."""
        if self._live is None:
            self._live = int(np.count_nonzero(self.usage >= LIVE_SHARE / len(self.usage)))
        return self._live

    def observe(self, steps: Steps, batch_size: int) -> bool:
        """Take in what steps report; return whether a check is due."""
        before, period = self.samples // self.schedule.period, self.schedule.period
        self._wins += steps.wins
        smooth_losses(self._level, (steps.losses, steps.max_components), batch_size, *self._smoothing)
        sum_above(self._above, steps.losses)
        return self.samples // period > before

    def begin_check(self) -> bool:
        """Update usage and annealing; return whether σ has shrunk."""
        size = len(self._wins)
        self._live = average_usage(self.usage, self._wins, USAGE_SAMPLES * size, LIVE_SHARE / size)
        self._annealing, shrunk = annealing.check(self.schedule, self.annealing)  # which leaves the level as it is
        return shrunk

    def detect_drift(self, moved: bool) -> bool:
        """End a check: return whether the stream has changed.

        If components have ``moved``, the loss may jump for that reason.
        """
        state, changed = drift.detect(self.schedule, self._drift, self._annealing)
        self._drift = DriftState() if moved else state
        return changed

    def shift_losses(self, added: float) -> None:
        """Add a constant to all losses: samples are measured in other units from now on."""
        now = self.annealing
        moved: dict[str, Any] = {
            name: None if (value := getattr(now, name)) is None else value + added
            for name in ("loss", "max_component", "baseline", "last")
        }
        self.annealing = now._replace(**moved)
        self._drift = drift.shift(self._drift, added)

    def reheat(self, sigma: float) -> None:
        """Widen the annealing again."""
        self.annealing = annealing.reheat(self.schedule, self.annealing, sigma)

    def check(self, learning_rate: float, shrunk: bool, drift: bool, offset: float = 0.0) -> Check:
        """Return the current figures; ``offset`` is added to losses."""
        samples, loss, top, *_ = self._level.tolist()  # NaN while unknown
        return Check(int(samples), loss + offset, top + offset, self.sigma, learning_rate, self.live, shrunk, drift)

    def select(self, components: npt.NDArray[np.int64]) -> None:
        """Take the given components, in this order."""
        copies = np.bincount(components)[components]
        usage = self.usage[components] / copies
        total = usage.sum()
        self.usage = usage / total if total > 0 else np.full(len(usage), 1 / len(usage))
        self._wins, self._live = self._wins[components], None

    def restart_usage(self, weights: npt.NDArray[np.float64]) -> None:
        """Take weights as shares: components have moved, and what they won before says nothing any more."""
        self.usage, self._live = weights.copy(), None
        self._wins[:] = 0

    def facts(self) -> dict[str, Any]:
        """Return everything but tensors as plain data."""
        return {
            "schedule": asdict(self.schedule),
            "annealing": self.annealing._asdict(),
            "drift": self._drift._asdict(),
        }

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return every array by name."""
        return {"wins": self._wins, "usage": self.usage}

    @classmethod
    def restore(cls, facts: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]], n_components: int) -> Control:
        """Return the control that ``facts`` and ``tensors`` describe; raise an exception if they are damaged."""
        self = cls(Schedule(**facts["schedule"]), n_components)
        self.annealing, self._drift = Annealing(**facts["annealing"]), DriftState(**facts["drift"])
        if self.schedule.period < 1 or self.sigma <= 0 or self.samples < 0:
            raise ValueError("period, sigma or samples out of range")
        self._wins, self.usage = tensors["wins"].astype(np.int64), tensors["usage"].astype(np.float64)
        if not self._wins.shape == self.usage.shape == (n_components,):
            raise ValueError(f"wins and usage have shapes {self._wins.shape} and {self.usage.shape}")
        require_range("wins", self._wins, 0, self.samples)
        require_range("usage", self.usage, 0.0, 1.0 + 1e-6)
        return self
