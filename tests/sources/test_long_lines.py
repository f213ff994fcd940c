"""Long files of lines are parsed in another way than short ones; nobody can tell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm.errors import SourceError
from streamgmm.sources import Chunk, open_source

MANY = 3000  # lines
AT = 2222


@pytest.fixture(autouse=True)
def _all_files_are_large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parse these by pyarrow, if it is installed."""
    monkeypatch.setattr("streamgmm.sources.lines.LARGE_BYTES", 0)


def numbers(count: int = MANY) -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(size=(count, 3)) * 10.0 ** rng.integers(-300, 300, (count, 3))


def read(path: Path, text: bytes, **options: object) -> list[Chunk]:
    path.write_bytes(text)
    return list(open_source(str(path), **options).chunks())  # type: ignore[arg-type]


def rows_of(chunks: list[Chunk]) -> np.ndarray:
    return np.concatenate([chunk.rows for chunk in chunks])


def csv_lines(x: np.ndarray) -> list[str]:
    return [",".join(map(repr, row)) for row in x.tolist()]


def json_lines(x: np.ndarray) -> list[str]:
    return [json.dumps(dict(zip("abc", row, strict=True))) for row in x.tolist()]


def test_numbers_are_the_same_to_the_last_bit(tmp_path: Path) -> None:
    x = numbers()
    np.testing.assert_array_equal(rows_of(read(tmp_path / "x.csv", "\n".join(csv_lines(x)).encode())), x)
    np.testing.assert_array_equal(rows_of(read(tmp_path / "x.ndjson", "\n".join(json_lines(x)).encode())), x)


@pytest.mark.parametrize(
    "line", [" 1,2 ,3", "+1,-0,1e400", "nan,inf,-Infinity", "1.,.5,0001", '"1","2",3', "1e-400,1,1\r", "1_0,2,3"]
)
def test_odd_lines_of_csv_are_the_same(tmp_path: Path, line: str) -> None:
    """A file of one line is parsed line by line."""
    short = rows_of(read(tmp_path / "short.csv", f"a,b,c\n{line}\n".encode()))
    lines = csv_lines(numbers())
    lines[AT] = line
    found = rows_of(read(tmp_path / "x.csv", "\n".join(["a,b,c", *lines]).encode()))
    np.testing.assert_array_equal(found[AT], short[0])
    assert len(found) == MANY


@pytest.mark.parametrize(
    ("name", "line"),
    [("x.csv", line) for line in ("1,2", "1,2,3,4", "1,x,3", "1,,3", "0x1,2,3", "1,2\r3,4")]
    + [
        ("x.ndjson", line)
        for line in ('{"a": 1}', '{"a": "x", "b": 2, "c": 3}', '{"a": 1, "b": 2, "c": [3]}', "[1]", "{")
    ]
    + [("x.ndjson", '{"a": 1, "b": 2, "c": 3} {"a": 1, "b": 2, "c": 3}')],
)
def test_bad_lines_are_found_where_they_are(tmp_path: Path, name: str, line: str) -> None:
    lines = (csv_lines if name == "x.csv" else json_lines)(numbers())
    lines[AT], lines[AT + 1] = line, ""
    chunks = read(tmp_path / name, "\n".join(lines).encode(), skip_bad=True)
    assert [bad.row for chunk in chunks for bad in chunk.bad] == [AT]
    rows = np.concatenate([chunk.numbers for chunk in chunks])
    assert rows.tolist() == [i for i in range(MANY) if i not in (AT, AT + 1)]
    with pytest.raises(SourceError, match=f"row {AT} of "):
        read(tmp_path / name, "\n".join(lines).encode())


def test_missing_values_of_objects(tmp_path: Path) -> None:
    x, lines = numbers(), json_lines(numbers())
    lines[AT], lines[AT + 1] = '{"a": null, "c": 4}', '{"c": NaN, "b": "NA", "a": 1}'
    found = rows_of(read(tmp_path / "x.ndjson", "\n".join(lines).encode(), missing=True))
    x[AT], x[AT + 1] = [np.nan, np.nan, 4], [1, np.nan, np.nan]
    np.testing.assert_array_equal(found, x)


def test_other_columns_are_ignored_if_some_are_chosen(tmp_path: Path) -> None:
    x = numbers()
    named = "\n".join(["a,b,c", *csv_lines(x)]).encode()
    np.testing.assert_array_equal(rows_of(read(tmp_path / "x.csv", named, columns=["c", "a"])), x[:, [2, 0]])
    lines = json_lines(x)
    np.testing.assert_array_equal(
        rows_of(read(tmp_path / "x.ndjson", "\n".join(lines).encode(), columns=["c", "a"])), x[:, [2, 0]]
    )


def test_a_new_name_is_reported(tmp_path: Path) -> None:
    lines = json_lines(numbers())
    lines[AT] = '{"a": 1, "b": 2, "c": 3, "late": 4}'
    with pytest.warns(UserWarning, match="have 'late', which the first rows lack"):
        found = read(tmp_path / "x.ndjson", "\n".join(lines).encode())
    np.testing.assert_array_equal(rows_of(found)[AT], [1, 2, 3])
