"""Steps of a training: rows in whole batches up to one check after the other, or one by one by prepared steps."""

from __future__ import annotations

from collections.abc import Sequence
from operator import is_
from typing import Any

import numpy as np

from streamgmm.core.batches import Shares
from streamgmm.core.control import Check
from streamgmm.core.covariance import Work
from streamgmm.core.grid import Grid, filters
from streamgmm.core.mixture import Mixture
from streamgmm.core.training_rounds import TrainingRounds
from streamgmm.native import Rows, Samples, Steps, adjacent

NO_CHECKS: Sequence[Check] = ()
FEW_FEATURES = 128  # from so many on, chunks are learned by steps that abandon components early


class TrainingRows(TrainingRounds):
    """The part of a `Trainer` that takes steps.

    For plain rows, one by one or of few features, what stays the same is prepared once, as that takes longer than to
    learn a row.
    """

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
        steps = self._row_steps or self._prepare_rows()
        if not steps:
            return None
        due = steps.learn(row)
        if due < 0:
            return None
        self.refined = self._row_answer_holds = False
        if self._standard is not None:
            self._answer = None
        return [self._check()] if due else NO_CHECKS

    def _learn_plain(self, rows: Rows) -> list[Check] | None:
        """Learn rows that need nothing but prepared steps, and return the checks that fell due.

        Return None, and leave the training as it is, if other steps can or must be taken.
        """
        if self.n_features >= FEW_FEATURES or rows.dtype != self.dtype or not self._prepare_rows():
            return None
        rows, start, checks = adjacent(rows, self.dtype), 0, list[Check]()
        while start < len(rows):
            start, due = (self._row_steps or self._prepare_rows()).learn_rows(rows, start)
            if due:
                checks.append(self._check())
        return checks

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
        """Return prepared steps; None if there are none yet, False if this training can never have any."""
        if self._row_steps is not None or self.warming_up:
            return self._row_steps
        self._row_steps = False
        if self.batch_size == 1 and self.engine.at_once:
            none = self._work(np.empty((0, self.n_features), self.dtype))
            work = none._replace(tally=self._control.tally)
            self._row_steps = self.rule.prepare(self._main.state, self._main.parameters, work) or False
            self._row_steps_use = self._used_by_steps()
        return self._row_steps

    def _used_by_steps(self) -> tuple[Any, ...]:
        every = 1 if self._standard is None else self._standard.every
        return self._main.parameters, self._main.state, self._main.frame, self.sigma, every

    def _renew_steps(self, steps: Any) -> None:
        """Keep prepared steps after a check, if it has changed nothing that they cannot follow."""
        same = all(map(is_, self._row_steps_use, self._used_by_steps()))
        if same and self.rule.renew(self._main.state, steps):
            self._row_steps = steps

    def _learn_batches(
        self, rows: Rows, factor: float, shares: Shares | None, reports: list[Steps] | None
    ) -> list[Check]:
        """Learn whole batches, up to one check after the other; return the checks that fell due."""
        checks, works, start = list[Check](), list[Work](), 0
        try:
            while start < len(rows):
                works = works or self._works(rows[start:], factor, None if shares is None else shares[start:])
                start += len(works[0].samples.rows)
                checks += self._advance(works, reports)
        finally:
            self.engine.rewind(self.rule, self._engine_state)  # unless everything went well, steps may be ahead of us
        return checks

    def _works(self, rows: Rows, factor: float, shares: Shares | None) -> list[Work]:
        """Return the work up to the next check, and the works after it that the engine wants to see."""
        works, start, size = list[Work](), 0, self.batch_size
        wanted = self.engine.looks_ahead(self.rule, self._main, self._engine_state, self._context())
        while not works or start < min(wanted, len(rows)):
            to_check = self.schedule.period - (self._control.samples + start) % self.schedule.period
            stop = start + -(-to_check // size) * size
            some = None if shares is None else shares[start:stop]
            works.append(self._work(rows[start:stop], factor, some, start))
            start = stop
        return works

    def _advance(self, works: list[Work], reports: list[Steps] | None) -> list[Check]:
        """Take the steps of the first work, and remove it from the list; return the check if one fell due.

        A check may change the training: then the others are removed, too.
        """
        work = works.pop(0)
        steps = self.engine.advance(self.rule, self._main, self._engine_state, work, works)
        if reports is not None:
            reports.append(steps)
        checks = [self._check()] if self._control.observe(steps, work.samples.batch_size) else []
        if not self.engine.is_ahead(self._engine_state):
            works.clear()
        return checks

    def _work(self, rows: Rows, factor: float = 1.0, shares: Shares | None = None, ahead: int = 0) -> Work:
        """Return rows to learn that come ``ahead`` samples after those learned, with what stays the same for them."""
        return Work(self._samples(rows, factor, shares, ahead), filters(self.grid, self.sigma), self._bounds)

    def _samples(self, rows: Rows, factor: float = 1.0, shares: Shares | None = None, ahead: int = 0) -> Samples:
        gaps = bool(self.settings.allow_nan)
        typical = self._main.typical_loss if self.parameters.kind.bounds_influence else None
        samples = Samples(rows, self.batch_size, factor, gaps, shares, typical)
        if self._standard is None:
            return samples
        turn = self._standard.turn((self._control.samples + ahead) // self.batch_size)
        return samples._replace(frame=self._main.frame, turn=turn)
