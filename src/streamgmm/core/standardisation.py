"""Learning raw data: rows become samples of a common scale, and answers come back in the units of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.batch_em import Sheet
from streamgmm.core.batches import PartialBatch, Shares
from streamgmm.core.control import Control
from streamgmm.core.covariance import Bounds
from streamgmm.core.engine import Replica
from streamgmm.core.frame import Frame, Move
from streamgmm.core.parameters import Parameters, logits_of
from streamgmm.core.refinement import PARTS
from streamgmm.core.rules import Context, Rule
from streamgmm.core.rules.moments import MomentState, RegularisedState, cross_validated_losses
from streamgmm.core.scaling import may_hold_a_burst
from streamgmm.core.state import require_range
from streamgmm.core.tensors import bound_means
from streamgmm.native import Rows, Turn

WARM_UP, LONGEST_WARM_UP = 200, 1600  # rows that are kept until the first frame is known; twice as many if in doubt
SHORTEST_WARM_UP, MANY_NUMBERS = 50, 3_000_000  # fewer rows if they hold so many numbers: memory follows the model
WIDE_BOUNDS = Bounds(1e-5, 1e5)  # of scales, in deviations of a feature, where a prior keeps them apart from zero
LONGEST, RAREST = 1000, 10_000  # samples between two looks at the frame, and between two updates
ALL_SUMMED = 4000  # samples after which only one step in SPARSE is summed in the frame
SPARSE = 8
HELD_PRECISION = 20.0  # of samples, while the annealing is wide; the largest one of rules without a prior
PRIOR_EXPECTS = 0.3  # of a feature's variance in a component
SAMPLES, ANOMALY_SAMPLES = 1.0, 10.0  # that the prior counts like, at least, for a density and to rank anomalies
UNUSUAL = 0.3  # unusual values of a feature that the prior counts like: at least one sample
HEAVY_TAILED = 0.05  # samples that it counts like for each unit of excess kurtosis: variances of heavy tails are noisy
MANY_FRESH = 0.1  # share of new features from which components relearn all that connects features
LOCKED = 1e30  # weight of the prior on a feature that has not varied
EXTREME, ABSURD = 30.0, 1e-8  # [E20] of the kernel: deviations of the bound, and influence of rows that tell nothing


def bounds_of_samples(rule: Rule[Any]) -> Bounds:
    """Return bounds of scales for samples of a common scale."""
    return WIDE_BOUNDS if rule.has_prior else Bounds(WIDE_BOUNDS.scale_min, HELD_PRECISION**0.5)


class Standardisation:
    """The first rows of a training, its frame, and the way back to the units of the rows.

    Parameters
    ----------
    n_features : int
        Width of a row.
    dtype : dtype
        Float type of the training.
    rule : Rule
        The rule that learns the samples.
    precision_max : float or None, default=None
        Largest precision of a feature, in the units of the rows.
    """

    def __init__(
        self, n_features: int, dtype: np.dtype[Any], rule: Rule[Any], precision_max: float | None = None
    ) -> None:
        self._smallest = 0.0 if precision_max is None else 1 / precision_max
        self.rule, self._bounds = rule, bounds_of_samples(rule)
        self._first = PartialBatch(n_features, dtype, LONGEST_WARM_UP)
        self._enough = _warm_up(n_features)  # rows for a frame
        self._frame: Frame | None = None
        self._next_look = self._next_update = 0  # samples at which the frame is looked at again, and updated
        self._every = 1  # one step in so many is summed in the frame

    def __len__(self) -> int:
        """Rows that wait for the first frame."""
        return len(self._first)

    @property
    def warming_up(self) -> bool:
        """Whether the first frame is not known yet."""
        return self._frame is None

    @property
    def offset(self) -> float:
        """What log-likelihoods of samples gain when they are expressed for rows."""
        return 0.0 if self._frame is None else self._frame.log_volume

    @property
    def every(self) -> int:
        """One step in so many is summed in the frame."""
        return self._every

    def turn(self, step: int) -> Turn:
        """Tell the kernel which steps to sum in the frame; ``step`` is the number of the next one."""
        return Turn(step, 1, self._every)

    def take(self, rows: Rows, factor: float, shares: Shares | None) -> int:
        """Keep rows until there are enough for a frame; return how many were taken."""
        taken = 0
        if not len(self._first) and len(rows) >= self._enough and rows.dtype == self._first.rows.dtype:
            taken = self._first.borrow(rows[: self._enough], shares)  # mostly they are all that is needed
            self._doubt_burst()
        while taken < len(rows) and not self.ready:
            stop = taken + self._enough - len(self._first)
            taken += self._first.add(rows[taken:stop], factor, None if shares is None else shares[taken:stop])
            self._doubt_burst()
        if not self.ready:
            self._first.own()
        return taken

    def _doubt_burst(self) -> None:
        """Wait for more rows if those there are may hold a burst."""
        if self.ready and self._enough < LONGEST_WARM_UP and may_hold_a_burst(self._first.rows):
            self._enough = min(2 * self._enough, LONGEST_WARM_UP)

    @property
    def ready(self) -> bool:
        """Whether there are enough rows for a frame."""
        return len(self._first) == self._enough

    def begin(self, main: Replica, given: Mapping[str, npt.NDArray[Any]]) -> tuple[Rows, Shares]:
        """Take the first frame from the first rows, and given parameters into it; return the rows, to be learned."""
        rows, shares = self._first.rows, self._first.shares
        self._first = PartialBatch(rows.shape[1], rows.dtype, LONGEST_WARM_UP)  # these may be large: none is copied
        self._frame = Frame.start(rows, main.parameters.dtype)
        main.frame = self._frame.values
        self._set_prior(main, self._frame.varies)
        if given:
            self._start_from(main, given)
        return rows, shares

    def _start_from(self, main: Replica, given: Mapping[str, npt.NDArray[Any]]) -> None:
        """Start from weights, means and precisions in the units of the rows."""
        assert self._frame is not None
        old, kind = main.parameters, main.parameters.kind
        means = self._frame.samples_of_rows(given["means"]) if "means" in given else old.means
        precisions = None  # all held
        if "precisions" in given:
            kind.initial(given.get("means", old.means), given["precisions"], HELD_PRECISION)  # raises if unfit
            unit = self._frame.unit
            precisions = given["precisions"] / (unit**2 if given["precisions"].ndim == 2 else np.outer(unit, unit))
        logits = logits_of(given["weights"]) if "weights" in given else old.logits
        values = kind.initial(np.asarray(means, old.dtype), precisions, HELD_PRECISION)
        main.parameters = Parameters(kind, values, logits)
        kind.clip(main.parameters, self._bounds)
        main.state = self.rule.restarted(main.state, main.parameters)

    def widen(self, more: int, main: Replica) -> None:
        """Add features of which no value is known yet; parameters are wider already."""
        width, dtype = main.parameters.n_features, main.parameters.dtype
        if self._frame is None:
            rows, shares = self._first.rows, self._first.shares
            self._first = PartialBatch(width, dtype, LONGEST_WARM_UP)
            self._first.add(np.pad(rows, ((0, 0), (0, more)), constant_values=np.nan), 1.0, shares)
            self._wait_longer(width)
            return
        assert main.frame is not None
        self._frame.values = main.frame
        self._frame = self._frame.widened(more)
        main.frame = self._frame.values
        if isinstance(main.state, RegularisedState) and main.state.prior is not None:
            rows = main.parameters.kind.start_prior(width, dtype, PRIOR_EXPECTS)
            rows[0, : width - more] = main.state.prior.rows[0, : width - more]
            main.state.prior_rows = rows
        self._set_prior(main, np.zeros(width, np.bool_))

    def _set_prior(self, main: Replica, fresh: npt.NDArray[np.bool_]) -> None:
        """[E24] Set weight and smallest variance of the prior; what it expects of ``fresh`` features (D,), too."""
        assert self._frame is not None
        frame, state, kind = self._frame, main.state, main.parameters.kind
        # a feature may vary by far less than the smallest variance: no component is wider than its bounds for that
        smallest = np.minimum(self._smallest * frame.unit**2, self._bounds.variance_max)
        if not isinstance(state, RegularisedState) or state.prior is None:
            if smallest.any():
                kind.limit_precisions(main.parameters, 1 / np.maximum(smallest, 1 / self._bounds.precision_max))
            return
        before = state.prior.rows[0, : len(fresh)]
        expected = np.where(fresh, PRIOR_EXPECTS, np.where(frame.varies, before, 1.0))
        share = frame.unusual_share
        heavy = np.where(share > 0.5, HEAVY_TAILED * (frame.kurtosis - 1), 0.0)  # that of rare values says no more
        least = ANOMALY_SAMPLES if self.rule.reg_covar > 0 and not kind.couples_features else SAMPLES
        weight = np.where(frame.varies, np.maximum(least, np.maximum(UNUSUAL / share, heavy)), LOCKED)
        added = np.zeros(len(share))
        if self.rule.reg_covar > 0:
            added = np.where(frame.varies, self.rule.reg_covar * _variances_within(main), 0.0)
        kind.set_prior(state.prior, [expected, weight, added, np.where(frame.varies, smallest, 0.0)])

    def update(self, main: Replica, control: Control) -> None:
        """End a period: move the frame where it no longer fits, and all parameters with it.

        The longer the training, the rarer that is. But a look tells at least every ``LONGEST`` samples what is urgent.
        """
        if self._frame is None or control.samples < min(self._next_look, self._next_update):
            return
        assert main.frame is not None
        self._frame.values = main.frame
        self._next_look = control.samples + min(LONGEST, control.samples // 5)
        if control.samples < self._next_update and not self._frame.is_urgent(self._every):
            return
        rarest = max(LONGEST, min(RAREST, self.rule.memory / 10))
        self._next_update = control.samples + int(min(rarest, control.samples // 4))
        varied = self._frame.varies
        move = self._frame.update(2 * self.rule.memory, self._every)
        self._every = SPARSE if control.samples >= ALL_SUMMED else 1
        self._follow(main, control, move, varied)

    def _follow(self, main: Replica, control: Control, move: Move | None, varied: npt.NDArray[np.bool_]) -> None:
        """Take parameters, losses and prior to where the frame has moved; ``varied`` tells which features did before.

        Losses are those of samples: a feature that wakes or is learned anew does not shift them, whatever its unit is.
        """
        assert self._frame is not None
        if move is not None:
            self._apply(main, move)
            gained = -float(np.log(move.factor[varied & ~move.fresh]).sum())
            control.shift_losses(gained)
            main.typical_loss[1] += gained
        self._set_prior(main, np.zeros(len(self._frame.mean), np.bool_) if move is None else move.fresh)

    def _apply(self, main: Replica, move: Move) -> None:
        tensors, kind, rule = main.parameters.tensors, main.parameters.kind, self.rule
        moved = kind.reframe(tensors, move.shift, move.factor)
        if moved is not tensors:  # kinds need not work in place
            tensors.assign(moved)
        bound_means(tensors)
        state = rule.reframed(main.state, kind, move.shift, move.factor)
        if move.fresh.any():
            kind.forget_features(tensors, move.fresh)
            state = state.map_tensors(lambda t: kind.forget_features(t, move.fresh))
            if not kind.couples_features or move.fresh.mean() > MANY_FRESH:
                rule.on_new_features(state)
        if rule.holds_scales(main.state):  # scales are a choice then, not an estimate
            for name, values in kind.initial(tensors["means"], None, HELD_PRECISION).items():
                if name != "means":
                    tensors[name][...] = values
        main.state = state
        kind.clip(main.parameters, self._bounds)

    def refine(self, main: Replica, control: Control, rows: Rows, counts: npt.NDArray[np.float64] | None) -> bool:
        """Refine the model by EM on rows; return whether the rule can."""
        if self._frame is None or not self.rule.refines:
            return False
        varied, absurd = self._frame.varies, self._absurd(main, rows)
        counts = np.where(absurd, 0.0, 1.0 if counts is None else counts)
        # all rows are known: nothing needs to be doubted or clipped
        self._follow(main, control, self._frame.measure(rows[~absurd]), varied)
        self._add_variance(main)
        samples = self._frame.samples_of_rows(rows)
        done = self.rule.refine(main.state, main.parameters, samples, counts, self._bounds)
        self._add_variance(main)  # of what features vary within components at last
        if done:
            control.restart_usage(main.parameters.weights)
        return done

    def _absurd(self, main: Replica, rows: Rows) -> npt.NDArray[np.bool_]:
        """[E20] Return which rows have so little influence that their values say nothing about the others, (N,)."""
        assert self._frame is not None
        p, (_, level, deviation, room, _) = main.parameters, main.typical_loss.tolist()
        losses = p.kind.score(p, self._frame.samples_of_rows(rows).astype(p.dtype)).log_likelihood
        bound = max(room, 1.0) * EXTREME * max(deviation, p.n_features**0.5)
        absurd = np.asarray(level - losses > bound / ABSURD**0.5)
        return absurd if 2 * absurd.sum() <= len(rows) else np.zeros_like(absurd)  # most rows cannot be absurd

    def _add_variance(self, main: Replica) -> None:
        """[E24] Set what is added to all variances: a share of those within components."""
        state, p = main.state, main.parameters
        if not isinstance(state, MomentState) or not isinstance(state, RegularisedState):
            return
        if state.prior is not None and self.rule.reg_covar > 0:
            expected, weight, _, smallest = state.prior.rows[:, : p.n_features]
            added = np.where(weight < LOCKED, self.rule.reg_covar * _variances_within(main), 0.0)
            p.kind.set_prior(state.prior, [expected, weight, added, smallest])
            p.kind.set_from_moments(p, state.moments, self._bounds, range(len(p)), state.prior)

    def cross_validated_losses(self, main: Replica, rows: Rows, counts: Any, parts: int = PARTS) -> Any:
        """[E31] Return what each of all rows loses if a fifth of them is left out, (N,); None if that is not known."""
        if self._frame is None or not isinstance(main.state, RegularisedState):
            return None
        samples = self._frame.samples_of_rows(rows).astype(main.parameters.dtype)
        sheet = Sheet(samples, np.where(self._absurd(main, rows), 0.0, 1.0 if counts is None else counts))
        return cross_validated_losses(main.state, main.parameters, sheet, self._bounds, parts)

    def answer(self, main: Replica, context: Context) -> Parameters:
        """Return parameters in the units of the rows, with the variances that components really have."""
        frame = self._frame or Frame.start(self._first.rows, main.parameters.dtype)
        inner, kind = main.parameters.copy(), main.parameters.kind
        if self.answer_into(main, inner):
            bound_means(inner.tensors)
            return inner
        if self._frame is None:  # nothing is learned yet: one Gaussian for all rows
            values = kind.initial(np.zeros_like(inner.means), None, 1.0)
            inner = Parameters(kind, values, np.zeros(len(inner)))
        elif not self.rule.set_covariances(main.state, inner, context):
            # what is not between the means of components is within them
            weights = inner.weights[:, None]
            between = (weights * (inner.means - (weights * inner.means).sum(0)) ** 2).sum(0)
            kind.limit_precisions(inner, 1 / np.maximum(1 - between, 1 / self._bounds.precision_max))
        tensors = kind.reframe(inner.tensors, -frame.shift * frame.unit, 1 / frame.unit)
        kind.fix_features(tensors, ~frame.varies, frame.shift)
        return Parameters(kind, bound_means(tensors).named(), inner.logits)

    def answer_into(self, main: Replica, out: Parameters) -> bool:
        """Set ``out`` to parameters in the units of the rows, if the rule can do so at once."""
        if self._frame is None:
            return False
        return self.rule.answer(main.state, main.parameters, self._frame.values, self._bounds, out)

    @property
    def constants(self) -> npt.NDArray[np.float64] | None:
        """See `Frame.constants`; None if all features vary."""
        return None if self._frame is None or self._frame.varies.all() else self._frame.constants

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return every array by name."""
        first = {"first.rows": self._first.rows, "first.shares": self._first.shares}
        if self._frame is None:
            return first
        frame = {f"frame.{n}": v for n, v in self._frame.tensors().items()}
        return {
            **frame,
            "frame.next_look": np.array(self._next_look),
            "frame.next_update": np.array(self._next_update),
            "frame.every": np.array(self._every),
        }

    def restore(self, tensors: Mapping[str, npt.NDArray[Any]], main: Replica) -> None:
        """Take the state that ``tensors`` describe; raise an exception if they are damaged."""
        own = {n.removeprefix("frame."): v for n, v in tensors.items() if n.startswith("frame.")}
        if own:
            self._next_look, self._next_update = int(own["next_look"]), int(own["next_update"])
            self._every = int(own["every"])
            require_range("frame.next_update", self._next_update, 0)
            require_range("frame.next_look", self._next_look, 0)
            if self._every not in (1, SPARSE):
                raise ValueError(f"frame.every is {self._every}; expected 1 or {SPARSE}")
            if main.frame is None:
                raise ValueError("tensor 'frame' is missing")
            self._frame = Frame.restored(main.frame, own)
        else:
            self._first.restore(tensors["first.rows"], tensors["first.shares"])
            self._wait_longer(main.parameters.n_features)

    def _wait_longer(self, n_features: int) -> None:
        """Restore how many rows the first frame waits for."""
        self._enough = _warm_up(n_features)
        while len(self._first) >= self._enough and self._enough < LONGEST_WARM_UP:
            self._enough = min(2 * self._enough, LONGEST_WARM_UP)


def _warm_up(n_features: int) -> int:
    """Return how many rows make a first frame, if they are not in doubt."""
    return max(SHORTEST_WARM_UP, min(WARM_UP, MANY_NUMBERS // n_features))


def _variances_within(main: Replica) -> npt.NDArray[np.float64]:
    """Return the variance of each feature within components, on average: (D,)."""
    p = main.parameters
    return np.asarray(p.weights @ np.asarray(p.kind.feature_variances(p), np.float64))
