"""Unusual files: quotes, byte order marks, incomplete lines, columns in another order, damage."""

from __future__ import annotations

import gzip
import io
import json
import os
import zipfile
from decimal import Decimal
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from streamgmm.errors import DataWarning, Remedy
from streamgmm.sources import Source, SourceError, open_source, select_columns

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")


def all_rows(source: Source) -> list[list[float]]:
    return [row.tolist() for chunk in source.chunks() for row in chunk.rows]


def csv(folder: Path, text: str | bytes) -> str:
    (folder / "x.csv").write_bytes(text.encode() if isinstance(text, str) else text)
    return str(folder / "x.csv")


class TestHeadings:
    def test_quoted_commas(self, tmp_path: Path) -> None:
        path = csv(tmp_path, 'name,x,y,z\n"A, B",1,2,3\nC,1,2,3\n')
        assert all_rows(open_source(path, columns=["y", "z"])) == [[2, 3], [2, 3]]

    def test_two_columns_of_one_name_are_both_learned(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "a,b,a\n1,2,3\n")
        assert all_rows(open_source(path)) == [[1, 2, 3]]
        with pytest.raises(SourceError, match="2 columns named 'a'") as caught:
            all_rows(open_source(path, columns=["a"]))
        assert caught.value.remedies == (Remedy.NUMBER_COLUMNS,)

    def test_numbers_of_columns_are_a_heading(self, tmp_path: Path) -> None:
        assert all_rows(open_source(csv(tmp_path, "0,1,2\n5,6,7\n"))) == [[5, 6, 7]]

    @pytest.mark.parametrize("heading", ["", "a,b\n"])
    def test_byte_order_marks(self, tmp_path: Path, heading: str) -> None:
        source = open_source(csv(tmp_path, b"\xef\xbb\xbf" + f"{heading}1,2\n3,4\n".encode()))
        assert all_rows(source) == [[1, 2], [3, 4]]
        assert source.feature_names == (["a", "b"] if heading else None)

    def test_a_first_row_with_a_gap_is_a_row(self, tmp_path: Path) -> None:
        path = csv(tmp_path, "?,2\n3,4\n")
        np.testing.assert_array_equal(all_rows(open_source(path, missing=True)), [[np.nan, 2], [3, 4]])

    def test_a_text_id_is_no_heading(self, tmp_path: Path) -> None:
        [chunk] = open_source(csv(tmp_path, "s1,2,1\ns2,4,3\n"), id_column="0", columns=["1", "2"]).chunks()
        assert chunk.rows.tolist() == [[2, 1], [4, 3]]
        assert chunk.ids == ("s1", "s2")

    def test_blank_lines_come_before_a_heading(self, tmp_path: Path) -> None:
        assert all_rows(open_source(csv(tmp_path, "\n\na,b\n1,2\n"))) == [[1, 2]]

    def test_other_encodings_are_reported(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"first line of x\.csv is not UTF-8\. Convert the file to UTF-8\."):
            all_rows(open_source(csv(tmp_path, "größe,b\n1,2\n".encode("latin1"))))


class TestGrowingText:
    def test_an_incomplete_line_is_left_for_later(self, tmp_path: Path) -> None:
        path = Path(csv(tmp_path, "0.5\n0.2"))
        source = open_source(str(path), follow=True)
        [chunk] = source.chunks()
        assert chunk.rows.tolist() == [[0.5]]
        with path.open("a") as file:
            file.write("5\n")
        [chunk] = source.chunks(chunk.position)
        assert chunk.rows.tolist() == [[0.25]]

    def test_without_follow_an_incomplete_line_is_a_row(self, tmp_path: Path) -> None:
        assert all_rows(open_source(csv(tmp_path, "0.5\n0.25"))) == [[0.5], [0.25]]

    def test_a_pipe_is_read_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end, begin = os.pipe()
        with open(end) as file:
            monkeypatch.setattr("sys.stdin", file)
            os.write(begin, b"a,b\n1,2\n3,")
            source = open_source("-", follow=True, columns=["a"])
            stream = source.chunks()
            first = next(stream)
            os.write(begin, b"4\n5,6\n")
            second = next(stream)
            os.close(begin)
            assert list(stream) == []
            assert list(source.chunks(second.position)) == []  # as when the pipe is followed
        assert [first.rows.tolist(), second.rows.tolist()] == [[[1]], [[3], [5]]]

    def test_lines_of_a_pipe_are_not_held_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end, begin = os.pipe()
        with open(end) as file:
            monkeypatch.setattr("sys.stdin", file)
            os.write(begin, b"1,2\n3,4\n")
            assert len(next(open_source("-").chunks()).rows) == 2
        os.close(begin)

    def test_rows_already_read_from_a_pipe_are_skipped(self, monkeypatch: pytest.MonkeyPatch) -> None:
        end, begin = os.pipe()
        os.write(begin, b"1\n2\n3\n")
        os.close(begin)
        with open(end) as file:
            monkeypatch.setattr("sys.stdin", file)
            assert [c.rows.tolist() for c in open_source("-").chunks({"row": 2, "byte": 0})] == [[[3]]]


