"""What ``fit`` does with its rows: passes, refinement, and warnings about the result."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.passes import passes_for, rows_to_refine
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
    kind = trainer.settings.kind
    # one pass after the other hardly leads full covariances out of a poor maximum: EM on a sample of the rows does
    n_refined = rows_to_refine(length, trainer.n_numbers, sample=kind.couples_features and trainer.refinable)
    epochs = passes_for(
        options.n_epochs, kind.patience * trainer.schedule.period, length, 0 if n_refined else trainer.n_numbers
    )
    with live_line("fit", length * epochs, enabled=options.verbose) as show:
        with learner(trainer, rows, weights, options.engine) as one_pass:
            for epoch in range(epochs):
                for done, checks in one_pass(epoch, trainer.rng if options.shuffle else None):
                    show(epoch * length + done, checks[-1] if checks else None)
                if epoch == 0 and epochs > 1:
                    trainer.end_pass()
        trainer.flush()
        refined = options.n_epochs == "auto" and n_refined > 0
        if refined:
            every, shares = repeated(rows, weights)
            if n_refined < len(every):
                chosen = np.sort(trainer.rng.choice(len(every), n_refined, replace=False))
                every, shares = every[chosen], None if shares is None else shares[chosen]
            refined = trainer.refine(every.astype(np.float64), shares)
        show(length * epochs, trainer.current())
    if len(rows) < trainer.n_components:
        warn_of_few_rows(len(rows), trainer.n_components)
    elif trainer.settings.annealing and not trainer.finished:
        warn_of_few_samples(trainer, epochs, length)
    if not refined:
        warn_of_damped_rows(trainer)
