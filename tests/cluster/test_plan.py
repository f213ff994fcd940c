"""Which rows each worker learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm.cluster.plan import PassPlan
from streamgmm.sources import ShuffledSource, open_source
from streamgmm.sources.base import Chunk
from streamgmm.sources.seekable import SeekableSource
from streamgmm.sources.slices import Piece, Slices, find_layout, open_slices

X = np.random.default_rng(0).normal(0, 1, (3000, 4)).astype(np.float32)


class Lengths(Slices):
    """Slices of given lengths, without rows."""

    def __init__(self, lengths: list[int], together: int = 1) -> None:
        self.together = together
        self.starts, self.ends = np.zeros(len(lengths), np.int64), np.array(lengths, np.int64)

    def read(self, piece: Piece) -> Chunk:
        raise NotImplementedError


@given(
    lengths=st.lists(st.integers(0, 50), min_size=1, max_size=30),
    rounds=st.lists(st.tuples(st.integers(1, 6), st.integers(1, 60)), min_size=1, max_size=8),
    batch_size=st.integers(1, 5),
    together=st.integers(1, 4),
)
def test_every_row_once_however_many_workers_continue(
    lengths: list[int], rounds: list[tuple[int, int]], batch_size: int, together: int
) -> None:
    slices, position, seen = Lengths(lengths, together), None, [np.zeros(n, int) for n in lengths]
    turn = 0
    while (plan := PassPlan(slices, position)).rows_left:
        workers, rows = rounds[turn % len(rounds)]
        shares = plan.deal(workers, rows, batch_size)
        assert len(shares) == workers
        for piece in (piece for share in shares for piece in share):
            seen[piece.slice][piece.first : piece.stop] += 1
        position, turn = plan.position(), turn + 1
        assert turn < 3000
    assert all((counts == 1).all() for counts in seen)


def test_shares_are_even_and_in_whole_steps() -> None:
    plan = PassPlan(Lengths([100] * 6))
    sizes = [sum((p.stop or 100) - p.first for p in share) for share in plan.deal(3, 70, batch_size=4)]
    assert sizes == [24, 24, 24]


def test_slices_that_are_loaded_together_have_one_reader_except_the_last() -> None:
    shares = PassPlan(Lengths([10] * 20, together=4)).deal(2, 1000)
    assert [[piece.slice for piece in share] for share in shares] == [
        [0, 1, 2, 3, 8, 9, 10, 11, 16, 18],
        [4, 5, 6, 7, 12, 13, 14, 15, 17, 19],
    ]


def write(folder: Path, kind: str) -> str:
    """Write the rows as one file, or as a folder of several."""
    folder.mkdir(exist_ok=True)
    parts = [X[:1000], X[1000:1001], X[1001:]] if kind.startswith("folder") else [X]
    suffix = kind.rpartition(" ")[2]
    for i, rows in enumerate(parts):
        path = folder / f"part{i}.{suffix}"
        if suffix == "npy":
            np.save(path, rows)
        elif suffix == "csv":
            order = "badc" if i == 1 else "abcd"  # columns are found by their names
            lines = [",".join(repr(float(row["abcd".index(c)])) for c in order) for row in rows]
            path.write_text("\n".join([",".join(order), *lines]) + "\n")
        else:
            pa = pytest.importorskip("pyarrow")
            import pyarrow.parquet as pq

            pq.write_table(pa.table({c: rows[:, j] for j, c in enumerate("abcd")}), path, row_group_size=300)
    return str(folder if kind.startswith("folder") else folder / f"part0.{suffix}")


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet", "folder of npy", "folder of csv", "folder of parquet"])
@pytest.mark.parametrize("seed", [None, 0])
def test_slices_hold_every_row_once(tmp_path: Path, kind: str, seed: int | None) -> None:
    name = write(tmp_path / "data", kind)
    layout = find_layout(open_source(name), 0, seed)
    slices = open_slices(open_source(name), layout)  # another reader finds the same rows
    pieces = [Piece(i, 0, int(end) // 2) for i, end in enumerate(slices.ends)]
    pieces += [Piece(i, int(end) // 2, None) for i, end in enumerate(slices.ends)]
    chunks = [slices.read(piece) for piece in pieces]
    numbers = np.concatenate([chunk.numbers for chunk in chunks])
    assert sorted(numbers.tolist()) == list(range(len(X)))
    np.testing.assert_allclose(np.concatenate([chunk.rows for chunk in chunks]), X[numbers], rtol=1e-6)


@pytest.mark.parametrize("kind", ["npy", "folder of csv"])
def test_shuffled_slices_are_the_shuffled_source(tmp_path: Path, kind: str) -> None:
    source = open_source(write(tmp_path / "data", kind))
    assert isinstance(source, SeekableSource)
    slices = open_slices(source, find_layout(source, 0, seed=7))
    found = np.concatenate([slices.read(Piece(i, 0, None)).numbers for i in range(len(slices.ends))])
    expected = np.concatenate([chunk.numbers for chunk in ShuffledSource(source, 7).chunks()])
    np.testing.assert_array_equal(found, expected)


def test_bad_rows_are_reported_once_and_lose_no_others(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join("1,2\n" if i % 10 else "1,oops\n" for i in range(2000)))
    source = open_source(str(path), skip_bad=True)
    for seed in (None, 3):
        slices = open_slices(source, find_layout(source, 0, seed))
        chunks = [
            slices.read(piece)
            for i, end in enumerate(slices.ends.tolist())
            for piece in (Piece(i, 0, end // 3), Piece(i, end // 3, None))
        ]
        assert sum(len(chunk.rows) for chunk in chunks) == 1800
        assert sorted(b.row for chunk in chunks for b in chunk.bad) == list(range(0, 2000, 10))


@pytest.mark.parametrize("kind", ["npy", "csv", "parquet", "folder of parquet"])
def test_files_behind_urls(tmp_path: Path, kind: str) -> None:
    fsspec = pytest.importorskip("fsspec")
    place = write(tmp_path / "data", kind)
    remote: Any = fsspec.filesystem("memory")
    url = f"memory://{kind.replace(' ', '')}-urls"
    for path in sorted(Path(tmp_path / "data").iterdir()):
        remote.pipe(f"{url}/{path.name}", path.read_bytes())
    source = open_source(url if Path(place).is_dir() else f"{url}/{Path(place).name}")
    chunks = list(source.chunks())
    np.testing.assert_allclose(np.concatenate([c.rows for c in chunks]), X, rtol=1e-6)
    rest = np.concatenate([X[:0], *(c.rows for c in source.chunks(chunks[0].position))])
    np.testing.assert_allclose(rest, X[len(chunks[0].rows) :], rtol=1e-6)


def test_a_url_that_holds_nothing() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(FileNotFoundError, match="does not exist, or holds no file ending in"):
        open_source("memory://nothing-here")
