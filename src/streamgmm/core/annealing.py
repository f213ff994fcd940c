"""When to narrow the smoothing: pure functions on a small state.

The smoothed loss ℓ follows the objective on the time scale of one period. Once per period it is compared with its
last value: while it still grows by more than ``tol`` of the total gain so far, σ stays; once it is stationary,
σ (and with it a rule's learning rate) shrinks by a tenth. See docs/math.md, [E11] and [E12].

With ``tol=None`` a gain must also exceed the noise of the loss between two checks.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan, sqrt
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm import native

SIGNIFICANT = 4.0  # standard errors that a gain must exceed where no tol is given
FARTHEST = 1e100  # limit on what one sample may contribute: its square must stay finite


@dataclass(frozen=True)
class Schedule:
    """Settings of the control; ``period`` counts samples.

    ``baseline="mean"`` measures gains against the mean loss over the first tenth of a period, and makes ℓ the plain
    mean until one period is full, so that no single sample decides the schedule. ``baseline="first"`` is the paper's
    control: gains count from the loss of the first step, and any gain below ``tol`` is stationary, however negative.
    """

    sigma_init: float
    sigma_min: float = 0.01
    tol: float | None = 0.05
    period: int = 1000
    shrink: float = 0.9
    baseline: str = "mean"
    drop_below: float = 0.0  # below this width samples no longer reach neighbours, so σ drops to its minimum at once


class Annealing(NamedTuple):
    """State of the control. ``max_component`` is smoothed like the loss, for reports only."""

    sigma: float
    samples: int = 0
    loss: float | None = None
    max_component: float | None = None
    baseline: float | None = None
    last: float | None = None
    variance: float = 0.0  # of one sample's loss about ℓ, smoothed like ℓ


def start(schedule: Schedule) -> Annealing:
    """Return the state before the first sample."""
    return Annealing(sigma=max(schedule.sigma_init, schedule.sigma_min))


def reheat(schedule: Schedule, state: Annealing, sigma: float) -> Annealing:
    """Widen the smoothing to ``sigma`` and measure gains from here on."""
    return state._replace(sigma=max(sigma, schedule.sigma_min), baseline=state.loss, last=None)


class Smoothing(NamedTuple):
    """Settings by which the kernel smooths losses; see ``native.smooth_losses``."""

    period: float
    opening: float
    robust: bool
    farthest: float = FARTHEST

    @classmethod
    def of(cls, schedule: Schedule) -> Smoothing:
        """Return the smoothing that a schedule asks for."""
        robust = schedule.baseline == "mean"
        return cls(schedule.period, max(1, schedule.period // 10) if robust else 1, robust)


def level_of(state: Annealing) -> npt.NDArray[np.float64]:
    """Return what the kernel smooths: samples, loss, max_component, variance and baseline, NaN while unknown."""
    known = (state.samples, state.loss, state.max_component, state.variance, state.baseline)
    return np.array([nan if value is None else value for value in known], dtype=np.float64)


def with_level(state: Annealing, level: npt.NDArray[np.float64]) -> Annealing:
    """Return the state after the kernel has smoothed."""
    samples, loss, top, variance, baseline = level.tolist()
    if loss != loss or top != top or baseline != baseline:
        loss, top, baseline = (None if value != value else value for value in (loss, top, baseline))
    return Annealing(state.sigma, int(samples), loss, top, baseline, state.last, variance)


def observe(
    schedule: Schedule, state: Annealing, losses: npt.ArrayLike, max_components: npt.ArrayLike, batch_size: int
) -> Annealing:
    """[E11] Update the smoothed loss with the mean losses of consecutive steps of ``batch_size`` samples each."""
    level = level_of(state)
    native.smooth_losses(level, (losses, max_components), batch_size, *Smoothing.of(schedule))
    return with_level(state, level)


def check(schedule: Schedule, state: Annealing) -> tuple[Annealing, bool]:
    """[E12] End a period; also return whether σ has shrunk."""
    if state.loss is None or state.last is None or state.baseline is None:
        return state._replace(last=state.loss), False
    gain, scale = state.loss - state.last, state.last - state.baseline
    if schedule.baseline == "mean":
        scale = abs(scale)
    if schedule.tol is None:
        # ℓ one period apart: each has variance v/(2 period), and their correlation is 1/e
        chance = sqrt(0.632 * state.variance / schedule.period)
        limit = max(SIGNIFICANT * chance, 0.05 * abs(scale))
        stationary = gain == 0 or -2 * limit < gain < limit
    else:
        relative = gain / scale if scale else (0.0 if gain == 0 else inf)
        least = -inf if schedule.baseline == "first" else -2 * schedule.tol
        stationary = least < relative < schedule.tol
    sigma = schedule.shrink * state.sigma if stationary else state.sigma
    if sigma < max(schedule.sigma_min, schedule.drop_below):
        sigma = schedule.sigma_min
    ended = Annealing(  # a tenth of the time of _replace
        sigma, state.samples, state.loss, state.max_component, state.baseline, state.loss, state.variance
    )
    return ended, stationary
