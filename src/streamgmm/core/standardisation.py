"""Learning raw data: rows become samples of a common scale, and answers come back in the units of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.batches import PartialBatch, Shares
from streamgmm.core.control import Control
from streamgmm.core.covariance import Bounds
from streamgmm.core.engine import Replica
from streamgmm.core.frame import Frame, Move
from streamgmm.core.parameters import Parameters, logits_of
from streamgmm.core.rules import Rule
from streamgmm.native import Rows

WARM_UP = 200  # rows that are kept until the first frame is known
BOUNDS = Bounds(1e-5, 1e5)  # of scales, in deviations of a feature
LONGEST = 1000  # samples between two looks at the frame
HELD_PRECISION = 20.0  # of samples, while the annealing is wide


class Standardisation:
    """The first rows of a training, its frame, and the way back to the units of the rows.

    Parameters
    ----------
    n_features : int
        Width of a row.
    dtype : dtype
        Float type of the training.
    precision_max : float or None, default=None
        Largest precision of a feature, in the units of the rows.
    """

    def __init__(self, n_features: int, dtype: np.dtype[Any], precision_max: float | None = None) -> None:
        self._smallest = 0.0 if precision_max is None else 1 / precision_max
        self._first = PartialBatch(n_features, dtype, WARM_UP)
        self._frame: Frame | None = None
        self._next_update = 0  # samples at which the frame is looked at again

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

    def take(self, rows: Rows, factor: float, shares: Shares | None) -> int:
        """Keep rows until there are enough for a frame; return how many were taken."""
        return self._first.add(rows, factor, shares)

    @property
    def ready(self) -> bool:
        """Whether there are enough rows for a frame."""
        return len(self._first) == WARM_UP

    def begin(self, main: Replica, given: Mapping[str, npt.NDArray[Any]]) -> tuple[Rows, Shares]:
        """Take the first frame from the first rows, and given parameters into it; return the rows, to be learned."""
        rows, shares = self._first.rows.copy(), self._first.shares.copy()
        self._first.clear()
        self._frame = Frame.start(rows, main.parameters.dtype)
        main.frame = self._frame.values
        self._cap(main)
        if given:
            self._start_from(main, given)
        return rows, shares

    def _start_from(self, main: Replica, given: Mapping[str, npt.NDArray[Any]]) -> None:
        """Start from weights, means and precisions in the units of the rows."""
        assert self._frame is not None
        old, kind, unit = main.parameters, main.parameters.kind, self._frame.values[1].astype(np.float64)
        means = self._frame.samples_of_rows(given["means"]) if "means" in given else old.means
        precisions = kind.precisions(old)
        if "precisions" in given:
            kind.initial(given.get("means", old.means), given["precisions"], HELD_PRECISION)  # raises if unfit
            precisions = given["precisions"] / unit**2
        logits = logits_of(given["weights"]) if "weights" in given else old.logits
        values = kind.initial(np.asarray(means, old.dtype), precisions, HELD_PRECISION)
        main.parameters = Parameters(kind, values, logits)
        state: Any = main.state
        if hasattr(state, "moments"):
            state.moments = kind.start_moments(main.parameters)
        if hasattr(state, "weights"):
            state.weights = main.parameters.weights

    def _cap(self, main: Replica) -> None:
        """Express the smallest variance in the units of samples."""
        scale = getattr(main.state, "prior_scale", None)
        if self._smallest and scale is not None and self._frame is not None:
            main.parameters.kind.cap_prior(scale, self._smallest * self._frame.values[1].astype(np.float64) ** 2)

    def update(self, main: Replica, control: Control, rule: Rule[Any]) -> None:
        """End a period: move the frame where it no longer fits, and all parameters with it.

        The longer the training, the rarer it is looked at, but at least every ``LONGEST`` samples.
        """
        if self._frame is None or control.samples < self._next_update:
            return
        assert main.frame is not None
        self._next_update = control.samples + min(LONGEST, control.samples // 10)
        self._frame.values = main.frame
        before = self._frame.log_volume
        move = self._frame.update(2 * rule.memory)
        if move is None:
            return
        self._apply(main, move, rule)
        gained = before - self._frame.log_volume
        control.shift_losses(gained)
        main.typical_loss[1] += gained

    def _apply(self, main: Replica, move: Move, rule: Rule[Any]) -> None:
        old, kind = main.parameters, main.parameters.kind
        tensors = kind.reframe(old.tensors, move.shift, move.factor)
        state = main.state.map_tensors(lambda t: kind.reframe(t, move.shift, move.factor))
        if move.fresh.any():
            kind.forget_features(tensors, move.fresh)
            state = state.map_tensors(lambda t: kind.forget_features(t, move.fresh))
            rule.on_new_features(state)
        values = tensors.named()
        if rule.holds_scales(main.state):  # scales are a choice then, not an estimate
            values = kind.initial(tensors["means"], None, HELD_PRECISION)
        main.parameters, main.state = Parameters(kind, values, old.logits), state
        self._cap(main)

    def refine(self, main: Replica, rows: Rows, counts: npt.NDArray[np.float64] | None, rule: Rule[Any]) -> bool:
        """Iterate EM on rows that are all at hand; return whether the rule can."""
        if self._frame is None:
            return False
        samples = self._frame.samples_of_rows(rows)
        samples[:, ~self._frame.varies] = 0.0
        return rule.refine(main.state, main.parameters, samples, counts, BOUNDS)

    def answer(self, main: Replica, rule: Rule[Any]) -> Parameters:
        """Return parameters in the units of the rows, with the variances that components really have."""
        frame = self._frame or Frame.start(self._first.rows, main.parameters.dtype)
        inner, kind = main.parameters.copy(), main.parameters.kind
        if self._frame is None:  # nothing is learned yet: one Gaussian for all rows
            values = kind.initial(np.zeros_like(inner.means), None, 1.0)
            inner = Parameters(kind, values, np.zeros(len(inner)))
        else:
            rule.set_covariances(main.state, inner, BOUNDS)
        shift, unit = frame.values[:2].astype(np.float64)
        tensors = kind.reframe(inner.tensors, -shift * unit, 1 / unit)
        kind.fix_features(tensors, ~frame.varies, shift)
        return Parameters(kind, tensors.named(), inner.logits)

    def tensors(self) -> dict[str, npt.NDArray[Any]]:
        """Return every array by name."""
        first = {"first.rows": self._first.rows, "first.shares": self._first.shares}
        if self._frame is None:
            return first
        frame = {f"frame.{n}": v for n, v in self._frame.tensors().items()}
        return {**frame, "frame.next_update": np.array(self._next_update)}

    def restore(self, tensors: Mapping[str, npt.NDArray[Any]], main: Replica) -> None:
        """Take the state that ``tensors`` describe; raise an exception if they are damaged."""
        own = {n.removeprefix("frame."): v for n, v in tensors.items() if n.startswith("frame.")}
        if own:
            self._next_update = int(own["next_update"])
            self._frame = Frame.from_tensors(own)
            main.frame = self._frame.values
        else:
            self._first.restore(tensors["first.rows"], tensors["first.shares"])
