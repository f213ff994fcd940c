"""CSV files whose columns are separated by semicolons or tabs, and numbers with decimal commas."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
import pytest

from streamgmm.errors import DataWarning
from streamgmm.sources import SourceError, open_source
from streamgmm.sources.separators import find_separator


def read(path: Path, text: str, **options: object) -> tuple[list[list[float]], list[str] | None]:
    path.write_text(text, encoding="utf8")
    source = open_source(str(path), **options)  # type: ignore[arg-type]
    rows = [row.tolist() for chunk in source.chunks() for row in chunk.rows]
    return rows, source.feature_names


@pytest.mark.parametrize(
    ("line", "separator"),
    [
        ("time,a,b", ","),
        ("time;a;b", ";"),
        ("time\ta\tb", "\t"),
        ("1,5;2,5;3,5", ";"),
        ("12:00;1,5;2,5", ";"),
        (";1,5;NA", ";"),
        ("time,a;b,c", ","),
        ('"a;b;c",d', ","),
        ('"a, b";c', ";"),
        ("x", ","),
        ("1.5", ","),
        ("", ","),
    ],
)
def test_the_first_line_decides(line: str, separator: str) -> None:
    assert find_separator(line) == separator


@pytest.mark.parametrize("count", [1, 4, 2000])  # single lines, NumPy, several chunks
@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_every_separator_gives_the_same_rows(tmp_path: Path, count: int, separator: str) -> None:
    values = np.random.default_rng(0).normal(size=(count, 2)).round(4)
    lines = ["a,b", *(f"{a},{b}" for a, b in values)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rows, names = read(tmp_path / "x.csv", "\n".join(lines).replace(",", separator))
    assert names == ["a", "b"]
    np.testing.assert_array_equal(rows, values)


@pytest.mark.parametrize("count", [1, 4, 2000])
def test_decimal_commas_between_semicolons(tmp_path: Path, count: int) -> None:
    values = np.random.default_rng(0).normal(size=(count, 2)).round(4)
    lines = ["a;b", *(f"{a};{b}".replace(".", ",") for a, b in values)]
    with pytest.warns(DataWarning, match=r"commas in numbers of x\.csv are read as decimal points"):
        rows, _ = read(tmp_path / "x.csv", "\n".join(lines))
    np.testing.assert_array_equal(rows, values)


@pytest.mark.filterwarnings("ignore::streamgmm.errors.DataWarning")
def test_ids_gaps_and_text_between_semicolons(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('at;a;"note";b\n"1,5";0,5;x;\n"2,5";;y;1,5\n', encoding="utf8")
    source = open_source(str(path), id_column="at", missing=True)
    (chunk,) = source.chunks()
    np.testing.assert_array_equal(chunk.rows, [[0.5, np.nan], [np.nan, 1.5]])
    assert (chunk.ids, source.left_out) == (("1,5", "2,5"), ["note"])


def test_commas_between_tabs_are_no_decimal_points(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no column of numbers"):
        read(tmp_path / "x.tsv", "a\tb\n" + "1,234\t5,678\n" * 10)


def test_a_quoted_line_break_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"row 0 of x\.csv has a quoted field that does not end on its line"):
        read(tmp_path / "x.csv", 'a,"b\nc"\n1,2\n')


def test_a_feature_that_is_absent_is_named_before_any_text(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("place,a\nhere,1\n", encoding="utf8")
    source = open_source(str(path))
    source.expect(["a", "b"], 2)
    with pytest.raises(SourceError, match=r"x\.csv has no column 'b', a feature of the model; it has place, a\."):
        list(source.chunks())
