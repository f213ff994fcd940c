"""What ``fit`` does with images in memory: as many passes as the levels need."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from streamgmm.core.passes import PERIODS, passes_for
from streamgmm.estimators.fitting import FitOptions
from streamgmm.layers.stack import Stack
from streamgmm.progress import live_line


def fit_images(stack: Stack, rows: npt.NDArray[Any], options: FitOptions) -> None:
    """Make all passes over images; with ``"auto"``, as many as it takes for each level after the other."""
    shape = stack.levels[0].stage.shape
    epochs = passes_for(options.n_epochs, -(-_images_needed(stack) // PERIODS), len(rows))
    rng = stack.levels[0].trainers[0].rng
    with live_line("fit", len(rows) * epochs, enabled=options.verbose) as show:
        for epoch in range(epochs):
            order = rng.permutation(len(rows)) if options.shuffle else np.arange(len(rows))
            for start, stop in stack.blocks(len(rows)):
                stack.feed(rows[order[start:stop]].reshape(-1, *shape))
                show(epoch * len(rows) + stop, None)
        stack.flush()
    if not stack.levels[-1].begun:
        warnings.warn(
            f"the top layer has not begun after {epochs} passes over {len(rows)} images. "
            "Raise n_epochs, or provide more images.",
            ConvergenceWarning,
            stacklevel=3,
        )


def _images_needed(stack: Stack) -> int:
    """Images after which every level has had the samples that it needs, each after the one below."""
    total = 0
    for level in stack.levels:
        samples = PERIODS * level.trainers[0].schedule.period
        total += -(-samples // (level.stage.n_positions if level.stage.fold.shared else 1)) + stack.block
    return total
