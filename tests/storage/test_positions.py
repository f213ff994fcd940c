"""Positions come back from files, which may be damaged: each ends in a sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.cluster.plan import PassPlan
from streamgmm.errors import SourceError
from streamgmm.sources import ShuffledSource, open_source
from streamgmm.sources.numpy_files import ArraySource
from streamgmm.sources.slices import Slices


def write_table(folder: Path, rows: int = 50) -> str:
    (folder / "x.csv").write_text("a,b\n" + "".join(f"{i},{-i}\n" for i in range(rows)))
    return str(folder / "x.csv")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"row": -1}, "position.row is -1; expected an integer"),
        ({"row": "7"}, "position.row is '7'"),
        ({"byte": None}, "position.byte is None"),
        ({"byte": 2**60}, "position.byte is"),
        ({"byte": 5}, "no line starts at byte 5"),
    ],
)
def test_positions_in_a_text(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    source = open_source(write_table(tmp_path))
    position = next(source.chunks()).position
    with pytest.raises(SourceError, match=words):
        list(source.chunks({**position, **change}))


def test_a_position_of_another_kind_of_source(tmp_path: Path) -> None:
    source = open_source(write_table(tmp_path))
    with pytest.raises(SourceError, match=r"belongs to another kind of source than x\.csv: it has no 'byte'"):
        list(source.chunks({"row": 3}))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"first": None}, "position.first is None; expected an object"),
        ({"end": {"row": 2**40}}, "has 20 rows, but rows 0 to 1,099,511,627,776 were shuffled before"),
        ({"first": {"row": 15}, "end": {"row": 9}}, "rows 15 to 9"),
        ({"order": 9}, "shuffled by another version"),
    ],
)
def test_positions_of_shuffled_rows(change: dict[str, Any], words: str) -> None:
    source = ShuffledSource(ArraySource("x", np.arange(20.0)[:, None]))
    position = next(source.chunks()).position
    with pytest.raises(SourceError, match=words):
        list(source.chunks(json.loads(json.dumps({**position, **change}))))


class Three(Slices):
    """Three slices of ten rows."""

    def __init__(self) -> None:
        self.starts, self.ends = np.zeros(3, np.int64), np.full(3, 10, np.int64)

    def read(self, piece: object) -> Any:
        raise NotImplementedError


@pytest.mark.parametrize(
    "position",
    [
        {"finished": [[0, 9]], "begun": {}},
        {"finished": [[2, 1]], "begun": {}},
        {"finished": [[0]], "begun": {}},
        {"finished": 3, "begun": {}},
        {"finished": [], "begun": {"7": 3}},
        {"finished": [], "begun": {"-1": 3}},
        {"finished": [], "begun": {"x": 3}},
        {"finished": [], "begun": {"1": "3"}},
        {"begun": {}},
    ],
)
def test_what_is_left_of_a_pass(position: dict[str, Any]) -> None:
    assert PassPlan(Three(), {"finished": [[0, 1]], "begun": {"1": 4}}).rows_left == 16
    with pytest.raises(SourceError):
        PassPlan(Three(), position)
