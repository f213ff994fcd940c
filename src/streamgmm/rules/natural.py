"""The natural-gradient rule: each component keeps running moments, with a rate that it earns by itself."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from streamgmm import kernels
from streamgmm.kernels import Floats, Parameters, Steps
from streamgmm.merging import Part, Round, add_changes, add_moments
from streamgmm.rules.base import Moment, Rule, RuleState, Work, nothing_usual, plain_numbers

NEXT_TO_NOTHING = 1e-6  # where no spread is unusual, the heaviest carry the most
MANY = 0.05  # share of the components that may be restarted without anybody noticing it in the loss
COUNT_MOST = {"f": 5e4, "d": inf}  # by type of the moments: steps of single precision that are shorter are rounded away
PERIOD_PER_COMPONENT = 2.5  # samples: few enough that small data sets see the whole annealing in one pass


@dataclass(frozen=True)
class Natural(Rule):
    """Natural gradient of the same annealed objective: as cheap as SGD, no learning rate, batch-EM quality in one pass.

    A component that has received weight n moves by w/n towards a sample that gives it weight w. What follows are the
    constants of docs/math.md §5; one setting serves all data sets that we know.

    half_life : in samples; what was learned so long ago counts half (for a component with an even share of samples).
        None remembers everything, with the past counting less the older it is (in float32 a component's last 50 000).
    count_init, count_annealing : counts at the start, and their bound while σ falls.
    growth : by which counts grow per weight received; below one, early samples fade. It rises to one in the long run.
    maturity : annealing times (the samples that annealing took) until ``growth`` has become one.
    hold_above : scales stay at the cap while σ is wider than this share of its start (or than 0.6).
    restart_below : share of an even weight below which a component is restarted where the spread is most unusual,
        unless its samples need it more.
    recruits : share of the components, the lightest ones, that move after a drift to where samples fall now;
        0.18 serves streams of images that bring something new while the old still counts.

    >>> Natural(half_life=10_000).count_max(64)
    225.4...
    """

    name: ClassVar[str] = "natural"
    tol: ClassVar[float | None] = None
    drop_below: ClassVar[float] = 0.25
    half_life: float | None = None
    count_init: float = 3.0
    count_annealing: float = 5.0
    growth: float = 0.2
    maturity: float = 100.0
    hold_above: float = 0.3
    restart_below: float = 0.4
    recruits: float = 0.0

    def __post_init__(self) -> None:
        plain_numbers(self)
        for name in ("count_init", "count_annealing", "growth", "maturity"):
            if not 0 < getattr(self, name) < inf:
                raise ValueError(f"{name} is {getattr(self, name)}; expected a positive number.")
        shares = 0 <= self.restart_below < 1 and 0 <= self.recruits < 1
        if self.growth > 1 or not shares or self.hold_above < 0:
            raise ValueError(
                f"growth is {self.growth}, restart_below {self.restart_below}, recruits {self.recruits}, hold_above "
                f"{self.hold_above}; expected growth within (0, 1], shares within [0, 1), hold_above not negative."
            )
        if self.half_life is not None and not 1 <= self.half_life < inf:
            raise ValueError(f"half_life is {self.half_life}; expected at least one sample, or None.")

    def period(self, n_components: int) -> int:
        return max(50, round(PERIOD_PER_COMPONENT * n_components))

    def first_sigma(self, widest: float, least: float) -> float:
        return widest if widest > self.drop_below else least  # one component has no neighbours

    def count_max(self, n_components: int) -> float:
        """[E13] the largest count that the half-life allows."""
        return inf if self.half_life is None else max(1.0, self.half_life / (n_components * log(2)))

    def start(self, parameters: Parameters, moment: Moment) -> RuleState:
        size = len(parameters)
        state = {
            "counts": np.full(size, self.count_init),
            "variances": kernels.padded(1 / parameters.scales**2, parameters.dtype, 1),
            "weights": parameters.weights,
            "received": np.zeros(size),
            "lately": np.zeros(size),
            "usual": nothing_usual(),
        }
        state.update(
            _scalars(growth=self.growth, hold=self._holds(moment), wide_at=0, narrow_at=-1, next_restart=0, wanted=0)
        )
        if moment.annealed:
            self._begin_narrow(state, moment)
        return state

    def advance(self, state: RuleState, parameters: Parameters, work: Work) -> Steps:
        return kernels.natural_steps(
            parameters,
            state["variances"],
            state["counts"],
            state["received"],
            work.x,
            work.filters,
            growth=float(state["growth"]),
            count_max=self._bound(state),
            scale_bounds=work.scale_bounds,
            hold_scales=bool(state["hold"]),
            **work.reading(state),
        )

    def check(self, state: RuleState, parameters: Parameters, moment: Moment) -> bool:
        state.update(_scalars(hold=self._holds(moment)))
        if moment.annealed and state["narrow_at"] < 0:
            self._begin_narrow(state, moment)
        age = moment.samples - int(state["narrow_at"]) if moment.annealed else 0
        if state["wanted"] > 0:
            self._recruit(state, parameters, moment)
        moved = 0
        self._move_weights(state, age)
        if moment.annealed:
            took = max(int(state["narrow_at"]) - int(state["wide_at"]), moment.schedule.period)
            ripeness = age / (self.maturity * took)
            state.update(_scalars(growth=min(1.0, self.growth + (1 - self.growth) * ripeness)))
            if moment.samples >= state["next_restart"]:
                moved = self._restart(state, parameters, moment)
                pause = max(2 * moment.schedule.period, age // 20)  # rarer and rarer, so that restarts come to an end
                state.update(_scalars(next_restart=moment.samples + pause))
        parameters.logits[:] = np.log(np.maximum(state["weights"], 1e-9))
        return moved > MANY * len(parameters) or bool(state["wanted"] > 0)

    def notice(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        state.update(_scalars(wanted=round(self.recruits * len(parameters))))

    def reheat(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        np.minimum(state["counts"], self.count_annealing, out=state["counts"])
        state.update(_scalars(growth=self.growth, wide_at=moment.samples, narrow_at=-1, wanted=0))

    def waits(self, state: RuleState, moment: Moment) -> bool:
        return bool(state["narrow_at"] >= 0 and state["wanted"] == 0)

    def finished(self, state: RuleState, moment: Moment) -> bool:
        """While σ falls, scales are held and counts are small; two periods later both have found their place."""
        narrow_at = int(state["narrow_at"])
        return narrow_at >= 0 and moment.samples >= narrow_at + 2 * moment.schedule.period

    def merge(self, done: Round, out: Part, rows: range) -> None:
        """Counts and weighted sums add; where all replicas together received more than the count, they average."""
        part = slice(rows.start, rows.stop)
        before, bound = done.start.state, self._bound(done.start.state)
        received = done.column("received") - before["received"][:, None]
        total = received.sum(1)
        counts = np.minimum(before["counts"] + float(before["growth"]) * total, bound)
        counts = np.where(total > 0, counts, before["counts"])
        shares = np.maximum(done.column("counts"), received) / np.maximum(counts, total)[:, None]
        (add_changes if before["hold"] else add_moments)(done, out, rows, shares)
        out.state["counts"][part] = counts[part]
        out.state["received"][part] = (before["received"] + total)[part]

    def _bound(self, state: RuleState) -> float:
        """[E13] the largest count allowed now."""
        most = min(self.count_max(len(state["counts"])), COUNT_MOST[state["variances"].dtype.char])
        return min(self.count_annealing, most) if state["narrow_at"] < 0 else most

    def learning_rate(self, state: RuleState) -> float:
        """Share of the way that a typical component moves towards a sample that it wins."""
        counts = np.sort(state["counts"])  # a tenth of the time of np.median, at every check
        return float(min(1.0, 1 / counts[len(counts) // 2]))

    def _holds(self, moment: Moment) -> bool:
        return not moment.annealed and moment.sigma > min(0.6, self.hold_above * moment.schedule.sigma_init)

    def _begin_narrow(self, state: RuleState, moment: Moment) -> None:
        pause = 2 * moment.schedule.period
        state.update(_scalars(narrow_at=moment.samples, next_restart=moment.samples + pause, hold=False))

    def _move_weights(self, state: RuleState, age: int) -> None:
        """[E18] weights follow the shares received, over a memory that grows once annealing is over."""
        received = state["received"]
        total = float(received.sum())
        if total == 0:
            return  # nothing but samples so absurd that they count for nothing
        memory = self.count_annealing * len(received) + age
        if self.half_life is not None:
            memory = min(memory, self.half_life / log(2))
        state["weights"] += total / (memory + total) * (received / total - state["weights"])
        state["lately"] = state["lately"] + received
        state["received"] = np.zeros_like(received)

    def _restart(self, state: RuleState, parameters: Parameters, moment: Moment) -> int:
        """[E19] moves components that hardly anybody needs beside those that carry the most; says how many."""
        weights, lately = state["weights"], state["lately"]
        state["lately"] = np.zeros_like(lately)
        light = np.flatnonzero(weights < self.restart_below / len(weights))
        if not len(light):
            return 0
        variances, usual = state["variances"][:, : parameters.n_features], _usual_variances(state, parameters)
        burden = weights * (NEXT_TO_NOTHING + unusual_spread(variances, usual, moment.scale_bounds[1] ** 2))
        burden[light] = 0  # nobody moves beside one who is to move
        moved = 0
        for k in light.tolist():
            heavy = int(burden.argmax())
            if lately[k] > 0 and weights[k] * need(k, parameters, variances[k]) > burden[heavy]:
                continue  # more would be lost than won
            _move_beside(state, parameters, k, heavy, usual, moment.rng)
            burden[k] = burden[heavy] = burden[heavy] / 2
            moved += 1
        weights /= weights.sum()  # what the light ones had goes to all
        parameters.refresh()
        return moved

    def _recruit(self, state: RuleState, parameters: Parameters, moment: Moment) -> None:
        """[E22] at checks after a drift, moves the lightest component that gets nothing to where samples fall now.

        Those who carry the change learn fast; all others keep what they know.
        """
        received, counts = state["received"], state["counts"]
        busy = received >= 0.02 * received.sum()
        counts[busy] = np.minimum(counts[busy], self.count_annealing)
        idle = np.flatnonzero(received == 0)
        state.update(_scalars(wanted=int(state["wanted"]) - 1 if len(idle) else 0))
        if not len(idle):
            return
        k = int(idle[state["weights"][idle].argmin()])
        heavy = int((received * _load(state, parameters, moment)).argmax())
        _move_beside(state, parameters, k, heavy, _usual_variances(state, parameters), moment.rng)
        state["weights"] /= state["weights"].sum()
        parameters.refresh()


def _load(state: RuleState, parameters: Parameters, moment: Moment) -> npt.NDArray[np.float64]:
    return distortion(state["variances"][:, : parameters.n_features], moment.scale_bounds[1] ** 2)


def _usual_variances(state: RuleState, parameters: Parameters) -> Floats:
    return np.median(state["variances"][:, : parameters.n_features], axis=0)


def _move_beside(
    state: RuleState, parameters: Parameters, k: int, heavy: int, usual: Floats, rng: np.random.Generator
) -> None:
    """Component k becomes half of ``heavy``, a little apart from it; log-determinants are left to the caller."""
    weights, counts, width = state["weights"], state["counts"], parameters.n_features
    own = state["variances"][heavy, :width]
    # apart along what is unusual about its spread: that is where two clusters hide in one component
    spread = np.sqrt(np.maximum(own - usual, 0) + 0.01 * own)
    parameters.means[k] = parameters.means[heavy] + (0.3 * spread * rng.standard_normal(width)).astype(parameters.dtype)
    parameters.scales_buffer[k] = parameters.scales_buffer[heavy]
    state["variances"][k] = state["variances"][heavy]
    weights[k] = weights[heavy] = weights[heavy] / 2
    counts[k] = counts[heavy] = min(10.0, counts[heavy])


def unusual_spread(variances: Floats, usual: Floats, precision_max: float) -> npt.NDArray[np.float64]:
    """What a sample of each component would win if its spread became ``usual`` (D,), in units of half a nat: (K,)."""
    own, others = np.maximum(variances, 1 / precision_max), np.maximum(usual, 1 / precision_max)
    return np.maximum(np.log(own / others), 0).sum(1, dtype=np.float64)


def need(k: int, parameters: Parameters, variance: Floats) -> float:
    """What a sample of component k, of such ``variance`` (D,), would lose if the next best took it, in half nats."""
    apart = (parameters.means - parameters.means[k]).astype(np.float64)
    losses = (parameters.scales.astype(np.float64) ** 2 * (variance + apart**2)).sum(1) - 2 * parameters.log_dets
    return float(np.delete(losses, k).min(initial=inf) - losses[k])


def distortion(variances: Floats, precision_max: float) -> npt.NDArray[np.float64]:
    """What a sample of each component loses on average to the spread around its mean, in units of half a nat: (K,)."""
    spread = np.maximum(variances.astype(np.float64) * precision_max, 1e-12)
    return np.where(spread < 1, spread, 1 + np.log(spread)).sum(1)


def _scalars(**values: Any) -> RuleState:
    return {name: np.array(value) for name, value in values.items()}
