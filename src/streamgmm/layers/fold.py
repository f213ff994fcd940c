"""Fold and Pool: how images become rows of patches, and how rows become images again."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

Images = npt.NDArray[Any]
ImageShape = tuple[int, int, int]
"""Height, width and channels."""
Sides = int | tuple[int, int]


@dataclass(frozen=True)
class Fold:
    """Cut images into patches; the mixture that follows sees each patch as one row.

    Patches must cover every pixel, so that nothing of an image is ignored.

    Parameters
    ----------
    patch : int, tuple of int or None, default=None
        Side of a patch in pixels, or height and width. None is the whole image.
    stride : int or tuple of int, default=1
        Distance between neighbouring patches; at most the side of a patch.
    shared : bool, default=True
        Whether one mixture learns the patches of all positions. False learns one mixture for each position.

    Examples
    --------
    >>> import numpy as np
    >>> fold = Fold(8, stride=2)
    >>> fold.output_shape((28, 28, 1))
    (11, 11, 64)
    >>> images = np.random.default_rng(0).random((5, 28, 28, 1))
    >>> rows = fold.fold(images)
    >>> rows.shape, bool(np.allclose(fold.unfold(rows, (28, 28, 1)), images))
    ((5, 11, 11, 64), True)
    """

    patch: Sides | None = None
    stride: Sides = 1
    shared: bool = True

    def __post_init__(self) -> None:
        for name, value in (("patch", self.patch), ("stride", self.stride)):
            if value is not None:
                _require_sides(name, value)
        if not isinstance(self.shared, bool):
            raise ValueError(f"shared is {self.shared!r}; expected True or False.")

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """Return the number of patches down and across, and the features of each, for images of a shape.

        Parameters
        ----------
        shape : tuple of int
            Height, width and channels of an image.
        """
        patch, stride = self.sides(shape)
        counts = []
        for side, size, step in zip(shape, patch, stride, strict=False):
            if size > side:
                raise ValueError(f"patches of {size} pixels do not fit into {side}; choose a smaller patch.")
            if step > size or (side - size) % step:
                raise ValueError(
                    f"patches of {size} pixels at a stride of {step} do not cover {side} pixels. Choose a stride of at "
                    f"most {size} that divides {side - size}."
                )
            counts.append((side - size) // step + 1)
        return counts[0], counts[1], patch[0] * patch[1] * shape[2]

    def fold(self, images: Images) -> Images:
        """Return the patches (N, rows, columns, features) of images (N, height, width, channels); bytes stay bytes.

        Parameters
        ----------
        images : array of shape (N, height, width, channels)
            Images.
        """
        shape = images.shape[1:]
        down, across, features = self.output_shape(shape)
        patch, (down_step, across_step) = self.sides(shape)
        windows = np.lib.stride_tricks.sliding_window_view(images, patch, axis=(1, 2))[:, ::down_step, ::across_step]
        return windows.transpose(0, 1, 2, 4, 5, 3).reshape(len(images), down, across, features)

    def unfold(self, rows: Images, shape: ImageShape, weights: Images | None = None) -> Images:
        """Put patches back into images (N, height, width, channels); where they overlap, average them.

        Parameters
        ----------
        rows : array of shape (N, rows, columns, features)
            Patches.
        shape : tuple of int
            Height, width and channels of an image.
        weights : array of shape (N, rows, columns, features) or None, default=None
            Weights of the average; None weighs all patches alike.
        """
        if weights is None:
            return self._add(rows, shape) / self._add(np.ones((1, *rows.shape[1:]), rows.dtype), shape)
        return self._add(rows * weights, shape) / self._add(weights, shape)

    def _add(self, rows: Images, shape: ImageShape) -> Images:
        """Sum patches at their places."""
        (height, width), (down_step, across_step) = self.sides(shape)
        count, down, across, _ = rows.shape
        parts = rows.reshape(count, down, across, height, width, shape[2])
        images = np.zeros((count, *shape), rows.dtype)
        if down * across < height * width:
            for i, j in product(range(down), range(across)):
                top, left = i * down_step, j * across_step
                images[:, top : top + height, left : left + width] += parts[:, i, j]
        else:
            for i, j in product(range(height), range(width)):
                images[:, i : i + down * down_step : down_step, j : j + across * across_step : across_step] += parts[
                    :, :, :, i, j
                ]
        return images

    def sides(self, shape: ImageShape) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return height and width of a patch, and both strides.

        Parameters
        ----------
        shape : tuple of int
            Height, width and channels of an image.
        """
        patch = shape[:2] if self.patch is None else _pair(self.patch)
        return patch, _pair(self.stride)


@dataclass(frozen=True)
class Pool:
    """Combine neighbouring positions of an image into one, channel by channel.

    Parameters
    ----------
    size : int or tuple of int, default=2
        Side of the square of positions that become one, or height and width; it must divide the image.
    kind : {"max", "mean"}, default="max"
        What to take of the values.

    Examples
    --------
    >>> import numpy as np
    >>> Pool(2).pool(np.arange(16).reshape(1, 4, 4, 1))[0, :, :, 0].tolist()
    [[5, 7], [13, 15]]
    """

    size: Sides = 2
    kind: str = "max"

    def __post_init__(self) -> None:
        _require_sides("size", self.size)
        if self.kind not in ("max", "mean"):
            raise ValueError(f"kind is {self.kind!r}; expected 'max' or 'mean'.")

    def output_shape(self, shape: ImageShape) -> ImageShape:
        """Return height, width and channels after pooling.

        Parameters
        ----------
        shape : tuple of int
            Height, width and channels before.
        """
        for side, size in zip(shape, _pair(self.size), strict=False):
            if side % size:
                raise ValueError(f"pools of {size} positions do not divide {side}; choose another size.")
        height, width = _pair(self.size)
        return shape[0] // height, shape[1] // width, shape[2]

    def pool(self, images: Images) -> Images:
        """Return smaller images; what is unknown (NaN) at one position is unknown for all that become one.

        Parameters
        ----------
        images : array of shape (N, height, width, channels)
            Images.
        """
        height, width = _pair(self.size)
        down, across, channels = self.output_shape(images.shape[1:])
        squares = images.reshape(len(images), down, height, across, width, channels)
        return squares.max((2, 4)) if self.kind == "max" else squares.mean((2, 4))

    def unpool(self, images: Images) -> Images:
        """Return larger images, in which each value fills its square.

        Parameters
        ----------
        images : array of shape (N, height, width, channels)
            Images.
        """
        height, width = _pair(self.size)
        return images.repeat(height, 1).repeat(width, 2)


def _pair(sides: Sides) -> tuple[int, int]:
    return (sides, sides) if isinstance(sides, int | np.integer) else (sides[0], sides[1])


def _require_sides(name: str, value: object) -> None:
    sides: tuple[Any, ...] = value if isinstance(value, tuple) else (value, value)
    if len(sides) != 2 or not all(
        isinstance(s, int | np.integer) and not isinstance(s, bool) and s >= 1 for s in sides
    ):
        raise ValueError(f"{name} is {value!r}; expected a positive integer, or two of them.")
