"""Drift detection: pure functions on a small state.

Once annealing is over, the mean loss of every period is compared with its mean over about the last twenty. A fall
beyond the noise of that mean that lasts is a drift; a burst of outliers is none. See docs/math.md, [E22].
"""

from __future__ import annotations

from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.annealing import Annealing, Schedule

MEMORY = 20  # checks over which the loss and its noise are averaged
PATIENCE = 10  # checks after annealing, or after an alarm, before the next alarm
ALARM = 6.0  # standard errors of the mean of the periods that must be low
MOST_PERIODS = 4  # that must be low one after the other, where periods are short
NOTICED = 300  # rows within which a change is to be noticed, or two periods
FARTHEST, FARTHEST_NOISE = 3.0, 12.0  # deviations, and standard errors, below the mean: lower losses count as this


class DriftState(NamedTuple):
    """The loss at recent checks; ``checks`` counts them from the end of annealing or the last alarm."""

    checks: int = 0
    loss: float = 0.0
    variance: float = 0.0  # of the loss of one step
    scatter: float = 0.0  # variance of the loss between checks: larger than chance where samples are correlated
    low: int = 0  # periods in a row that were too low
    floor: float | None = None  # losses of the present period below it count as this; None while annealing
    steps: int = 0  # of the present period, and sums over them
    total: float = 0.0
    squares: float = 0.0  # of differences from the floor, whose rounding errors are small


def sums_of(state: DriftState) -> npt.NDArray[np.float64]:
    """Return what the kernel sums: floor (NaN for none), steps, total and squares."""
    return np.array([nan if state.floor is None else state.floor, state.steps, state.total, state.squares])


def with_sums(state: DriftState, sums: npt.NDArray[np.float64]) -> DriftState:
    """Return the state after the kernel has summed."""
    _, steps, total, squares = sums.tolist()
    return DriftState(*state[:-3], int(steps), total, squares)


def detect(schedule: Schedule, recent: DriftState, now: Annealing) -> tuple[DriftState, bool]:
    """[E22] End a period; also return whether the stream has changed."""
    if now.loss is None or now.sigma > schedule.sigma_min:
        return DriftState(), False
    if recent.floor is None or not recent.steps:  # this period was not observed as a whole
        return DriftState(floor=now.loss - FARTHEST * sqrt(now.variance)), False
    mean = recent.total / recent.steps
    variance = max(recent.squares / recent.steps - mean * mean, 0.0)
    checks, away = recent.checks + 1, recent.floor + mean - recent.loss
    noise = sqrt(max(recent.variance / recent.steps, recent.scatter))
    needed = max(1, min(MOST_PERIODS, NOTICED // schedule.period - 1))
    limit = ALARM * noise / sqrt(needed)
    low = recent.low + 1 if checks > PATIENCE and -away > limit else 0
    if low == needed:
        return DriftState(floor=recent.floor), True
    rate = 1 / min(checks, MEMORY)
    squared = min(away * away, limit * limit if checks > PATIENCE else inf) if recent.checks else 0.0
    scatter = recent.scatter + rate * (squared - recent.scatter)
    if not low:
        loss, variance = recent.loss + rate * away, recent.variance + rate * (variance - recent.variance)
    else:
        loss, variance = recent.loss, recent.variance
    reach = max(FARTHEST * sqrt(variance), FARTHEST_NOISE * sqrt(scatter))
    return DriftState(checks, loss, variance, scatter, low, floor=loss - reach), False


def shift(state: DriftState, added: float) -> DriftState:
    """Add a constant to all losses."""
    if state.floor is None:
        return state
    return state._replace(loss=state.loss + added if state.checks else 0.0, floor=state.floor + added)
