"""Fold and Pool: values by hand, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm import Fold, Pool


def test_patches_by_hand() -> None:
    image = np.arange(24, dtype=np.uint8).reshape(1, 3, 4, 2)
    rows = Fold((3, 2), (1, 2)).fold(image)
    assert rows.dtype == np.uint8
    assert rows.shape == (1, 1, 2, 12)
    np.testing.assert_array_equal(rows[0, 0, 1], image[0, :, 2:4].ravel())
    assert Fold().output_shape((3, 4, 2)) == (1, 1, 24)


def test_overlaps_are_averaged() -> None:
    rows = np.array([[[[1.0, 2.0], [4.0, 6.0]]]])  # two patches of two pixels that share the middle one
    fold = Fold((1, 2), 1)
    np.testing.assert_array_equal(fold.unfold(rows, (1, 3, 1)).ravel(), [1, 3, 6])
    weights = np.array([[[[1.0, 3.0], [1.0, 1.0]]]])
    np.testing.assert_array_equal(fold.unfold(rows, (1, 3, 1), weights).ravel(), [1, 2.5, 6])


def test_pools_by_hand() -> None:
    image = np.array([[1.0, 2, 3, np.nan], [5, 6, 7, 8]]).reshape(1, 2, 4, 1)
    np.testing.assert_array_equal(Pool(2).pool(image).ravel(), [6, np.nan])
    np.testing.assert_array_equal(Pool((2, 1), "mean").pool(image).ravel(), [3, 4, 5, np.nan])
    np.testing.assert_array_equal(Pool(2).unpool(image[:, :1, :1]).ravel(), [1, 1, 1, 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Fold(0), "patch is 0; expected a positive integer"),
        (lambda: Fold((2, 2, 2)), "patch is"),
        (lambda: Fold(2, stride=True), "stride is True"),
        (lambda: Fold(2, shared="no"), "shared is 'no'"),
        (lambda: Pool(2, "median"), "kind is 'median'; expected 'max' or 'mean'"),
        (lambda: Fold(9).output_shape((8, 8, 1)), "patches of 9 pixels do not fit into 8"),
        (
            lambda: Fold(3, 2).output_shape((8, 8, 1)),
            "do not cover 8 pixels. Choose a stride of at most 3 that divides 5",
        ),
        (lambda: Fold(2, 3).output_shape((8, 8, 1)), "do not cover"),
        (lambda: Pool(3).output_shape((9, 8, 1)), "pools of 3 positions do not divide 8"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()
