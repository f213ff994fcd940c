"""The plan of a stack: which rows each mixture sees, and the shapes that follow from it."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import Any, NamedTuple

from streamgmm.core.rows import PIECE_BYTES
from streamgmm.core.settings import Settings
from streamgmm.estimators.mixture import StreamingGaussianMixture
from streamgmm.layers.fold import Fold, Images, ImageShape, Pool

MOST_IMAGES = 100  # of a block, at whose end upper layers learn


class Stage(NamedTuple):
    """One mixture, and how its rows are cut from the images below it.

    ``shape`` is that of these images, ``pooled`` that after pooling. ``positions`` counts the patches down and across.
    """

    pools: tuple[Pool, ...]
    fold: Fold
    mixture: StreamingGaussianMixture
    shape: ImageShape
    pooled: ImageShape
    positions: tuple[int, int]
    n_features: int

    @property
    def n_positions(self) -> int:
        """Patches of an image."""
        return self.positions[0] * self.positions[1]

    @property
    def n_components(self) -> int:
        """Components of the mixture: channels of the image that it makes."""
        return int(self.mixture.n_components)

    @property
    def overlap(self) -> float:
        """How many patches see a pixel, on average."""
        return self.n_positions * self.n_features / (self.pooled[0] * self.pooled[1] * self.pooled[2])

    @property
    def overlaps(self) -> bool:
        """Whether patches share pixels."""
        return self.overlap > 1

    def rows(self, images: Images) -> Images:
        """Return the rows (N, down, across, features) of images."""
        for pool in self.pools:
            images = pool.pool(images)
        return self.fold.fold(images)

    def unfold(self, rows: Images, weights: Images | None = None) -> Images:
        """Return pooled images from rows; where patches overlap, they are averaged."""
        return self.fold.unfold(rows, self.pooled, weights)

    def unpool(self, pooled: Images) -> Images:
        """Return images of the shape below from pooled ones."""
        for pool in reversed(self.pools):
            pooled = pool.unpool(pooled)
        return pooled

    def settings(self, precision_max: float | None = None) -> Settings:
        """Return how to train the mixture, with a largest precision if it has none of its own.

        Patches of an image are alike, so a check waits for more of them.
        """
        names = Settings.__dataclass_fields__
        values: dict[str, Any] = {name: getattr(self.mixture, name) for name in names}
        if values["precision_max"] is None:
            values["precision_max"] = precision_max
        settings = Settings(**values)
        settings.check()
        if self.fold.shared and settings.period is None and self.n_positions > 1:
            period = sqrt(self.n_positions) * settings.make_rule().period(settings.n_components)
            values["period"] = round(period)
        return Settings(**values)


def plan(layers: Sequence[Any], shape: Sequence[int]) -> list[Stage]:
    """Return the stages of a stack for images of a shape; raise ValueError for layers that do not fit together."""
    inner, stages, pools = _image_shape(shape), list[Stage](), list[Pool]()
    below, fold = inner, None
    for number, layer in enumerate(layers):
        if isinstance(layer, Pool) and fold is None:
            pools.append(layer)
            inner = layer.output_shape(inner)
        elif isinstance(layer, Fold) and fold is None:
            fold = layer
        elif isinstance(layer, StreamingGaussianMixture) and fold is not None:
            down, across, features = fold.output_shape(inner)
            stages.append(Stage(tuple(pools), fold, layer, below, inner, (down, across), features))
            inner = below = (down, across, int(layer.n_components))
            pools, fold = [], None
        else:
            wanted = "a StreamingGaussianMixture" if fold is not None else "a Pool or a Fold"
            raise ValueError(f"layers[{number}] is {type(layer).__name__}; expected {wanted}.")
    if not stages or pools or fold is not None:
        raise ValueError("layers must end with a Fold and a StreamingGaussianMixture.")
    if len({bool(stage.mixture.allow_nan) for stage in stages}) > 1:
        raise ValueError("allow_nan must be the same for all mixtures: gaps of images are gaps of upper layers.")
    return stages


def block_size(stages: Sequence[Stage]) -> int:
    """Count the images of a block, so that its rows take little memory. Only the plan decides: see the chunk law."""
    largest = max(stage.n_positions * max(stage.n_features, stage.n_components) for stage in stages)
    return max(1, min(MOST_IMAGES, PIECE_BYTES // (8 * largest)))


def _image_shape(shape: Sequence[int]) -> ImageShape:
    sides = tuple(shape)
    if len(sides) not in (2, 3) or not all(isinstance(side, int) and side >= 1 for side in sides):
        raise ValueError(f"shape is {shape!r}; expected height and width, or height, width and channels.")
    return sides[0], sides[1], sides[2] if len(sides) == 3 else 1


def default_fold(shape: Sequence[int]) -> Fold:
    """Return patches for images of a shape: 11×11 positions, or as many as small images have room for.

    >>> default_fold((28, 28)), default_fold((8, 8))
    (Fold(patch=(8, 8), stride=(2, 2), shared=True), Fold(patch=(4, 4), stride=(1, 1), shared=True))
    """
    strides = [max(1, round(side / 14)) for side in _image_shape(shape)[:2]]
    gaps = [max(0, min(10, side // stride - 4)) for side, stride in zip(shape, strides, strict=False)]
    patch = [side - n * stride for side, n, stride in zip(shape, gaps, strides, strict=False)]
    return Fold((patch[0], patch[1]), (min(strides[0], patch[0]), min(strides[1], patch[1])))
