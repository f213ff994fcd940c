"""When to narrow the smoothing: pure functions on a small state.

The smoothed loss ℓ follows the objective on the time scale of one period. Once per period it is compared with its
last value: while it still grows by more than ``tol`` of the total gain so far, σ stays; once it is stationary,
σ (and with it a rule's learning rate) shrinks by a tenth. See docs/math.md, [E11] and [E12].

With ``tol=None`` a gain must also exceed the noise of the loss between two checks.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isnan, nan, sqrt

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


@dataclass(frozen=True)
class Annealing:
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
    return replace(state, sigma=max(sigma, schedule.sigma_min), baseline=state.loss, last=None)


def observe(
    schedule: Schedule, state: Annealing, losses: npt.ArrayLike, max_components: npt.ArrayLike, batch_size: int
) -> Annealing:
    """[E11] Update the smoothed loss with the mean losses of consecutive steps of ``batch_size`` samples each."""
    robust = schedule.baseline == "mean"
    known = (state.samples, state.loss, state.max_component, state.variance, state.baseline)
    now = np.array([nan if value is None else value for value in known], dtype=np.float64)
    native.smooth_losses(
        now,
        (losses, max_components),
        batch_size=batch_size,
        period=schedule.period,
        opening=max(1, schedule.period // 10) if robust else 1,
        robust=robust,
        farthest=FARTHEST,
    )
    samples, loss, top, variance, baseline = (None if isnan(value) else value for value in now.tolist())
    return replace(
        state, samples=int(samples or 0), loss=loss, max_component=top, baseline=baseline, variance=variance or 0.0
    )


def check(schedule: Schedule, state: Annealing) -> tuple[Annealing, bool]:
    """[E12] End a period; also return whether σ has shrunk."""
    if state.loss is None or state.last is None or state.baseline is None:
        return replace(state, last=state.loss), False
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
    return replace(state, sigma=sigma, last=state.loss), stationary
