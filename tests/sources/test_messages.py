"""Errors of the user and bugs of ours are told apart; only the command line mentions its options."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import streamgmm.sinks
import streamgmm.sources
from streamgmm.errors import DataWarning, Remedy
from streamgmm.sources import SourceError, open_source
from streamgmm.sources.csv_lines import CsvParser

FILES = [
    path for room in (streamgmm.sources, streamgmm.sinks) for path in sorted(Path(room.__file__).parent.rglob("*.py"))
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_no_options_of_the_command_line(path: Path) -> None:
    assert not re.findall(r"--[a-z]+|\btrain\b", path.read_text())


def test_a_bug_in_a_parser_is_not_bad_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: CsvParser, line: bytes) -> None:
        raise ValueError("bug")

    monkeypatch.setattr(CsvParser, "parse", broken)
    (tmp_path / "x.csv").write_text("a,b\n1,2\n1,x\n")
    with pytest.raises(ValueError, match=r"^bug$") as caught:
        list(open_source(str(tmp_path / "x.csv"), skip_bad=True).chunks())
    assert not isinstance(caught.value, SourceError)


def test_columns_of_sources_without_names(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"")  # which is not opened for this
    for name in ("glyphs:A", str(tmp_path)):
        with pytest.raises(SourceError, match="have no names") as caught:
            open_source(name, columns=["a"])
        assert caught.value.remedies == (Remedy.DROP_COLUMNS,)


def test_features_that_appear_late_are_ignored_with_a_warning(tmp_path: Path) -> None:
    (tmp_path / "x.ndjson").write_text('{"a": 1}\n{"a": 2, "b": 3}\n{"a": 2, "c": 3}\n')
    with pytest.warns(DataWarning, match="some rows of x.ndjson have 'b', which the first rows lack") as caught:
        [chunk] = open_source(str(tmp_path / "x.ndjson")).chunks()
    assert chunk.rows.tolist() == [[1], [2], [2]]
    assert [w.message.remedies for w in caught] == [(Remedy.CHOOSE_COLUMNS,)]


def test_unknown_letters_are_an_error_of_the_source() -> None:
    with pytest.raises(SourceError, match="'K' is not a range of letters"):
        open_source("glyphs:K")
