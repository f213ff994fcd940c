"""Scores written to files and streams."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.errors import Remedy, StreamGMMError
from streamgmm.sinks import Columns, open_sink


def columns(first: int = 0, count: int = 3, ids: list[Any] | None = None) -> Columns:
    found: Columns = {"row": np.arange(first, first + count)}
    if ids is not None:
        found["id"] = np.array(ids, dtype=object)
    return found | {"score": np.linspace(0.1, 1, count), "anomaly": np.arange(count) == 1}


def write_all(path: Path, *parts: Columns, fails: bool = False) -> None:
    with open_sink(path, io.StringIO()) as write:
        for part in parts:
            write(part)
        if fails:
            raise KeyError


def read(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".csv":
        with path.open() as file:
            return list(csv.DictReader(file))
    if path.suffix == ".parquet":
        return pytest.importorskip("pyarrow.parquet").read_table(path).to_pylist()
    return [json.loads(line, parse_constant=pytest.fail) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "jsonl", "parquet", "CSV"])
def test_every_format(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scores.{suffix}"
    with open_sink(path, io.StringIO(), "unused") as write:
        write(columns(0, ids=["a", "b", "c"]))
        write(columns(3, ids=["d", "e", "f"]))
    rows = read(path.rename(path.with_suffix(path.suffix.lower())))
    assert list(rows[0]) == ["row", "id", "score", "anomaly"]
    assert [str(r["row"]) for r in rows] == list("012345")
    assert [r["id"] for r in rows] == list("abcdef")
    assert [float(r["score"]) for r in rows] == [*np.linspace(0.1, 1, 3), *np.linspace(0.1, 1, 3)]
    assert [str(r["anomaly"]) for r in rows] == ["False", "True", "False"] * 2


@pytest.mark.parametrize(
    ("name", "text"), [("csv", "row,anomaly\n0,True\n"), ("ndjson", '{"row": 0, "anomaly": true}\n')]
)
def test_a_stream_is_flushed_after_every_call(name: str, text: str) -> None:
    class Stream(io.StringIO):
        flushed = ""

        def flush(self) -> None:
            self.flushed = self.getvalue()

    out = Stream()
    with open_sink(None, out, name) as write:
        write({"row": np.array([0]), "anomaly": np.array([True])})
        assert out.flushed == text
    assert not out.closed


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_a_file_is_complete_or_unchanged(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"scores.{suffix}"
    with open_sink(path, io.StringIO()) as write:
        write(columns())
        assert not path.exists()
    before = path.read_bytes()
    with pytest.raises(KeyError):
        write_all(path, columns(7), fails=True)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_no_rows(tmp_path: Path, suffix: str) -> None:
    with open_sink(tmp_path / f"heading.{suffix}", io.StringIO()) as write:
        write({name: values[:0] for name, values in columns().items()})
    with open_sink(tmp_path / f"nothing.{suffix}", io.StringIO()):
        pass
    assert read(tmp_path / f"heading.{suffix}") == []
    assert read(tmp_path / f"nothing.{suffix}") == []
    if suffix == "csv":
        assert (tmp_path / "heading.csv").read_text() == "row,score,anomaly\n"


@pytest.mark.parametrize(("path", "name"), [("x.txt", "csv"), ("x", "csv"), (None, "parquet"), (None, "txt")])
def test_unknown_formats(tmp_path: Path, path: str | None, name: str) -> None:
    place = None if path is None else tmp_path / path
    with pytest.raises(StreamGMMError, match=r"unknown format .*; expected csv"), open_sink(place, io.StringIO(), name):
        pass
    assert not list(tmp_path.iterdir())


def test_ids_that_json_does_not_have(tmp_path: Path) -> None:
    with open_sink(tmp_path / "s.ndjson", io.StringIO()) as write:
        write(columns(count=4, ids=[1.5, np.nan, np.inf, datetime(2026, 1, 1)]))
    assert [r["id"] for r in read(tmp_path / "s.ndjson")] == [1.5, None, None, "2026-01-01T00:00:00"]


class TestParquetIds:
    def write(self, folder: Path, kind: Any, *parts: list[Any]) -> Any:
        pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
        with open_sink(folder / "s.parquet", io.StringIO(), id_type=kind) as write:
            for part in parts:
                write(columns(count=len(part), ids=part))
        return pq.read_table(folder / "s.parquet").column("id")

    @pytest.mark.parametrize("kind", ["uint64", "timestamp[ns]", "string"])
    def test_a_declared_type_is_kept(self, tmp_path: Path, kind: str) -> None:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        start = datetime(2026, 1, 1)
        values: dict[str, tuple[Any, list[Any]]] = {
            "uint64": (pa.uint64(), [2**63, 2**63 + 1, None]),
            "timestamp[ns]": (pa.timestamp("ns"), [start, start + timedelta(seconds=1), None]),
            "string": (pa.string(), [None, None, "c"]),
        }
        found = self.write(tmp_path, values[kind][0], values[kind][1][:2], values[kind][1][2:])
        assert str(found.type) == kind
        assert found.to_pylist() == values[kind][1]

    def test_mixed_ids_become_text(self, tmp_path: Path) -> None:
        assert self.write(tmp_path, None, [1, "b", None]).to_pylist() == ["1", "b", None]
        assert self.write(tmp_path, None, [None, None]).to_pylist() == [None, None]

    def test_a_type_that_changes_later_is_reported(self, tmp_path: Path) -> None:
        message = "values of column 'id' from row 0 are string; expected int64, as before"
        with pytest.raises(StreamGMMError, match=message) as caught:
            self.write(tmp_path, None, [1, 2], ["c", "d"])
        assert caught.value.remedies == (Remedy.WRITE_TEXT,)
        assert not list(tmp_path.iterdir())


def test_columns_that_change_later_are_reported(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    with pytest.raises(StreamGMMError, match="rows have the columns row, id, score, anomaly; expected row, score"):
        write_all(tmp_path / "s.parquet", columns(), columns(3, ids=["d", "e", "f"]))


FORMULAS = ["=cmd|' /C calc'!A0", "+1+1", "-2+3", "@SUM(A1)", "\t=1", "-5", "+1.5", "plain", "a=b"]


@pytest.mark.parametrize("kept", [False, True])
def test_ids_that_a_spreadsheet_would_compute(tmp_path: Path, kept: bool) -> None:
    path = tmp_path / "scores.csv"
    with open_sink(path, io.StringIO(), formulas=kept) as write:
        write(columns(count=len(FORMULAS), ids=FORMULAS))
    found = [row["id"] for row in read(path)]
    expected = [f"'{text}" for text in FORMULAS[:5]] + FORMULAS[5:]
    assert found == (FORMULAS if kept else expected)


def test_a_terminal_gets_no_control_characters() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for out, shown in ((Terminal(), "a\ufffd[2J"), (io.StringIO(), "a\x1b[2J")):
        with open_sink(None, out) as write:
            write({"a\x1b[2J": np.array(["a\x1b[2J"], object)})
        assert out.getvalue() == f"{shown}\n{shown}\n"


@pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
def test_halves_of_characters_do_not_stop_a_file(tmp_path: Path, suffix: str) -> None:
    """JSON may hold them, and so do names of files that are not UTF-8."""
    ids = ["a\ud83d", "\udcff.png", "é"]
    write_all(tmp_path / f"scores.{suffix}", columns(ids=ids))
    shown = ids if suffix == "ndjson" else ["a\ufffd", "\ufffd.png", "é"]
    assert [row["id"] for row in read(tmp_path / f"scores.{suffix}")] == shown
