"""The loop, and nothing else: samples in, parameters and checks out.

Every chunk is cut at the next check, so the loops run with a fixed filter and rate and the control runs once per
period. Feeding the same stream in any chunking gives bit-identical parameters.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm import annealing, drift
from streamgmm.annealing import Annealing, Schedule
from streamgmm.drift import Watch
from streamgmm.grid import Grid, filters
from streamgmm.kernels import Floats, Parameters, Rows, Steps, aligned_copy
from streamgmm.rules import Moment, Rule, RuleState, Work

SCALE_MIN = 1e-3  # times the largest scale where that is below one
REHEATED = 0.2  # width after a drift, as a share of the widest
USAGE_SAMPLES = 50  # a component's share of wins is averaged over so many samples per component
LIVE_SHARE = 0.1  # of an even share: below it a component counts as dead


Shares = npt.NDArray[np.float64]
"""How much each row counts, within (0, 1]."""


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


class Pending:
    """The beginning of a batch whose rest has not come yet; rows are copied a few times, whatever the chunks."""

    def __init__(self, rows: Floats, batch_size: int, shares: Shares | None = None) -> None:
        self._wanted = batch_size if batch_size > 1 else 0
        self._room = np.empty((0, rows.shape[1]), rows.dtype)
        self._shares = np.empty(0)
        self._count = 0
        self.add(rows, shares=shares)

    def __len__(self) -> int:
        return self._count

    @property
    def rows(self) -> Floats:
        """(n, D) view."""
        return self._room[: self._count]

    @property
    def shares(self) -> Shares:
        """How much each of them counts, (n,) view."""
        return self._shares[: self._count]

    def add(self, rows: Rows, factor: float = 1.0, shares: Shares | None = None) -> int:
        """Takes as many rows as the batch still wants, times ``factor``, and says how many."""
        taken = rows[: self._wanted - self._count]
        self._make_room(self._count + len(taken))
        place = slice(self._count, self._count + len(taken))
        self._room[place] = taken
        self._room[place] *= self._room.dtype.type(factor)
        self._shares[place] = 1.0 if shares is None else shares[: len(taken)]
        self._count += len(taken)
        return len(taken)

    def _make_room(self, count: int) -> None:
        """Doubles it, so that rows are copied a few times at most, and no more memory is taken than rows have come."""
        if count > len(self._room):
            size = min(self._wanted, max(count, 2 * len(self._room)))
            rows, shares = self.rows, self.shares
            self._room, self._shares = np.empty((size, rows.shape[1]), rows.dtype), np.empty(size)
            self._room[: self._count], self._shares[: self._count] = rows, shares

    def empty(self) -> None:
        self._count = 0


@dataclass
class TrainingState:
    """All that training needs to go on: save it, load it, and nothing can tell that it ever stopped."""

    parameters: Parameters
    grid: Grid
    schedule: Schedule
    annealing: Annealing
    rule: Rule
    rule_state: RuleState
    rng: np.random.Generator
    batch_size: int = 1
    scale_max: float = 20.0**0.5
    pending: Pending = field(default_factory=lambda: Pending(np.empty((0, 0)), 1))
    watch: Watch = field(default_factory=Watch)
    reheats: bool = False  # whether a drift widens the annealing again
    allow_nan: bool = False
    skipped: int = 0  # rows without a single known feature
    wins: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    usage: npt.NDArray[np.float64] = field(default_factory=lambda: np.empty(0))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Takes copies: joblib hands over large arrays as files that cannot be written, and pickles are not aligned."""
        vars(self).update(state)
        self.rule_state = {name: aligned_copy(value) for name, value in self.rule_state.items()}
        self.pending = Pending(self.pending.rows, self.batch_size, self.pending.shares)
        self.wins = self.wins.copy()

    @property
    def n_samples(self) -> int:
        """Samples received, those pending included."""
        return self.annealing.samples + len(self.pending)

    @property
    def scale_bounds(self) -> tuple[float, float]:
        return scale_bounds(self.scale_max)

    @property
    def live(self) -> int:
        """Components that win at least a tenth of an even share of recent samples."""
        return int((self.usage >= LIVE_SHARE / self.grid.size).sum())


def scale_bounds(largest: float) -> tuple[float, float]:
    """The smallest and the largest scale of a feature."""
    return SCALE_MIN * min(1.0, largest), largest


def begin(
    parameters: Parameters,
    grid: Grid,
    schedule: Schedule,
    rule: Rule,
    rng: np.random.Generator,
    *,
    batch_size: int = 1,
    precision_max: float = 20.0,
    reheats: bool = False,
    allow_nan: bool = False,
) -> TrainingState:
    """The state before the first sample; takes over ``parameters`` and changes them from now on."""
    bounds, first = scale_bounds(precision_max**0.5), annealing.start(schedule)
    np.clip(parameters.scales, *bounds, out=parameters.scales)
    parameters.refresh()
    return TrainingState(
        parameters=parameters,
        grid=grid,
        schedule=schedule,
        annealing=first,
        rule=rule,
        rule_state=rule.start(parameters, Moment(0, first.sigma, schedule, bounds, rng)),
        rng=rng,
        batch_size=batch_size,
        scale_max=bounds[1],
        reheats=reheats,
        allow_nan=allow_nan,
        pending=Pending(np.empty((0, parameters.n_features), parameters.dtype), batch_size),
        wins=np.zeros(grid.size, np.int64),
        usage=np.full(grid.size, 1 / grid.size),
    )


