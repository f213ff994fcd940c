"""Columns beside the features: kept on request, booleans, and the numbers of rows that pandas writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.errors import DataWarning
from streamgmm.sources import Chunk, ReadOptions, Source, open_source, open_with


def write(folder: Path, name: str, text: str) -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def kept(source: Source) -> dict[str, list[Any] | None]:
    """All columns of a source, whatever its chunks are."""
    found: dict[str, list[Any] | None] = {}
    for chunk in source.chunks():
        assert chunk.columns is not None
        for name, values in chunk.columns.items():
            found[name] = None if values is None else [*(found.get(name) or []), *values]
    return found


class TestKeptColumns:
    def test_only_on_request(self, tmp_path: Path) -> None:
        path = write(tmp_path, "x.csv", "a,name\n1,x\n2,y\n")
        assert [chunk.columns for chunk in open_source(path).chunks()] == [None]
        assert kept(open_with(path, ReadOptions(others=True))) == {"a": [1, 2], "name": ["x", "y"]}

    def test_first_rows_decide_what_a_column_of_text_is(self, tmp_path: Path) -> None:
        rows = ["a,count,level,code,key,mixed", *["1,5,2.5,007,12345678901234567890,NA"] * 1000, "1,,x,8,9,3"]
        source = open_with(write(tmp_path, "x.csv", "\n".join(rows) + "\n"), ReadOptions(others=True))
        source.expect(["a"], 1)
        found = {name: values and (values[0], values[-1]) for name, values in kept(source).items()}
        assert found == {
            "a": (1, 1),
            "count": (5, None),
            "level": (2.5, "x"),
            "code": ("007", "8"),
            "key": ("12345678901234567890", "9"),
            "mixed": ("NA", "3"),
        }

    def test_names_that_objects_get_later_are_ignored_with_a_warning(self, tmp_path: Path) -> None:
        lines = [{"a": 1, "s": "x"}] * 1000 + [{"a": 2, "late": 5}]
        path = write(tmp_path, "x.ndjson", "".join(json.dumps(line) + "\n" for line in lines))
        source = open_with(path, ReadOptions(others=True))
        source.expect(["a"], 1)
        with pytest.warns(DataWarning, match="some rows of x.ndjson have 'late', which the first rows lack"):
            found = kept(source)
        assert found == {"a": [1] * 1000 + [2], "s": ["x"] * 1000 + [None]}

    def test_arrays_have_none(self, tmp_path: Path) -> None:
        path = write(tmp_path, "x.ndjson", "[1, 2]\n[3, 4]\n")
        assert [chunk.columns for chunk in open_with(path, ReadOptions(others=True)).chunks()] == [None]

    def test_files_of_a_folder_have_the_columns_of_the_first(self, tmp_path: Path) -> None:
        write(tmp_path, "1.csv", "s,a,t\nx,1,u\n")
        write(tmp_path, "2.csv", "new,a,s\nn,2,y\n")
        assert kept(open_with(str(tmp_path), ReadOptions(others=True))) == {
            "s": ["x", "y"],
            "a": [1, 2],
            "t": ["u", None],
        }

    def test_parts_of_tables_keep_theirs(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        import pyarrow.parquet as pq

        monkeypatch.setattr("streamgmm.sources.base.CHUNK_BYTES", 40)
        names = [f"n{i % 3}" for i in range(100)]
        table = pa.table({"name": names, "a": np.arange(100.0), "b": np.arange(100), "on": [True, None] * 50})
        pq.write_table(table, tmp_path / "x.parquet", row_group_size=40)
        source = open_with(str(tmp_path / "x.parquet"), ReadOptions(others=True))
        source.expect(["a"], 1)
        assert kept(source) == {"name": names, "a": None, "b": list(range(100)), "on": [True, None] * 50}
        assert {name: str(kind) for name, kind in source.column_types.items()}["b"] == "int64"
        later = next(iter(source.chunks({"row": 47})))
        assert later.columns is not None
        assert (later.numbers[0], later.columns["b"][0]) == (47, 47)  # type: ignore[index]


class TestBooleans:
    ROWS = ([1.5, 1, 0], [2.5, 0, 1])

    @pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
    @pytest.mark.parametrize("count", [1, 1500])  # fewer lines are parsed one by one
    def test_csv(self, tmp_path: Path, words: tuple[str, str], count: int) -> None:
        yes, no = words
        text = "a,on,name,off\n" + f"1.5,{yes},{yes}love,{no}\n2.5,{no},{no}r,{yes}\n" * count
        source = open_source(write(tmp_path, "x.csv", text))
        chunks: list[Chunk] = list(source.chunks())
        assert (source.feature_names, list(source.left_out)) == (["a", "on", "off"], ["name"])
        np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), [*self.ROWS] * count)

    def test_semicolons_and_quotes(self, tmp_path: Path) -> None:
        for row in ('"1,5";"true";false', "1,5;true;false"):
            path = write(tmp_path, "x.csv", "a;on;off\n" + f"{row}\n2,5;false; true\n" * 20)
            with pytest.warns(DataWarning, match="decimal points"):
                rows = np.concatenate([c.rows for c in open_source(path).chunks()])
            np.testing.assert_array_equal(rows, [*self.ROWS] * 20)

    def test_objects(self, tmp_path: Path) -> None:
        lines = [{"a": a, "on": bool(on), "off": bool(off)} for a, on, off in self.ROWS]
        source = open_source(write(tmp_path, "x.ndjson", "".join(json.dumps(line) + "\n" for line in lines)))
        np.testing.assert_array_equal(next(iter(source.chunks())).rows, self.ROWS)

    def test_among_other_words_they_are_text(self, tmp_path: Path) -> None:
        source = open_source(write(tmp_path, "x.csv", "a,on\n1,true\n2,perhaps\n"))
        assert [c.rows.tolist() for c in source.chunks()] == [[[1], [2]]]
        assert list(source.left_out) == ["on"]

    def test_a_first_line_with_them_is_a_row(self, tmp_path: Path) -> None:
        source = open_source(write(tmp_path, "x.csv", "1.5,true,false\n2.5,false,true\n"))
        np.testing.assert_array_equal(next(iter(source.chunks())).rows, self.ROWS)


class TestRowNumbersOfPandas:
    TEXT = ",a,b\n10,1,2\n11,3,4\n"

    def test_they_are_left_out_with_a_warning(self, tmp_path: Path) -> None:
        source = open_source(write(tmp_path, "x.csv", self.TEXT))
        with pytest.warns(DataWarning, match="the first column of x.csv has no name: it is left out") as told:
            read = [[c.rows.tolist() for c in source.chunks()] for _ in range(2)]
        assert read == [[[[1, 2], [3, 4]]]] * 2
        assert len(told) == 1
        assert source.feature_names == ["a", "b"]

    def test_they_can_be_ids_or_features(self, tmp_path: Path) -> None:
        path = write(tmp_path, "x.csv", self.TEXT)
        chunk = next(iter(open_source(path, id_column="").chunks()))
        assert (chunk.ids, chunk.rows.tolist()) == (("10", "11"), [[1, 2], [3, 4]])
        chunk = next(iter(open_source(path, columns=["", "b"]).chunks()))
        assert chunk.rows.tolist() == [[10, 2], [11, 4]]

    def test_other_columns_may_have_no_names_either(self, tmp_path: Path) -> None:
        source = open_source(write(tmp_path, "x.csv", ",0,1\n0,5,6\n1,7,8\n"))
        with pytest.warns(DataWarning, match="has no name"):
            assert [c.rows.tolist() for c in source.chunks()] == [[[5, 6], [7, 8]]]
        assert source.feature_names == ["0", "1"]

    def test_text_beside_them_is_left_out(self, tmp_path: Path) -> None:
        source = open_source(write(tmp_path, "x.csv", ",a,name\n0,5,x\n1,7,y\n"))
        with pytest.warns(DataWarning, match="has no name"):
            assert [c.rows.tolist() for c in source.chunks()] == [[[5], [7]]]
        assert list(source.left_out) == ["name"]


def test_lines_may_end_with_a_separator(tmp_path: Path) -> None:
    source = open_source(write(tmp_path, "x.csv", "a,b,\n" + "1,2,\n3,4,\n" * 600))
    for _ in range(2):
        np.testing.assert_array_equal(np.concatenate([c.rows for c in source.chunks()]), [[1, 2], [3, 4]] * 600)
    assert (source.feature_names, list(source.left_out)) == (["a", "b"], [])
