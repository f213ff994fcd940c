"""Single rows: what stays the same until the next check is prepared once, because it takes longer than to learn one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from streamgmm.core.batches import Shares
from streamgmm.core.control import Check
from streamgmm.core.covariance import Work
from streamgmm.core.grid import Grid, filters
from streamgmm.core.mixture import Mixture
from streamgmm.core.training_rounds import TrainingRounds
from streamgmm.native import Rows, Samples

NO_CHECKS: Sequence[Check] = ()


class TrainingRows(TrainingRounds):
    """The part of a `Trainer` that learns plain rows one by one."""

    grid: Grid
    refined: bool

    def feed_row(self, row: Any) -> Sequence[Check] | None:
        """Learn one plain row as ``feed`` does, to the last bit, and return the check that fell due, if any.

        Return None, and leave the training as it is, if the row needs ``feed``: it is not an array (1, D) of the
        trainer's float type, or cannot be learned; or the training takes several rows a step, or waits for its first
        frame.

        Parameters
        ----------
        row : array of shape (1, D)
            The row.
        """
        steps = self._row_steps
        if not steps:
            if steps is not None or self.warming_up:
                return None
            steps = self._row_steps = self._prepare_rows() or False
            if not steps:
                return None
        left = steps.learn(row)
        if left < 0:
            return None
        self.refined = self._row_answer_holds = False
        if self._standard is not None:
            self._answer = None
        return NO_CHECKS if left else [self._check()]

    def score_row(self, row: Any) -> tuple[float, float, int] | None:
        """Return log-likelihood, score of the best component and its number for one plain row, as ``mixture`` does.

        Return None if the row needs ``mixture``; see ``feed_row``.

        Parameters
        ----------
        row : array of shape (1, D)
            The row.
        """
        return self._mixture_for_rows().score_row(row, bool(self.settings.allow_nan))

    def _mixture_for_rows(self) -> Mixture:
        if self._answer is not None:
            return self._answer
        standard, kept = self._standard, self._row_answer
        if standard is None or self.warming_up:
            return self.mixture
        if kept is None:
            kept = self._row_answer = Mixture.view(standard.answer(self._main, self._context()), standard.constants)
        elif not self._row_answer_holds and not standard.answer_into(self._main, kept._parameters):
            return self.mixture
        self._row_answer_holds = True
        return kept

    def _prepare_rows(self) -> Any:
        """Return prepared steps; None if this training can never have any."""
        if self.batch_size > 1 or not self.engine.at_once:
            return None
        none = self._samples(np.empty((0, self.n_features), self.dtype))
        work = Work(none, filters(self.grid, self.sigma), self._bounds, self._control.tally)
        return self.rule.prepare(self._main.state, self._main.parameters, work)

    def _samples(self, rows: Rows, factor: float = 1.0, shares: Shares | None = None) -> Samples:
        gaps = bool(self.settings.allow_nan)
        typical = self._main.typical_loss if self.parameters.kind.bounds_influence else None
        samples = Samples(rows, self.batch_size, factor, gaps, shares, typical)
        if self._standard is None:
            return samples
        turn = self._standard.turn(self._control.samples // self.batch_size)
        return samples._replace(frame=self._main.frame, turn=turn)
