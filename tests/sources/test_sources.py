"""Every source: the same rows, positions that resume, bad rows that are reported."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgmm.errors import Remedy
from streamgmm.sources import Source, SourceError, open_source

pa = pytest.importorskip("pyarrow")
X = np.random.default_rng(0).random((2500, 3)).round(6)


def write_csv(folder: Path) -> Path:
    path = folder / "x.csv"
    path.write_text("a,b,c\n" + "".join(",".join(map(repr, row)) + "\n" for row in X.tolist()))
    return path


def write_bare_csv_gz(folder: Path) -> Path:
    path = folder / "x.csv.gz"
    path.write_bytes(gzip.compress("".join(",".join(map(repr, row)) + "\n" for row in X.tolist()).encode()))
    return path


def write_headed_csv_gz(folder: Path) -> Path:
    path = folder / "h.csv.gz"
    path.write_bytes(gzip.compress(write_csv(folder).read_bytes()))
    return path


def write_arrays(folder: Path) -> Path:
    path = folder / "x.ndjson"
    path.write_text("".join(json.dumps(row) + "\n" for row in X.tolist()))
    return path


def write_objects(folder: Path) -> Path:
    path = folder / "o.jsonl"
    path.write_text("".join(json.dumps(dict(zip("abc", row, strict=True))) + "\n" for row in X.tolist()))
    return path


def write_npy(folder: Path) -> Path:
    np.save(folder / "x.npy", X)
    return folder / "x.npy"


def write_npz(folder: Path) -> Path:
    np.savez(folder / "x.npz", x=X, y=np.zeros(3))
    return folder / "x.npz"


def write_parquet(folder: Path) -> Path:
    import pyarrow.parquet as pq

    pq.write_table(pa.table({n: X[:, i] for i, n in enumerate("abc")}), folder / "x.parquet", row_group_size=700)
    return folder / "x.parquet"


def write_vectors(folder: Path) -> Path:
    import pyarrow.parquet as pq

    vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 3)
    pq.write_table(pa.table({"v": vectors}), folder / "v.parquet", row_group_size=700)
    return folder / "v.parquet"


def write_arrow(folder: Path) -> Path:
    table = pa.table({n: X[:, i] for i, n in enumerate("abc")})
    with pa.OSFile(str(folder / "x.arrow"), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=600)
    return folder / "x.arrow"


WRITERS = [
    write_csv,
    write_bare_csv_gz,
    write_headed_csv_gz,
    write_arrays,
    write_objects,
    write_npy,
    write_npz,
    write_parquet,
    write_vectors,
    write_arrow,
]


@pytest.fixture(params=WRITERS, ids=lambda w: w.__name__)
def source(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Source:
    monkeypatch.setattr("streamgmm.sources.base.CHUNK_BYTES", 4096)  # many chunks of a small file
    return open_source(str(request.param(tmp_path)))


def test_all_rows_in_their_order(source: Source) -> None:
    chunks = list(source.chunks())
    np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), X)
    np.testing.assert_array_equal(np.concatenate([c.numbers for c in chunks]), np.arange(2500))
    assert chunks[-1].position["row"] == 2500
    assert len(chunks) > 3
    assert source.n_rows in (None, 2500)


def test_any_position_resumes(source: Source) -> None:
    chunks = list(source.chunks())
    for at in (0, len(chunks) // 2, len(chunks) - 1):
        position = json.loads(json.dumps(chunks[at].position))
        rest = [c.rows for c in source.chunks(position)]
        done = position["row"]
        np.testing.assert_array_equal(np.concatenate([*rest, np.empty((0, 3))]), X[done:])


@pytest.mark.parametrize("write", [write_csv, write_objects, write_parquet, write_arrow])
def test_columns_and_ids(write: Callable[[Path], Path], tmp_path: Path) -> None:
    source = open_source(str(write(tmp_path)), columns=["c", "a"], id_column="b")
    chunk = next(source.chunks())
    np.testing.assert_array_equal(chunk.rows, X[: len(chunk.rows)][:, [2, 0]])
    assert source.feature_names == ["c", "a"]
    np.testing.assert_array_equal(np.array(chunk.ids, dtype=float), X[: len(chunk.rows), 1])


@pytest.mark.parametrize("write", [write_csv, write_parquet])
def test_a_missing_column_is_reported(write: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no column 'z'; it has a, b, c"):
        list(open_source(str(write(tmp_path)), columns=["z"]).chunks())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1,2", "2 columns; expected 3"),
        ("1,2,3,4", "4 columns"),
        ("1,x,3", "'x' in column b"),
        ("1,,3", "no number in"),
    ],
)
def test_bad_lines_of_csv(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "x.csv"
    path.write_text(f"a,b,c\n1,2,3\n4,5,6\n{line}\n7,8,9\n")
    with pytest.raises(SourceError, match=f"row 2 of x.csv has .*{reason}") as caught:
        list(open_source(str(path)).chunks())
    assert Remedy.SKIP_BAD_ROWS in caught.value.remedies
    assert (Remedy.ALLOW_MISSING in caught.value.remedies) == (line == "1,,3")
    [chunk] = open_source(str(path), skip_bad=True).chunks()
    np.testing.assert_array_equal(chunk.rows, [[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    assert chunk.numbers.tolist() == [0, 1, 3]
    assert [b.row for b in chunk.bad] == [2]
    assert chunk.position["row"] == 4


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[1, 2]", "2 features"),
        ("{", "not JSON"),
        ("7", "int"),
        ('[1, "x", 2]', "'x' in column 1"),
        ("[1, null, 2]", "no number"),
    ],
)
def test_bad_lines_of_ndjson(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "x.ndjson"
    path.write_text(f"[1, 2, 3]\n{line}\n[4, 5, 6]\n")
    with pytest.raises(SourceError, match=f"row 1 of x.ndjson .*{reason}"):
        list(open_source(str(path)).chunks())
    [chunk] = open_source(str(path), skip_bad=True).chunks()
    np.testing.assert_array_equal(chunk.rows, [[1, 2, 3], [4, 5, 6]])


@contextmanager
def piped(text: bytes, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Put text on standard input."""
    end, begin = os.pipe()
    os.write(begin, text)
    os.close(begin)
    with open(end) as file, monkeypatch.context() as patch:
        patch.setattr("sys.stdin", file)
        yield


