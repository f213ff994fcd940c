"""What ``fit`` does with its rows: passes, refinement, and warnings about the result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.passes import can_refine_all, plan_passes, rows_to_sample
from streamgmm.core.trainer import Trainer
from streamgmm.engines.workers import ClusterEngine
from streamgmm.estimators.passes import learner
from streamgmm.estimators.validation import warn_of_damped_rows, warn_of_few_rows, warn_of_few_samples
from streamgmm.estimators.weights import Repeats, Weights, repeated
from streamgmm.progress import live_line


class FitOptions(NamedTuple):
    """Number of passes, whether each takes the rows in random order, whether to show progress, and where to learn."""

    n_epochs: int | str
    shuffle: bool
    verbose: bool
    engine: ClusterEngine | None = None


def fit_rows(trainer: Trainer, rows: npt.NDArray[Any], weights: Weights | None, options: FitOptions) -> None:
    """Make all passes over rows, and refine the result on all or some of them; warn if it may not be relied on."""
    length = len(rows) if weights is None else len(Repeats(weights))
    epochs, sampled = plan_passes(
        options.n_epochs, trainer.settings, trainer.schedule.period, length, trainer.n_numbers
    )
    with live_line("fit", length * epochs, enabled=options.verbose) as show:
        with learner(trainer, rows, weights, options.engine) as one_pass:
            for epoch in range(epochs):
                for done, checks in one_pass(epoch, trainer.rng if options.shuffle else None):
                    show(epoch * length + done, checks[-1] if checks else None)
                if epoch == 0 and epochs > 1:
                    trainer.end_pass()
                if epoch + 1 < epochs:
                    trainer.forget_glitches(epoch + 1)
                if sampled and epoch + 1 < epochs and _refine_on(trainer, rows, weights, sampled):
                    sampled = 0
        trainer.flush()
        few = (
            trainer.settings.kind.couples_features
            and epochs > 1
            and rows_to_sample(length, trainer.n_numbers) == length
        )
        refined = few or (options.n_epochs == "auto" and can_refine_all(length, trainer.n_numbers))
        refined = refined and _refine_on(trainer, rows, weights, length)
        show(length * epochs, trainer.current())
    if len(rows) < trainer.n_components:
        warn_of_few_rows(len(rows), trainer.n_components)
    elif trainer.settings.annealing and not (trainer.finished or refined):
        warn_of_few_samples(trainer, epochs, length)
    if not refined:
        warn_of_damped_rows(trainer)


def _refine_on(trainer: Trainer, rows: npt.NDArray[Any], weights: Weights | None, count: int) -> bool:
    """Refine the model on so many of the rows, drawn at random; return whether that was possible."""
    if not (trainer.settings.refinable and trainer.annealed):
        return False
    every, shares = repeated(rows, weights)
    if count < len(every):
        chosen = np.sort(trainer.rng.choice(len(every), count, replace=False))
        every, shares = every[chosen], None if shares is None else shares[chosen]
    return trainer.refine(every.astype(np.float64), shares)
