"""Rows that a model cannot learn, and how they are reported."""

from __future__ import annotations

import numpy as np
import pytest

from streamgmm.errors import Remedy
from streamgmm.sources import BadRow, Chunk, SourceError, drop_rows, drop_unfit
from streamgmm.sources.numpy_files import ArraySource

ROWS = np.array([[1.0, 2.0], [np.nan, 0.0], [np.inf, 0.0], [3.0, 4.0]])
FLOAT64 = np.dtype(np.float64)


def chunk(rows: np.ndarray = ROWS) -> Chunk:
    return Chunk(rows, np.arange(10, 10 + len(rows)), {"row": 10 + len(rows)}, ids=tuple("abcd"[: len(rows)]))


def source(*, skip_bad: bool) -> ArraySource:
    made = ArraySource("x", ROWS)
    made.skip_bad = skip_bad
    return made


@pytest.mark.parametrize(("gaps", "good"), [(False, [0, 3]), (True, [0, 1, 3])])
def test_unfit_rows_are_dropped(gaps: bool, good: list[int]) -> None:
    found = drop_unfit(chunk(), FLOAT64, source(skip_bad=True), gaps=gaps)
    np.testing.assert_array_equal(found.rows, ROWS[good])
    assert found.numbers.tolist() == [10 + i for i in good]
    assert found.ids == tuple("abcd"[i] for i in good)
    assert [b.row for b in found.bad] == [10 + i for i in range(4) if i not in good]
    assert found.bad[-1].reason.startswith("contains inf at feature 0; expected finite numbers")


@pytest.mark.parametrize(
    ("row", "remedies"),
    [
        ([np.nan, 0.0], (Remedy.ALLOW_MISSING, Remedy.SKIP_BAD_ROWS)),
        ([np.nan, np.inf], (Remedy.SKIP_BAD_ROWS,)),
        ([1e200, 0.0], (Remedy.SKIP_BAD_ROWS,)),
    ],
)
def test_an_unfit_row_raises_unless_skipped(row: list[float], remedies: tuple[Remedy, ...]) -> None:
    with pytest.raises(SourceError, match=r"^row 10 of x contains .*; expected finite numbers") as caught:
        drop_unfit(chunk(np.array([row])), FLOAT64, source(skip_bad=False), gaps=False)
    assert caught.value.remedies == remedies


def test_rows_without_features_raise() -> None:
    with pytest.raises(SourceError, match="rows of x have no features"):
        drop_unfit(chunk(np.empty((3, 0))), FLOAT64, source(skip_bad=True), gaps=True)


def test_dropped_rows_are_added_to_bad_rows() -> None:
    before = chunk()._replace(bad=(BadRow(3, "is not CSV"),))
    found = drop_rows(before, np.array([False, True, True, True]), [BadRow(11, "is empty")])
    assert found.rows.tolist() == [[1, 2]]
    assert found.ids == ("a",)
    assert found.bad == (BadRow(3, "is not CSV"), BadRow(11, "is empty"))
