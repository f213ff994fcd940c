"""Small files that would fill the memory are refused, and limits can be raised."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamgmm.sources import SourceError, open_source

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


def table_of(ids: list[str | None], count: int, *, dictionary: bool) -> pa.Table:
    column = pa.array([ids[i % len(ids)] for i in range(count)]).dictionary_encode()
    return pa.table({"id": column if dictionary else column.cast(pa.string()), "a": np.arange(float(count))})


@pytest.mark.parametrize("dictionary", [True, False])
def test_rows_share_ids_of_a_dictionary(tmp_path: Path, dictionary: bool) -> None:
    pq.write_table(table_of(["x" * 50_000, None, "y"], 900, dictionary=dictionary), tmp_path / "x.parquet")
    ids = [i for chunk in open_source(str(tmp_path / "x.parquet"), id_column="id").chunks() for i in chunk.ids or ()]
    assert ids[1:5] == [None, "y", "x" * 50_000, None]
    assert len({id(value) for value in ids}) == 3


@pytest.mark.parametrize("dictionary", [True, False])
def test_long_ids_are_refused(tmp_path: Path, dictionary: bool) -> None:
    pq.write_table(table_of(["x" * 100_001], 50, dictionary=dictionary), tmp_path / "x.parquet")
    source = open_source(str(tmp_path / "x.parquet"), id_column="id")
    with pytest.raises(SourceError, match=r"column 'id' of x\.parquet has an id of 100,001 characters"):
        list(source.chunks())
    assert sum(len(chunk.rows) for chunk in open_source(str(tmp_path / "x.parquet")).chunks()) == 50


def test_columns_that_expand_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = pa.table({"a": np.zeros(200_000)})
    pq.write_table(numbers, tmp_path / "x.parquet", compression="zstd", use_dictionary=False)
    assert open_source(str(tmp_path / "x.parquet")).n_rows == 200_000
    monkeypatch.setenv("STREAMGMM_MOST_BYTES", "1000000")
    with pytest.raises(SourceError, match=r"column 'a' of x.parquet would expand from [\d,]+ to 1,6[\d,]+ bytes"):
        open_source(str(tmp_path / "x.parquet"))
