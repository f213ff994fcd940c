"""When a stream has changed: a pure step on a small state.

While the width of annealing is at its minimum, the smoothed loss of every check is compared with what it has been over
the last twenty or so. A fall beyond the noise of such means is a drift; see docs/math.md, [E22].
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from streamgmm.annealing import Annealing, Schedule

MEMORY = 20  # checks over which the usual loss and its noise are averaged
PATIENCE = 10  # checks after annealing, or after an alarm, before the next alarm
ALARM = 6.0  # standard errors; in a million samples of streams that do not change we saw none above 4.3


@dataclass(frozen=True)
class Watch:
    """What was usual at recent checks; ``checks`` counts them from the end of annealing or the last alarm."""

    checks: int = 0
    loss: float = 0.0
    variance: float = 0.0
    scatter: float = 0.0  # of the loss at checks, as a variance: more than chance where samples resemble the last ones


def look(schedule: Schedule, watch: Watch, now: Annealing) -> tuple[Watch, bool]:
    """[E22] ends a period; says whether the stream has changed."""
    if now.loss is None or now.sigma > schedule.sigma_min:
        return Watch(), False
    checks = watch.checks + 1
    if checks > PATIENCE:
        noise = sqrt(max(watch.variance / (2 * schedule.period), watch.scatter))
        if watch.loss - now.loss > ALARM * noise:
            return Watch(), True
    rate = 1 / min(checks, MEMORY)
    away = now.loss - watch.loss
    squared = away * away if watch.checks else 0.0
    return Watch(
        checks=checks,
        loss=watch.loss + rate * away,
        variance=watch.variance + rate * (now.variance - watch.variance),
        scatter=watch.scatter + rate * (squared - watch.scatter),
    ), False
