"""The glyph stream."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.sources.synthetic.glyphs import LETTERS, Glyphs


def test_images_are_images() -> None:
    images, letters = Glyphs().take(0, 3000)
    assert images.shape == (3000, 784)
    assert images.dtype == np.float32
    assert images.min() == 0
    assert 0.9 < images.max() <= 1
    assert set(letters) == set(range(10))
    ink = images.reshape(-1, 28, 28)
    assert ink[:, 10:18, 10:18].mean() > 5 * ink[:, :2, :].mean()


def test_any_range_can_be_repeated() -> None:
    whole, letters = Glyphs(seed=4).take(0, 2500)
    for start, count in ((0, 10), (1020, 10), (700, 1800)):
        again, same = Glyphs(seed=4).take(start, count)
        np.testing.assert_array_equal(again, whole[start : start + count])
        np.testing.assert_array_equal(same, letters[start : start + count])
    chunks = Glyphs(seed=4).chunks(400, start=100)
    np.testing.assert_array_equal(np.concatenate([next(chunks) for _ in range(3)]), whole[100:1300])
    assert (Glyphs(seed=5).take(0, 10)[0] != whole[:10]).any()


def test_letters_are_told_apart() -> None:
    images, letters = Glyphs(seed=1).take(0, 4000)
    means = np.array([images[letters == k].mean(0) for k in range(10)])
    test, truth = Glyphs(seed=2).take(0, 1000)
    guess = ((test[:, None] - means) ** 2).sum(2).argmin(1)
    assert (guess == truth).mean() > 0.5  # chance is 0.1


def test_phases_follow_each_other() -> None:
    _, letters = Glyphs("A-E, F-J ,b", phase_length=1500).take(0, 5000)
    assert set(letters[:1500]) == set(range(5))
    assert set(letters[1500:3000]) == set(range(5, 10))
    assert set(letters[3000:]) == {1}


@pytest.mark.parametrize("phases", ["", "K", "J-A", "A-Z", "AB-C", "A-"])
def test_wrong_letters_are_refused(phases: str) -> None:
    if phases == "A-":
        assert Glyphs(phases).letters_at(0) == "A"
        return
    with pytest.raises(ValueError, match="expected something like A-E"):
        Glyphs(phases)


def test_phase_length_must_be_positive() -> None:
    with pytest.raises(ValueError, match="phase_length is 0"):
        Glyphs(phase_length=0)
    assert LETTERS == "ABCDEFGHIJ"
