"""Rows in random order: all of them, once each, in an order that a position brings back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from streamgmm.sources import ShuffledSource, Source, SourceError, open_source
from streamgmm.sources.numpy_files import ArraySource
from streamgmm.sources.seekable import SeekableSource
from tests.sources.test_sources import WRITERS, X, picture, write_csv, write_headed_csv_gz, write_parquet

BUFFERS = 5  # that a file of 60 kB needs


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many blocks, buffers and chunks of a small file."""
    monkeypatch.setattr("streamgmm.sources.base.CHUNK_BYTES", 2048)
    for room in ("seekable", "line_blocks", "table_blocks"):
        monkeypatch.setattr(f"streamgmm.sources.{room}.BLOCK_BYTES", 500)
    monkeypatch.setattr("streamgmm.sources.shuffled.BUFFER_BYTES", 12_000)


def shuffled(path: Path | str, seed: int = 0, **options: object) -> ShuffledSource:
    source = open_source(str(path), **options)  # type: ignore[arg-type]
    assert isinstance(source, SeekableSource)
    assert source.seekable
    return ShuffledSource(source, seed)


def numbers(source: Source, start: dict | None = None) -> list[int]:
    return [int(n) for chunk in source.chunks(start) for n in chunk.numbers]


SEEKABLE = [w for w in WRITERS if not w.__name__.endswith("gz")]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("write", SEEKABLE, ids=lambda w: w.__name__)
class TestEveryFormat:
    def test_all_rows_once_with_their_numbers(self, write: Callable[[Path], Path], tmp_path: Path) -> None:
        source = shuffled(write(tmp_path))
        chunks = list(source.chunks(source.start_of_pass(0)))
        order = np.concatenate([c.numbers for c in chunks])
        assert sorted(order.tolist()) == list(range(2500))
        np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks]), X[order])
        assert chunks[-1].position["row"] == 2500
        assert len(chunks) > BUFFERS
        assert source.n_rows == 2500
        assert abs(np.corrcoef(order, np.arange(2500))[0, 1]) < 0.3  # not in order, though read through a small buffer

    def test_any_position_resumes_with_the_same_rows(self, write: Callable[[Path], Path], tmp_path: Path) -> None:
        path = write(tmp_path)
        source = shuffled(path, seed=3)
        chunks = list(source.chunks(source.start_of_pass(1)))
        whole = [int(n) for c in chunks for n in c.numbers]
        done = 0
        for at, chunk in enumerate(chunks):
            done += len(chunk.numbers)
            if at % 7 == 0 or chunk is chunks[-1]:
                position = json.loads(json.dumps(chunk.position))
                assert numbers(shuffled(path, seed=3), position) == whole[done:]

    def test_each_pass_and_each_seed_has_its_own_order(self, write: Callable[[Path], Path], tmp_path: Path) -> None:
        path = write(tmp_path)
        source = shuffled(path)
        orders = [numbers(source, source.start_of_pass(i)) for i in range(2)] + [numbers(shuffled(path, seed=1))]
        assert orders[0] == numbers(source)
        assert orders[0] != orders[1] != orders[2] != orders[0]


def test_a_file_that_fits_is_shuffled_perfectly(tmp_path: Path) -> None:
    """Every row is as likely at every place: the mean place of the first row over many seeds is the middle."""
    source = ArraySource("x", np.zeros((400, 3)))
    places = [numbers(ShuffledSource(source, seed)).index(0) for seed in range(400)]
    assert abs(np.mean(places) - 199.5) < 4 * 400 / 12**0.5 / 20


def test_labels_are_mixed_in_a_sorted_file_larger_than_the_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.shuffled.BUFFER_BYTES", 1 << 22)
    labels = np.repeat(np.arange(10.0), 20_000)
    source = ShuffledSource(ArraySource("x", np.repeat(labels[:, None], 10, axis=1)))  # four buffers
    rows = np.concatenate([c.rows[:, 0] for c in source.chunks()])
    counts = np.array([np.bincount(part.astype(int), minlength=10) for part in np.split(rows, 20)])
    assert counts.min() > 0.7 * counts.mean()
    assert counts.max() < 1.3 * counts.mean()


class TestBadRows:
    def write(self, folder: Path) -> Path:
        lines = [f"{i},{2 * i}" for i in range(600)]
        for bad in (0, 100, 333, 599):
            lines[bad] = "1,oops"
        lines[50] = ""  # blank: neither a row nor bad
        path = folder / "x.csv"
        path.write_text("a,b\n" + "\n".join(lines))
        return path

    @pytest.mark.usefixtures("small")
    def test_they_keep_their_numbers_and_are_told_once(self, tmp_path: Path) -> None:
        path = self.write(tmp_path)
        source = shuffled(path, skip_bad=True)
        chunks = list(source.chunks())
        assert sorted(b.row for c in chunks for b in c.bad) == [0, 100, 333, 599]
        order = [int(n) for c in chunks for n in c.numbers]
        assert sorted(order) == [i for i in range(600) if i not in (0, 50, 100, 333, 599)]
        np.testing.assert_array_equal(np.concatenate([c.rows for c in chunks])[:, 1], 2 * np.array(order))
        for at, chunk in enumerate(chunks):
            rest = list(shuffled(path, skip_bad=True).chunks(chunk.position))
            assert [b for c in rest for b in c.bad] == [b for c in chunks[at + 1 :] for b in c.bad]
            assert [n for c in rest for n in c.numbers] == [n for c in chunks[at + 1 :] for n in c.numbers]

    def test_one_stops_reading(self, tmp_path: Path) -> None:
        with pytest.raises(SourceError, match=r"row 0 of x\.csv has 'oops'"):
            list(shuffled(self.write(tmp_path)).chunks())

    def test_only_bad_rows(self, tmp_path: Path) -> None:
        (tmp_path / "x.ndjson").write_text("{\n" * 5)
        [chunk] = shuffled(tmp_path / "x.ndjson", skip_bad=True).chunks()
        assert (len(chunk.rows), [b.row for b in chunk.bad]) == (0, [0, 1, 2, 3, 4])