def test_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (b"1,2\n3,4\n", b"a,b\n1,2\n3,4", b"[1, 2]\n[3, 4]\n"):
        with piped(text, monkeypatch):
            chunks = list(open_source("-").chunks())
        np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), [[1, 2], [3, 4]])


def picture(shade: int, side: int = 4) -> bytes:
    raw = io.BytesIO()
    Image.new("L", (side, side), shade).save(raw, "PNG")
    return raw.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_images(tmp_path: Path, packed: bool) -> None:
    names = ["a/1.png", "a/2.png", "b/1.png"]
    if packed:
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            for shade, name in enumerate(names):
                archive.writestr(name, picture(shade))
        source = open_source(str(tmp_path / "x.zip"))
    else:
        for shade, name in enumerate(names):
            (tmp_path / "x" / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "x" / name).write_bytes(picture(shade))
        (tmp_path / "x" / "readme.txt").write_text("not an image")
        source = open_source(str(tmp_path / "x"))
    [chunk] = source.chunks()
    assert chunk.rows.dtype == np.uint8
    np.testing.assert_array_equal(chunk.rows, np.repeat([[0], [1], [2]], 16, axis=1))
    assert chunk.ids == tuple(names)
    [rest] = source.chunks({"row": 2})
    assert rest.rows[:, 0].tolist() == [2]


def test_an_image_of_another_shape_is_reported(tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(picture(1))
    (tmp_path / "2.png").write_bytes(picture(1, side=5))
    with pytest.raises(SourceError, match=r"image 2.png .*has shape \(5, 5\); the first image has \(4, 4\)"):
        list(open_source(str(tmp_path)).chunks())
    [chunk] = open_source(str(tmp_path), skip_bad=True).chunks()
    assert len(chunk.rows) == 1


def test_glyphs_resume() -> None:
    source = open_source("glyphs:A-B")
    stream = source.chunks()
    first, second = next(stream), next(stream)
    again = next(source.chunks(first.position))
    np.testing.assert_array_equal(second.rows, again.rows)


@pytest.mark.parametrize(
    ("text", "problem"), [("nothing.csv", "does not exist; expected a .csv"), ("kind.xyz", "has an unknown format")]
)
def test_unknown_sources(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "kind.xyz").write_text("1,2\n")
    with pytest.raises((SourceError, FileNotFoundError), match=problem):
        open_source(str(tmp_path / text))


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.arrow", "x.zip"])
def test_half_a_file(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"half of something")
    with pytest.raises(SourceError, match=f"{name} is not a valid"):
        list(open_source(str(tmp_path / name)).chunks())


def test_an_empty_file_has_no_rows(tmp_path: Path) -> None:
    for name in ("x.csv", "x.ndjson"):
        (tmp_path / name).write_text("")
        assert list(open_source(str(tmp_path / name)).chunks()) == []
