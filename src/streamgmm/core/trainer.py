"""The trainer: samples in, parameters and checks out.

Every chunk is cut at the next check, so the kernel runs with a fixed filter and rate, and the control runs once per
period. Feeding the same stream in any chunking gives bit-identical parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.batches import PartialBatch, Shares
from streamgmm.core.control import Check, Control
from streamgmm.core.engine import Engine, Replica
from streamgmm.core.grid import Grid
from streamgmm.core.parameters import Parameters
from streamgmm.core.rows import rows_with_values
from streamgmm.core.rules import Context, Rule
from streamgmm.core.settings import DEFAULT_CAP, Settings
from streamgmm.core.standardisation import Standardisation, bounds_of_samples
from streamgmm.core.state import Named
from streamgmm.core.tensors import Tensors
from streamgmm.core.training_rows import TrainingRows
from streamgmm.native import TYPICAL_NUMBERS, Rows, Steps

NO_INITS: dict[str, Any] = {"weights_init": None, "means_init": None, "precisions_init": None}
GLITCHES = 2  # extreme rows of each pass that are not learned, however often they come again
ROOM = 3  # place of the room among the numbers of a typical loss
REHEATED = 0.2  # width after a drift, as a share of the widest


class Trainer(TrainingRows):
    """Trains a mixture, one chunk at a time.

    Parameters
    ----------
    settings : Settings
        How to train.
    n_features : int
        Width of a sample.
    dtype : dtype, default=float64
        float32 or float64: what parameters are computed in.
    engine : Engine
        Where the steps run.
    seed : int, sequence of int, Generator or None, default=None
        Randomness of the start and of restarts.

    Attributes
    ----------
    settings, engine, rule, grid, schedule
        What the training was started with.
    n_skipped : int
        Rows skipped because they held nothing but NaN.
    refined : bool
        Whether EM on all rows was the last thing that changed the model.

    Examples
    --------
    >>> from streamgmm.engines import Serial
    >>> trainer = Trainer(Settings(n_components=4), 3, engine=Serial(), seed=0)
    >>> checks = trainer.feed(np.random.default_rng(0).random((500, 3)))
    >>> trainer.n_samples, checks[0].samples
    (500, 50)
    """

    def __init__(
        self,
        settings: Settings,
        n_features: int,
        dtype: npt.DTypeLike = np.float64,
        *,
        engine: Engine,
        seed: Any = None,
    ) -> None:
        settings.check()
        self.settings, self.engine = settings, engine
        self.rule: Rule[Any] = settings.make_rule()
        self.grid: Grid = settings.make_grid()
        self.rng = np.random.default_rng(seed)
        schedule = settings.make_schedule(self.rule, engine)
        self._control = Control(schedule, int(settings.n_components))
        auto = settings.scale == "auto"
        self._standard: Standardisation | None = None
        self._bounds = settings.kind.bounds(float(settings.precision_max or DEFAULT_CAP))
        if auto:
            self._standard = Standardisation(n_features, np.dtype(dtype), self.rule, settings.precision_max)
            self._bounds = bounds_of_samples(self.rule)
        parameters = settings.make_parameters(n_features, np.dtype(dtype), self.rng)
        parameters.kind.clip(parameters, self._bounds)
        typical = np.zeros(TYPICAL_NUMBERS)
        typical[3] = 1.0 if auto else 0.0  # whether rows that keep coming get room
        self._main = Replica(parameters, self.rule.start(parameters, self._context()), typical)
        self._engine_state = engine.start()
        self._pending = PartialBatch(n_features, parameters.dtype, self.batch_size)
        self.n_skipped = 0
        self.refined = False

    # Learning

    def feed(
        self,
        x: npt.ArrayLike,
        factor: float = 1.0,
        *,
        shares: Shares | None = None,
        reports: list[Steps] | None = None,
        more: bool = False,
    ) -> list[Check]:
        """Learn from rows and return the checks that fell due; the rest of a batch stays pending.

        Parameters
        ----------
        x : array-like of shape (N, D)
            Samples. Bytes need no copy as floats: the kernel reads them as they are, times ``factor``.
        factor : float, default=1.0
            Factor for bytes.
        shares : array of shape (N,) or None, default=None
            How much each row counts, within (0, 1].
        reports : list or None, default=None
            Receives what the rule reports of its steps; those of rows that waited for the first frame are left out.
        more : bool, default=False
            Whether another call follows. If True, parameters may lag until ``settle``, which saves merges.
        """
        rows: Rows = np.asarray(x)
        if rows.ndim != 2 or rows.shape[1] != self.n_features:
            raise ValueError(f"samples have shape {rows.shape}; expected (samples, {self.n_features}).")
        if rows.dtype != np.uint8:
            rows, factor = rows.astype(self.dtype, copy=False), 1.0
            rows, shares = self._skip_empty(rows, shares)
        self._forget()
        if self._standard is not None and self._standard.warming_up:
            taken = self._standard.take(rows, factor, shares)
            if not self._standard.ready:
                return []
            checks = self._learn_first_rows()
            rest = None if shares is None else shares[taken:]
            return [*checks, *self._learn(rows[taken:], factor, rest, reports, more)]
        return self._learn(rows, factor, shares, reports, more)

    def _learn_first_rows(self) -> list[Check]:
        """Take the first frame from the rows that wait for it, if there are any, and learn them."""
        if self._standard is None or not len(self._standard):
            return []
        rows, shares = self._standard.begin(self._main, self.settings.given_parameters(self.n_features))
        return self._learn(rows, 1.0, shares, None, more=True)

    def _learn(
        self, rows: Rows, factor: float, shares: Shares | None, reports: list[Steps] | None, more: bool
    ) -> list[Check]:
        checks: list[Check] = []
        start, self.refined = 0, False
        if len(self._pending):
            start = self._pending.add(rows, factor, shares)
            if len(self._pending) < self.batch_size:
                if not more:
                    self.settle()
                return checks
            checks += self._advance([self._work(self._pending.rows, shares=self._pending.shares)], reports)
            self._pending.clear()
        whole = len(rows) - (len(rows) - start) % self.batch_size
        if shares is None and reports is None and (plain := self._learn_plain(rows[start:whole])) is not None:
            checks += plain
            start = whole
        checks += self._learn_batches(
            rows[start:whole], factor, None if shares is None else shares[start:whole], reports
        )
        self._pending.add(rows[whole:], factor, None if shares is None else shares[whole:])
        if not more:
            self.settle()
        return checks

    def settle(self) -> None:
        """Make the parameters show everything learned so far."""
        self._forget()
        self.engine.settle(self.rule, self._main, self._engine_state, self._bounds)

    def flush(self) -> list[Check]:
        """End the data: learn from an incomplete batch as one smaller step, and from what the rule holds back."""
        checks = self._learn_first_rows() + self._learn_pending()
        self.end_pass()
        return checks

    def _learn_pending(self) -> list[Check]:
        """Learn from an incomplete batch as one smaller step."""
        rows, checks = self._pending.rows, list[Check]()
        if len(rows):
            work = self._work(rows, shares=self._pending.shares)
            checks = self._advance([work._replace(samples=work.samples._replace(batch_size=len(rows)))], None)
        self._pending.clear()
        return checks

    def refine(self, rows: Rows, counts: npt.NDArray[np.float64] | None = None) -> bool:
        """Refine the model by EM on rows that were learned; return whether that was possible.

        Parameters
        ----------
        rows : array of shape (N, D)
            The rows that were learned.
        counts : array of shape (N,) or None, default=None
            How often each counts.
        """
        self._end_round()
        if self._standard is None or not self.settings.refinable or not self.annealed:
            return False
        self.refined = self._standard.refine(self._main, self._control, rows, counts)
        return self.refined

    def forget_glitches(self, passes: int) -> None:
        """End a pass over rows that come again: a row or two that are extreme in each pass are no reason to learn them.

        Parameters
        ----------
        passes : int
            How many passes there were.
        """
        if self.settings.scale == "auto":
            self._end_round()
            typical = self._main.typical_loss
            if self.n_damped <= GLITCHES * passes:
                typical[ROOM] = min(typical[ROOM], 1.0)

    def end_pass(self) -> list[Check]:
        """End a pass that another one follows: what the rule has gathered becomes the model.

        There are no more rows than those of the pass, so a frame that waits for more comes from them. Return the checks
        that fell due.
        """
        checks = self._learn_first_rows()
        self._end_round()
        self.rule.flush(self._main.state, self.parameters, self._context())
        return checks

    def _skip_empty(self, rows: Rows, shares: Shares | None) -> tuple[Rows, Shares | None]:
        """Drop rows that hold nothing but NaN, and count them."""
        if not self.settings.allow_nan or (known := rows_with_values(rows)).all():
            return rows, shares
        self.n_skipped += len(rows) - int(known.sum())
        return rows[known], None if shares is None else shares[known]

    def _check(self) -> Check:
        steps = self._row_steps
        self._forget()
        shrunk = self._control.begin_check()
        context, moved = self._context(shrunk), False
        if not self.engine.skips_check(self.rule, self._main, self._engine_state, context):
            self._end_round()
            moved = self._check_rule(context)
        changed = self._control.detect_drift(moved)
        if changed:
            self._end_round()
            self._respond_to_drift()
        if steps:
            self._renew_steps(steps)
        return self._control.check(self.learning_rate, shrunk, changed, self._offset)

    def _check_rule(self, context: Context) -> bool:
        """Let the rule end a period, and look at the frame; return whether components have moved."""
        moved = self.rule.check(self._main.state, self.parameters, context)
        if self._standard is not None:
            self._standard.update(self._main, self._control)
        return moved

    def _respond_to_drift(self) -> None:
        if not self.settings.reheat:
            self.rule.on_drift(self._main.state, self.parameters, self._context())
            return
        sigma = self.schedule.sigma_min
        if self.rule.anneals and self.settings.annealing:
            sigma = min(REHEATED * self.grid.widest, self.schedule.sigma_init)
        self._control.reheat(sigma)
        self.rule.reheat(self._main.state, self.parameters, self._context())

    def _end_round(self) -> None:
        self._forget()
        self.engine.end_round(self.rule, self._main, self._engine_state, self._bounds)

    def _context(self, shrunk: bool = False) -> Context:
        control = self._control
        auto = self._standard is not None
        return Context(control.samples, control.sigma, control.schedule, self._bounds, self.rng, shrunk, auto)

    def adapt(self, *, half_life: float | None, reheat: bool) -> None:
        """Change how the training follows its stream from now on; what it has learned stays.

        Parameters
        ----------
        half_life : float or None
            Half-life of past data, in samples; None forgets nothing.
        reheat : bool
            Whether to widen the annealing again on drift.
        """
        settings = replace(self.settings, half_life=half_life, reheat=reheat)
        settings.check()
        self._end_round()
        self.settings, self.rule = settings, settings.make_rule()
        if self._standard is not None:
            self._standard.rule = self.rule

    # Size

    def resize(self, components: npt.ArrayLike) -> None:
        """Keep only the given components, in this order; a number may appear more than once.

        Parameters and the rule's state follow, and the grid is laid out anew; the schedule stays. A component that
        appears twice shares its weight between the copies.

        Parameters
        ----------
        components : array-like of int
            Numbers of the components to keep.
        """
        chosen = np.asarray(components, dtype=np.int64)
        if chosen.ndim != 1 or not len(chosen) or chosen.min() < 0 or chosen.max() >= self.n_components:
            raise ValueError(f"components are {components!r}; expected numbers from 0 to {self.n_components - 1}.")
        self._end_round()
        main = self._main
        self._main = Replica(main.parameters.select(chosen), main.state.select(chosen), main.typical_loss, main.frame)
        self.settings = replace(self._without_inits(), n_components=len(chosen))
        self.grid = self.settings.make_grid()
        self._control.select(chosen)
        self.refined = False

    def add_features(self, count: int) -> list[Check]:
        """Widen the model by features that it has never seen; they start like all others did.

        Samples of an incomplete batch are learned first, as one smaller step; return the checks that fell due.

        Parameters
        ----------
        count : int
            Number of new features, which come after those there are.
        """
        checks = self._learn_pending()
        self._end_round()
        old = self.parameters
        means = self.rng.uniform(-self.settings.mean_range, self.settings.mean_range, (len(old), count))

        def widen(tensors: Tensors) -> Tensors:
            return old.kind.widen(tensors, means, self._bounds)

        wider = Parameters(old.kind, widen(old.tensors).named(), old.logits)
        self._main = Replica(wider, self._main.state.map_tensors(widen), self._main.typical_loss, self._main.frame)
        self.rule.on_new_features(self._main.state)
        if self._standard is not None:
            self._standard.widen(count, self._main)
        self._pending = PartialBatch(wider.n_features, old.dtype, self.batch_size)
        self.settings, self.refined = self._without_inits(), False
        return checks

    def _without_inits(self) -> Settings:
        """Initial arrays have the shape that the model had at the start."""
        return replace(self.settings, **NO_INITS)

    # State in and out

    def facts(self) -> dict[str, Any]:
        """Return everything but tensors as plain data: with ``tensors`` it restores the training to the last bit."""
        return {
            "n_features": self.n_features,
            "dtype": self.dtype.name,
            "settings": self.settings.facts(),
            **self._control.facts(),
            "rng": self.rng.bit_generator.state,
            "n_skipped": self.n_skipped,
        }

    def tensors(self) -> Named:
        """Return every array of the training by name."""
        return {
            **self._main.named(),
            **{f"engine.{name}": value for name, value in self.engine.named(self._engine_state).items()},
            **{f"settings.{name}": value for name, value in self.settings.arrays().items()},
            "pending.rows": self._pending.rows,
            "pending.shares": self._pending.shares,
            **self._control.tensors(),
            **({} if self._standard is None else self._standard.tensors()),
        }

    @classmethod
    def restore(cls, facts: Mapping[str, Any], tensors: Mapping[str, npt.NDArray[Any]], engine: Engine) -> Trainer:
        """Return the trainer that ``facts`` and ``tensors`` describe; raise an exception if they are damaged."""
        given = {n.removeprefix("settings."): v for n, v in tensors.items() if n.startswith("settings.")}
        settings = Settings.from_facts(facts["settings"], given)
        template = replace(settings, **NO_INITS)
        self = cls(template, int(facts["n_features"]), facts["dtype"], engine=engine, seed=0)
        settings.given_parameters(self.n_features)  # raises if they do not fit
        self.settings = settings
        self._control = Control.restore(facts, tensors, self.n_components)
        self.n_skipped = int(facts["n_skipped"])
        self._main, self._engine_state = self._restored_replicas(tensors)
        if self._standard is not None:
            self._standard.restore(tensors, self._main)
        self._pending.restore(tensors["pending.rows"], tensors["pending.shares"])
        self.rng.bit_generator.state = facts["rng"]
        return self
