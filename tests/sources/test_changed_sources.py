"""Sources that have changed since they were read, and rows that differ from the first ones."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm.errors import Remedy
from streamgmm.sources import SourceError, fingerprint, has_fingerprint, open_source
from tests.sources.brokers import Brokers

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(scope="module")
def brokers() -> Brokers:
    return Brokers()


class TestPositions:
    def test_text_that_has_shrunk(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text("1,2\n" * 500)
        *_, last = open_source(str(path)).chunks()
        path.write_text("1,2\n" * 100)
        with pytest.raises(SourceError, match=r"x\.csv has changed since it was read: no line starts at byte 2000"):
            list(open_source(str(path)).chunks(last.position))

    def test_no_number_is_cut(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text("0.123456,5\n" * 3)
        with pytest.raises(SourceError, match="no line starts at byte 5"):
            list(open_source(str(path)).chunks({"row": 1, "byte": 5}))

    @pytest.mark.parametrize("more", ["\n5,6\n", "\r\n5,6\r\n"])
    def test_a_last_line_without_an_end(self, tmp_path: Path, more: str) -> None:
        path = tmp_path / "x.csv"
        path.write_text("1,2\n3,4")
        *_, last = open_source(str(path)).chunks()
        with path.open("a", newline="") as file:
            file.write(more)
        rows = [row for c in open_source(str(path)).chunks(last.position) for row in c.rows.tolist()]
        assert rows == [[5, 6]]

    def test_arrays_and_tables_that_have_shrunk(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.zeros((10, 2)))
        pq.write_table(pa.table({"a": np.zeros(10)}), tmp_path / "x.parquet")
        for name in ("x.npy", "x.parquet"):
            source = open_source(str(tmp_path / name))
            assert not list(source.chunks({"row": 10}))
            with pytest.raises(SourceError, match=f"{name} has 10 rows, but 11 rows were read from it"):
                list(source.chunks({"row": 11}))

    @pytest.mark.services
    def test_a_topic_that_was_replaced(self, brokers: Brokers) -> None:
        url = brokers.fill("again", [np.zeros(3, "<f4").tobytes()] * 5, partition=0)
        with pytest.raises(SourceError, match="topic again ends at offset 5 in partition 0, but was read up to 9000"):
            list(open_source(url).chunks({"row": 9000, "offsets": {"0": 9000}}))

    def test_fingerprints(self, tmp_path: Path) -> None:
        path = tmp_path / "x"
        path.write_bytes(b"abc")
        known = fingerprint(path)
        path.write_bytes(b"abcdef")
        assert fingerprint(path, known[0]) == known
        assert has_fingerprint(path, tuple(known))
        path.write_bytes(b"abd")
        assert fingerprint(path, known[0]) != known
        assert not has_fingerprint(path, known)


class TestFirstRows:
    def test_objects_that_lack_a_feature_at_first(self, tmp_path: Path) -> None:
        (tmp_path / "x.ndjson").write_text('{"a": 1}\n{"a": 2, "b": 3}\n{"c": 1}\n')
        source = open_source(str(tmp_path / "x.ndjson"), missing=True, skip_bad=True)
        source.expect(["a", "b"], 2)
        [chunk] = source.chunks()
        np.testing.assert_array_equal(chunk.rows, [[1, np.nan], [2, 3]])
        assert [b.reason for b in chunk.bad] == ["has none of the features 'a', 'b'"]

    def test_arrays_of_another_length_at_first(self, tmp_path: Path) -> None:
        (tmp_path / "x.ndjson").write_text("[1, 2]\n[1, 2, 3]\n")
        source = open_source(str(tmp_path / "x.ndjson"), skip_bad=True)
        source.expect(None, 3)
        [chunk] = source.chunks()
        assert chunk.rows.tolist() == [[1, 2, 3]]

    @pytest.mark.services
    def test_most_vectors_decide(self, brokers: Brokers) -> None:
        vectors = [np.full(3, i, "<f4").tobytes() for i in range(20)]
        url = brokers.fill("odd-first", [bytes(8), *vectors], partition=0)
        [chunk] = open_source(url, skip_bad=True).chunks()
        assert (len(chunk.rows), [b.row for b in chunk.bad]) == (20, [0])
        few = open_source(brokers.fill("few", [bytes(8), bytes(8), vectors[0]], partition=0), skip_bad=True)
        few.expect(None, 3)
        [chunk] = few.chunks()
        assert (len(chunk.rows), [b.row for b in chunk.bad]) == (1, [0, 1])

    @pytest.mark.services
    def test_messages_of_no_known_form(self, brokers: Brokers) -> None:
        with pytest.raises(SourceError, match="first message of topic text has 5 bytes; expected JSON"):
            list(open_source(brokers.fill("text", [b"hello"], partition=0)).chunks())
        url = brokers.fill("named", [np.zeros(3, "<f4").tobytes()], partition=0)
        with pytest.raises(SourceError, match="contains vectors, whose columns have no names") as caught:
            list(open_source(url, columns=["a"]).chunks())
        assert caught.value.remedies == (Remedy.DROP_COLUMNS,)

    def test_a_short_line_has_no_id(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("a,b,z\n1,2,k\n3,4\n5,6,m\n")
        source = open_source(str(tmp_path / "x.csv"), columns=["a", "b"], id_column="z", skip_bad=True)
        [chunk] = source.chunks()
        assert (chunk.rows.tolist(), chunk.ids, chunk.bad[0].row) == ([[1, 2], [5, 6]], ("k", "m"), 1)


class TestVectors:
    def write(self, folder: Path, values: object, **settings: object) -> str:
        pq.write_table(pa.table({"v": values}), folder / "x.parquet", **settings)
        return str(folder / "x.parquet")

    def test_lists_of_one_length_are_vectors(self, tmp_path: Path) -> None:
        x = np.arange(60.0).reshape(20, 3)
        source = open_source(self.write(tmp_path, list(map(list, x)), row_group_size=7))
        np.testing.assert_array_equal(np.concatenate([c.rows for c in source.chunks()]), x)
        path = self.write(tmp_path, [[1.0, 2.0], [1.0], [1.0, 2.0, 3.0]])
        with pytest.raises(SourceError, match="vectors of 1 to 3 numbers; expected 2, as in the first one"):
            list(open_source(path).chunks())

    def test_missing_vectors(self, tmp_path: Path) -> None:
        kind = pa.list_(pa.float32(), 2)
        path = self.write(tmp_path, pa.array([[1, 2], None, [3, None]], kind))
        [chunk] = open_source(path, missing=True).chunks()
        np.testing.assert_array_equal(chunk.rows, [[1, 2], [np.nan, np.nan], [3, np.nan]])
        with pytest.raises(SourceError, match="has missing values"):
            list(open_source(path).chunks())

    def test_small_row_groups_are_read_together(self, tmp_path: Path) -> None:
        x = np.arange(500.0)
        source = open_source(self.write(tmp_path, x, row_group_size=3))
        assert [len(c.rows) for c in source.chunks()] == [500]
        for row in (1, 250, 499):
            rest = [c.rows.ravel() for c in source.chunks({"row": row})]
            np.testing.assert_array_equal(np.concatenate(rest), x[row:])

    def test_no_rows(self, tmp_path: Path) -> None:
        assert not list(open_source(self.write(tmp_path, pa.array([], pa.float64()))).chunks())


def test_deleted_images_and_late_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    monkeypatch.setattr("streamgmm.sources.base.CHUNK_BYTES", 32)  # two images
    source = open_source(str(tmp_path), follow=True)  # still empty
    assert not list(source.chunks())
    for i in range(5, 9):
        Image.new("L", (4, 4), i).save(tmp_path / f"{i}.png")
    chunks = source.chunks()
    first = next(chunks)
    (tmp_path / "8.png").unlink()
    second = next(chunks)
    assert [first.rows[:, 0].tolist(), second.rows[:, 0].tolist()] == [[5, 6], [7]]
    assert (second.bad, second.position) == ((), {"row": 4, "last": "8.png"})
    for i in (10, 11):
        Image.new("L", (4, 4), i).save(tmp_path / f"{i}.png")
    position = json.loads(json.dumps(second.position))
    with pytest.warns(UserWarning, match=r"at least 1 new images of .* are skipped: their names sort before 8\.png"):
        assert not list(source.chunks(position))