@pytest.mark.parametrize("write", [write_csv, write_parquet])
@pytest.mark.usefixtures("small")
def test_ids_stay_with_their_rows(write: Callable[[Path], Path], tmp_path: Path) -> None:
    for chunk in shuffled(write(tmp_path), columns=["c", "a"], id_column="b").chunks():
        np.testing.assert_array_equal(np.array(chunk.ids, dtype=float), X[chunk.numbers, 1])
        np.testing.assert_array_equal(chunk.rows, X[chunk.numbers][:, [2, 0]])


class TestGrowth:
    """Rows that are added later follow at the end, whether the pass was finished or not."""

    @pytest.fixture(params=["unfinished", "finished"])
    def positions(self, request: pytest.FixtureRequest) -> Callable[[list], dict]:
        return lambda chunks: chunks[-1 if request.param == "finished" else len(chunks) // 2].position

    @pytest.mark.usefixtures("small")
    def test_a_text(self, tmp_path: Path, positions: Callable[[list], dict]) -> None:
        path = tmp_path / "x.csv"
        path.write_text("a,b\n" + "1.5,2.5\n" * 1000)
        chunks = list(shuffled(path).chunks())
        position, whole = positions(chunks), [int(n) for c in chunks for n in c.numbers]
        with path.open("a") as file:
            file.write("3.5,4.5\n" * 500)
        done = position["row"]
        rest = self.all_numbers(path, position)
        assert rest[: 1000 - done] == whole[done:]
        assert sorted(rest[1000 - done :]) == list(range(1000, 1500))

    def all_numbers(self, path: Path, position: dict | None) -> list[int]:
        """Resume until nothing is left."""
        found: list[int] = []
        while chunks := list(shuffled(path).chunks(position)):
            found += [int(n) for c in chunks for n in c.numbers]
            position = chunks[-1].position
        return found

    def test_a_line_that_was_not_complete(self, tmp_path: Path) -> None:
        path = tmp_path / "x.csv"
        path.write_text("1,2\n3,4")
        *_, last = shuffled(path).chunks()
        path.write_text("1,2\n3,45\n")
        with pytest.raises(SourceError, match="no line starts at byte 7"):
            list(shuffled(path).chunks(last.position))

    def test_images_among_those_read(self, tmp_path: Path) -> None:
        for i in (1, 3):
            (tmp_path / f"{i}.png").write_bytes(picture(i))
        *_, last = shuffled(tmp_path).chunks()
        (tmp_path / "4.png").write_bytes(picture(4))
        assert numbers(shuffled(tmp_path), last.position) == [2]
        (tmp_path / "2.png").write_bytes(picture(2))
        with pytest.raises(SourceError, match="are not those that were read before"):
            list(shuffled(tmp_path).chunks(last.position))


@pytest.mark.usefixtures("small")
def test_images_in_random_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streamgmm.sources.shuffled.BUFFER_BYTES", 320)
    for i in range(100):
        (tmp_path / f"{i:03}.png").write_bytes(picture(i))
    chunks = list(shuffled(tmp_path).chunks())
    shades = [int(v) for c in chunks for v in c.rows[:, 0]]
    assert sorted(shades) == list(range(100)) != shades
    assert [i for c in chunks for i in c.ids or ()] == [f"{s:03}.png" for s in shades]


class Silent(Source):
    name = "silent"

    def chunks(self, start: dict | None = None) -> Iterator:
        return iter(())


def test_what_cannot_seek(tmp_path: Path) -> None:
    assert not open_source(str(write_headed_csv_gz(tmp_path))).seekable
    assert not open_source(str(write_csv(tmp_path)), follow=True).seekable
    assert not open_source("glyphs:A").seekable
    assert not Silent().seekable


def test_the_position_of_another_order(tmp_path: Path) -> None:
    *_, last = shuffled(write_csv(tmp_path)).chunks()
    with pytest.raises(SourceError, match="shuffled by another version of streamgmm"):
        list(shuffled(write_csv(tmp_path)).chunks({**last.position, "order": 0}))
    with pytest.raises(SourceError, match="belongs to another kind of source"):
        list(shuffled(write_csv(tmp_path)).chunks({"row": 3, "byte": 12}))