class TestDamage:
    def test_half_of_a_zipped_file(self, tmp_path: Path) -> None:
        whole = gzip.compress(b"".join(b"%d,%d\n" % (i, i * i) for i in range(20_000)))
        (tmp_path / "x.csv.gz").write_bytes(whole[: len(whole) // 2])
        with pytest.raises(SourceError, match=r"x\.csv\.gz is damaged"):
            all_rows(open_source(str(tmp_path / "x.csv.gz")))

    @pytest.mark.parametrize("line", ["1\r2,3", '"' + "9" * 140_000 + '",1'])
    def test_lines_that_are_not_csv_can_be_skipped(self, tmp_path: Path, line: str) -> None:
        source = open_source(csv(tmp_path, f"1,2\n{line}\n3,4\n"), skip_bad=True)
        [chunk] = source.chunks()
        assert chunk.rows.tolist() == [[1, 2], [3, 4]]
        assert [b.row for b in chunk.bad] == [1]

    @pytest.mark.parametrize("line", ["[1]", "1" + "0" * 400, "[" * 100_000, '{"a": 1' + "0" * 400 + "}"])
    def test_lines_that_are_not_rows_can_be_skipped(self, tmp_path: Path, line: str) -> None:
        (tmp_path / "x.ndjson").write_text(f"[1, 2]\n{line}\n[3, 4]\n")
        [chunk] = open_source(str(tmp_path / "x.ndjson"), skip_bad=True, columns=["0", "1"]).chunks()
        assert chunk.rows.tolist() == [[1, 2], [3, 4]]
        assert len(chunk.bad) == 1

    def test_a_broken_first_line_does_not_hide_names(self, tmp_path: Path) -> None:
        (tmp_path / "x.ndjson").write_text('{"a": \n{"a": 1, "b": 2}\n{"b": 4, "a": 3}\n')
        source = open_source(str(tmp_path / "x.ndjson"), skip_bad=True)
        assert all_rows(source) == [[1, 2], [3, 4]]
        assert source.feature_names == ["a", "b"]

    def test_names_with_halves_of_characters_are_not_features(self, tmp_path: Path) -> None:
        """No file of scores and no terminal could show them."""
        (tmp_path / "x.ndjson").write_text(
            '{"\\ud800": 1, "b": 2}\n{"a": 1, "b": 2}\n{"\\ud800": 0}\n{"b": 4, "a": 3}\n'
        )
        source = open_source(str(tmp_path / "x.ndjson"), skip_bad=True)
        assert all_rows(source) == [[1, 2], [3, 4]]
        assert source.feature_names == ["a", "b"]

    def test_lines_without_features_at_the_start(self, tmp_path: Path) -> None:
        """A heartbeat does not decide how many features there are."""
        for number, start in enumerate(("{}\n" * 5, "[]\n" * 5)):
            path = tmp_path / f"{number}.ndjson"
            row = '{"a": 1, "b": 2}\n' if start[0] == "{" else "[1, 2]\n"
            path.write_text(start + 3 * row)
            assert all_rows(open_source(str(path), skip_bad=True)) == [[1, 2]] * 3
            with pytest.raises(SourceError, match=r"row 0 of .*ndjson has no"):
                all_rows(open_source(str(path)))

    def test_a_name_with_half_a_character_in_every_row(self, tmp_path: Path) -> None:
        (tmp_path / "x.ndjson").write_text('{"a": 1, "b": 2, "\\ud83d": 3}\n' * 4)
        with pytest.warns(DataWarning, match="it is ignored"):
            assert all_rows(open_source(str(tmp_path / "x.ndjson"))) == [[1, 2]] * 4
        assert all_rows(open_source(str(tmp_path / "x.ndjson"), columns=["b"])) == [[2]] * 4

    def test_points_beside_decimal_commas_may_separate_thousands(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("a;b\n1.243;2,38\n960;5,69\n")
        with pytest.warns(DataWarning) as told:
            assert all_rows(open_source(str(tmp_path / "x.csv"))) == [[1.243, 2.38], [960, 5.69]]
        assert any("1.243 is not a thousand" in str(warning.message) for warning in told)

    def test_spaces_around_what_is_missing(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("a,b\n1, NA\n2, 5\n3, \n")
        rows = all_rows(open_source(str(tmp_path / "x.csv"), missing=True))
        np.testing.assert_array_equal(rows, [[1, np.nan], [2, 5], [3, np.nan]])

    def test_half_of_packed_arrays(self, tmp_path: Path) -> None:
        np.savez_compressed(tmp_path / "x.npz", x=np.random.default_rng(0).random((500, 4)))
        raw = bytearray((tmp_path / "x.npz").read_bytes())
        raw[200:220] = bytes(20)
        (tmp_path / "x.npz").write_bytes(raw)
        with pytest.raises(SourceError, match=r"x\.npz is not a valid NumPy file"):
            open_source(str(tmp_path / "x.npz"))

    def test_an_array_without_rows(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.empty((0, 5)))
        assert all_rows(open_source(str(tmp_path / "x.npy"))) == []

    def test_another_kind_of_position_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"row 3 belongs to another kind of source than x\.csv"):
            list(open_source(csv(tmp_path, "1,2\n")).chunks({"row": 3}))


class TestTables:
    def write(self, folder: Path, table: object) -> str:
        import pyarrow.parquet as pq

        pq.write_table(table, folder / "x.parquet")
        return str(folder / "x.parquet")

    def test_the_index_of_pandas_is_not_a_feature(self, tmp_path: Path) -> None:
        about = {b"pandas": json.dumps({"index_columns": ["__index_level_0__"]}).encode()}
        table = pa.table({"a": [1.0, 2.0], "__index_level_0__": [7, 8]}).replace_schema_metadata(about)
        source = open_source(self.write(tmp_path, table))
        assert source.feature_names == ["a"]
        assert all_rows(source) == [[1], [2]]

    def test_booleans_and_decimals_are_features(self, tmp_path: Path) -> None:
        table = pa.table({"a": [1.5, 2.5], "flag": [True, None], "price": [Decimal("1.25"), Decimal("2.50")]})
        path = self.write(tmp_path, table)
        assert open_source(path).feature_names == ["a", "flag", "price"]
        rows = all_rows(open_source(path, columns=["flag", "price"], missing=True))
        np.testing.assert_array_equal(rows, [[1, 1.25], [np.nan, 2.5]])

    @pytest.mark.parametrize("columns", [["c", "a"], ["v"]])
    def test_large_row_groups_are_read_piece_by_piece(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, columns: list[str]
    ) -> None:
        monkeypatch.setattr("streamgmm.sources.arrow_files.WHOLE_GROUP_BYTES", 1000)
        monkeypatch.setattr("streamgmm.sources.base.CHUNK_BYTES", 80)
        x = np.arange(300.0).reshape(100, 3)
        vectors = pa.FixedSizeListArray.from_arrays(pa.array(x[:, [2, 0]].ravel()), 2)
        table = pa.table({"a": x[:, 0], "b": x[:, 1], "c": x[:, 2], "v": vectors})
        source = open_source(self.write(tmp_path, table), columns=columns, id_column="b")
        chunks = list(source.chunks())
        assert [len(c.rows) for c in chunks] == [10] * 10
        np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), x[:, [2, 0]])
        assert sum((c.ids for c in chunks if c.ids), ()) == tuple(x[:, 1])
        later = list(source.chunks({"row": 47}))
        np.testing.assert_array_equal(np.concatenate([c.rows for c in later]), x[47:, [2, 0]])
        assert later[0].ids == tuple(x[47:50, 1])

    def test_times_are_not_numbers(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, pa.table({"at": pa.array([1, 2], pa.timestamp("s")), "a": [1.0, 2.0]}))
        with pytest.raises(SourceError, match=r"column 'at' of x\.parquet contains timestamp\[.*\]; expected numbers"):
            open_source(path, columns=["at", "a"])

    def test_arrow_files_with_metadata(self, tmp_path: Path) -> None:
        table = pa.table({"a": [1.0, 2.0]})
        place = str(tmp_path / "x.arrow")
        with pa.OSFile(place, "wb") as sink, pa.ipc.new_file(sink, table.schema, metadata={"by": "us"}) as file:
            file.write_table(table)
        assert open_source(str(tmp_path / "x.arrow")).n_rows == 2


class TestImages:
    def image(self, mode: str, value: int) -> bytes:
        raw = io.BytesIO()
        Image.new(mode, (4, 4), value).save(raw, "PNG")
        return raw.getvalue()

    def test_hidden_files_of_archives_are_not_images(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            archive.writestr("__MACOSX/._a.png", b"nothing")
            archive.writestr("a.png", self.image("L", 7))
        assert all_rows(open_source(str(tmp_path / "x.zip"))) == [[7] * 16]

    def test_a_broken_first_image_can_be_skipped(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(b"broken")
        (tmp_path / "b.png").write_bytes(self.image("L", 7))
        with pytest.raises(SourceError, match=r"image a\.png .* cannot be read"):
            open_source(str(tmp_path))
        assert all_rows(open_source(str(tmp_path), skip_bad=True)) == [[7] * 16]

    def test_a_folder_that_is_followed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        for i in range(3):
            (tmp_path / f"{i}.png").write_bytes(self.image("L", i))
        source = open_source(str(tmp_path), follow=True)
        assert source.grows
        [first] = source.chunks()
        (tmp_path / "0.png").unlink()  # images that were read may be deleted
        whole = self.image("L", 4)
        (tmp_path / "3.png").write_bytes(self.image("L", 3))
        (tmp_path / "4.png").write_bytes(whole[:40])  # still being written
        (tmp_path / "5.png").write_bytes(self.image("L", 5))
        position = json.loads(json.dumps(first.position))
        [second] = source.chunks(position)
        assert (second.rows[:, 0].tolist(), second.numbers.tolist(), second.ids) == ([3], [3], ("3.png",))
        assert not list(source.chunks(second.position))
        (tmp_path / "4.png").write_bytes(whole)
        [third] = source.chunks(second.position)
        assert (third.rows[:, 0].tolist(), third.numbers.tolist()) == ([4, 5], [4, 5])
        (tmp_path / "6.png").write_bytes(whole[:40])
        monkeypatch.setattr("streamgmm.sources.images.SETTLED_SECONDS", 0.0)
        with pytest.raises(SourceError, match=r"image 6\.png .* cannot be read"):  # no longer being written
            list(source.chunks(third.position))

    def test_16_bit_images_stay_gray(self, tmp_path: Path) -> None:
        (tmp_path / "a.png").write_bytes(self.image("I;16", 257 * 100))
        assert all_rows(open_source(str(tmp_path))) == [[100] * 16]


def test_drift_keeps_fractions(tmp_path: Path) -> None:
    np.save(tmp_path / "whole.npy", np.zeros((1000, 1), np.int64))
    np.save(tmp_path / "parts.npy", np.full((1000, 1), 0.75))
    source = open_source(f"drift:sudden:250:{tmp_path}/whole.npy|{tmp_path}/parts.npy")
    assert np.concatenate([c.rows for c in source.chunks()]).ravel()[248:252].tolist() == [0, 0, 0.75, 0.75]


def test_drift_reports_rows_that_its_parts_skip(tmp_path: Path) -> None:
    path = csv(tmp_path, "1,2\nx\n" + "1,2\n" * 600)
    bad = [b for c in open_source(f"drift:recurring:100:{path}|{path}", skip_bad=True).chunks() for b in c.bad]
    assert [b.row for b in bad] == [1, 1]


def test_columns_are_matched_by_their_names() -> None:
    rows = np.array([[1.0, 2.0, 3.0]])
    assert select_columns(rows, ["a", "b", "c"], ["c", "a"], "x").tolist() == [[3, 1]]
    assert select_columns(rows, None, ["c", "a", "b"], "x") is rows
    with pytest.raises(SourceError, match="x has no column 'd', a feature of the model; it has a, b, c"):
        select_columns(rows, ["a", "b", "c"], ["d"], "x")


def test_links_out_of_a_folder_of_images_are_not_followed(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image")
    (tmp_path / "inside").mkdir()
    for name in ("inside/a.png", "secret.png"):
        image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / name)
    (tmp_path / "inside" / "b.png").symlink_to(tmp_path / "secret.png")
    (tmp_path / "inside" / "c.png").symlink_to(tmp_path / "inside" / "a.png")
    assert [chunk.ids for chunk in open_source(str(tmp_path / "inside")).chunks()] == [("a.png", "c.png")]


def test_bombs_are_refused_by_a_limit_that_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "x.npz", x=np.zeros((1000, 100)))
    with gzip.open(tmp_path / "x.csv.gz", "wb") as file:
        file.write(b"1,2\n" + b"1" * 100_000 + b",2\n")
    monkeypatch.setenv("STREAMGMM_MOST_BYTES", "10000")
    with pytest.raises(SourceError, match=r"x.npy of x.npz would expand from .* to 800,128 bytes"):
        open_source(str(tmp_path / "x.npz"))
    with pytest.raises(SourceError, match=r"a line of more than 10,000 bytes"):
        list(open_source(str(tmp_path / "x.csv.gz"), skip_bad=True).chunks())
    monkeypatch.setenv("STREAMGMM_MOST_BYTES", "1000000")
    assert open_source(str(tmp_path / "x.npz")).n_rows == 1000
    assert sum(len(c.rows) for c in open_source(str(tmp_path / "x.csv.gz"), skip_bad=True).chunks()) == 2