def feed(
    state: TrainingState,
    x: npt.ArrayLike,
    factor: float = 1.0,
    *,
    shares: Shares | None = None,
    reports: list[Steps] | None = None,
    more: bool = False,
) -> list[Check]:
    """Learns from rows (N, D) and gives the checks that fell due; the rest of a batch stays pending.

    Bytes need no copy as floats: the loops read them as they are, times ``factor``. ``shares`` says how much each row
    counts. What the rule reports of its steps is added to ``reports``. With ``more`` to come at once, the parameters
    need not show yet what was learned: replicas are not merged for nobody to look at.
    """
    rows: Rows = np.asarray(x)
    if rows.dtype != np.uint8:
        rows, factor = rows.astype(state.parameters.dtype, copy=False), 1.0
        rows, shares = _known(state, rows, shares)
    checks: list[Check] = []
    start = 0
    if len(state.pending):
        start = state.pending.add(rows, factor, shares)
        if len(state.pending) < state.batch_size:
            return checks
        checks += _advance(state, state.pending.rows, shares=state.pending.shares, reports=reports)
        state.pending.empty()
    whole = len(rows) - (len(rows) - start) % state.batch_size
    while start < whole:
        stop = min(whole, start + _samples_to_check(state))
        some = None if shares is None else shares[start:stop]
        checks += _advance(state, rows[start:stop], factor, shares=some, reports=reports)
        start = stop
    state.pending.add(rows[whole:], factor, None if shares is None else shares[whole:])
    if not more:
        settle(state)
    return checks


def _known(state: TrainingState, rows: Rows, shares: Shares | None) -> tuple[Rows, Shares | None]:
    """Rows without those that say nothing at all, which are counted."""
    if not state.allow_nan or (known := rows_with_values(rows)).all():
        return rows, shares
    state.skipped += len(rows) - int(known.sum())
    return rows[known], None if shares is None else shares[known]


def rows_with_values(rows: Rows) -> npt.NDArray[np.bool_]:
    """Which rows hold anything but NaN: (N,)."""
    if rows.dtype.kind != "f" or not np.isnan(rows[:, 0]).any():
        return np.ones(len(rows), np.bool_)
    return np.asarray(~np.isnan(rows).all(1))


def settle(state: TrainingState) -> None:
    """Makes the parameters show all that was learned."""
    state.rule.settle(state.rule_state, state.parameters, state.scale_bounds)


def flush(state: TrainingState) -> list[Check]:
    """Ends a pass: learns from a pending partial batch as one smaller step, and from whatever the rule holds back."""
    rows = state.pending.rows
    checks = _advance(state, rows, batch_size=len(rows), shares=state.pending.shares) if len(rows) else []
    state.pending.empty()
    state.rule.flush(state.rule_state, state.parameters, _moment(state))
    return checks


def end_pass(state: TrainingState) -> None:
    """Ends a pass that another one follows: what the rule has gathered in it becomes the model."""
    state.rule.flush(state.rule_state, state.parameters, _moment(state))


def finished(state: TrainingState) -> bool:
    """Whether it has learned for so long that one may rely on the model."""
    return state.rule.finished(state.rule_state, _moment(state))


def _samples_to_check(state: TrainingState) -> int:
    """Samples of the whole steps up to and including the one that completes the period."""
    period = state.schedule.period
    missing = period - state.annealing.samples % period
    return -(-missing // state.batch_size) * state.batch_size


def _advance(
    state: TrainingState,
    rows: Rows,
    factor: float = 1.0,
    *,
    batch_size: int | None = None,
    shares: Shares | None = None,
    reports: list[Steps] | None = None,
) -> list[Check]:
    size = batch_size or state.batch_size
    before = state.annealing.samples
    filter_now = filters(state.grid, state.annealing.sigma)
    work = Work(rows, factor, filter_now, size, state.scale_bounds, state.allow_nan, shares)
    steps = state.rule.advance(state.rule_state, state.parameters, work)
    state.wins += steps.wins
    if reports is not None:
        reports.append(steps)
    state.annealing = annealing.observe(state.schedule, state.annealing, steps.losses, steps.max_components, size)
    period = state.schedule.period
    return [_check(state)] if state.annealing.samples // period > before // period else []


def _check(state: TrainingState) -> Check:
    total = int(state.wins.sum())
    weight = min(1.0, total / (USAGE_SAMPLES * state.grid.size))
    state.usage = (1 - weight) * state.usage + weight * state.wins / total
    state.wins = np.zeros_like(state.wins)
    state.annealing, shrunk = annealing.check(state.schedule, state.annealing)
    by_itself = state.rule.check(state.rule_state, state.parameters, _moment(state, shrunk))
    state.watch, changed = drift.look(state.schedule, state.watch, state.annealing)
    if by_itself:
        state.watch = Watch()
    if changed and not state.reheats:
        state.rule.notice(state.rule_state, state.parameters, _moment(state))
    elif changed:
        sigma = REHEATED * state.grid.widest if state.rule.anneals else state.schedule.sigma_min
        state.annealing = annealing.reheat(state.schedule, state.annealing, sigma)
        state.rule.reheat(state.rule_state, state.parameters, _moment(state))
    return current(state, shrunk)._replace(drift=changed)


def _moment(state: TrainingState, shrunk: bool = False) -> Moment:
    now = state.annealing
    return Moment(now.samples, now.sigma, state.schedule, state.scale_bounds, state.rng, shrunk)


def current(state: TrainingState, shrunk: bool = False) -> Check:
    """The figures of this moment, in the form of a check."""
    loss, top = state.annealing.loss, state.annealing.max_component
    return Check(
        samples=state.annealing.samples,
        loss=float("nan") if loss is None else loss,
        max_component=float("nan") if top is None else top,
        sigma=state.annealing.sigma,
        learning_rate=state.rule.learning_rate(state.rule_state),
        live=state.live,
        shrunk=shrunk,
    )
