"""Drift detection: a pure function on a small state.

Once annealing is over, the smoothed loss at every check is compared with its mean over about the last twenty. A fall
beyond the noise of that mean is a drift; see docs/math.md, [E22].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from streamgmm.core.annealing import Annealing, Schedule

MEMORY = 20  # checks over which the loss and its noise are averaged
PATIENCE = 10  # checks after annealing, or after an alarm, before the next alarm
ALARM = 6.0  # standard errors; a million samples of stationary streams stayed below 4.3


@dataclass(frozen=True)
class DriftState:
    """The loss at recent checks; ``checks`` counts them from the end of annealing or the last alarm."""

    checks: int = 0
    loss: float = 0.0
    variance: float = 0.0
    scatter: float = 0.0  # variance of the loss between checks: larger than chance where samples are correlated


def detect(schedule: Schedule, recent: DriftState, now: Annealing) -> tuple[DriftState, bool]:
    """[E22] End a period; also return whether the stream has changed."""
    if now.loss is None or now.sigma > schedule.sigma_min:
        return DriftState(), False
    checks = recent.checks + 1
    if checks > PATIENCE:
        noise = sqrt(max(recent.variance / (2 * schedule.period), recent.scatter))
        if recent.loss - now.loss > ALARM * noise:
            return DriftState(), True
    rate = 1 / min(checks, MEMORY)
    away = now.loss - recent.loss
    squared = away * away if recent.checks else 0.0
    return DriftState(
        checks=checks,
        loss=recent.loss + rate * away,
        variance=recent.variance + rate * (now.variance - recent.variance),
        scatter=recent.scatter + rate * (squared - recent.scatter),
    ), False
