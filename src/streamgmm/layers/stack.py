"""Stack: levels that learn from one stream, the upper ones from what the lower ones make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.trainer import Trainer
from streamgmm.engines import engine_for, thread_count
from streamgmm.estimators.validation import seed_of
from streamgmm.layers.fold import Images
from streamgmm.layers.level import Level
from streamgmm.layers.stages import Stage, block_size


class Stack:
    """Levels, and the images that wait until a block is complete.

    The lowest level learns every image at once. At the end of each block of images, every upper level learns the block
    as the level below it sees it by then, once that level has annealed. Blocks are counted from the first image, so
    that the chunks of the stream change nothing.

    Parameters
    ----------
    levels : list of Level
        The levels, lowest first.
    waiting : array of shape (n, height, width, channels)
        Images of an incomplete block.
    n_images : int, default=0
        Images learned so far.
    """

    def __init__(self, levels: list[Level], waiting: Images, n_images: int = 0) -> None:
        self.levels, self.waiting, self.n_images = levels, waiting, n_images
        self.block = block_size([level.stage for level in levels])

    def feed(self, images: Images) -> None:
        """Learn from images in their order."""
        while len(images):
            some = images[: self.block - len(self.waiting)]
            self.levels[0].learn(some)
            self.n_images += len(some)
            images = images[len(some) :]
            if len(self.levels) > 1:
                self.waiting = np.concatenate([self.waiting, some]) if len(self.waiting) else some.copy()
                if len(self.waiting) == self.block:
                    self._lift()

    def flush(self) -> None:
        """End the data: learn from an incomplete block, and let every level learn what it holds back."""
        if len(self.waiting):
            self._lift()
        for level in self.levels:
            if level.begun:
                for trainer in level.trainers:
                    trainer.flush()

    def _lift(self) -> None:
        """Let the upper levels learn the images that wait."""
        images, self.waiting = self.waiting, self.waiting[:0]
        for lower, upper in pairwise(self.levels):
            if not (upper.begun or lower.annealed):
                return
            lower.settle()
            images = lower.responsibilities(images)
            upper.learn(images)

    def settle(self) -> None:
        """Make all parameters show everything learned so far."""
        for level in self.levels:
            level.settle()

    def below(self, images: Images, number: int) -> Images:
        """Return what level ``number`` sees of images: those of the responsibilities below it."""
        for level in self.levels[:number]:
            images = level.responsibilities(images)
        return images

    def ask(self, images: Images, question: Callable[[Images], npt.NDArray[Any]]) -> npt.NDArray[Any]:
        """Answer a question about images, a block at a time."""
        return np.concatenate([question(images[start:stop]) for start, stop in self.blocks(len(images))])

    def blocks(self, count: int) -> Iterator[tuple[int, int]]:
        """Cut so many images into blocks."""
        for start in range(0, count, self.block):
            yield start, min(count, start + self.block)


def start_stack(
    stages: Sequence[Stage], dtype: np.dtype[Any], seed: int | None, precision_max: float | None = None
) -> Stack:
    """Return a stack at the start of its training; upper levels, whose rows are within [0, 1], use float32.

    ``precision_max`` is for pixels of the lowest level, unless its mixture has a limit of its own.

    A mixture with a random state of its own uses that. Without it, the lowest one uses the seed of the stack, as a
    plain estimator would, and the others numbers that follow from it.
    """
    levels = []
    for number, stage in enumerate(stages):
        own = seed_of(stage.mixture.random_state)
        first = seed if own is None else own
        above = number if own is None else 0
        engine = engine_for(thread_count(stage.mixture.n_jobs))
        trainers = [
            Trainer(
                stage.settings(precision_max if number == 0 else None),
                stage.n_features,
                dtype if number == 0 else np.float32,
                engine=engine,
                seed=None if first is None else [first, above, place] if above or place else first,
            )
            for place in range(1 if stage.fold.shared else stage.n_positions)
        ]
        levels.append(Level(stage, trainers))
    return Stack(levels, np.empty((0, *stages[0].shape), dtype))
