"""Event files stay small, and runs still find where the events of their checkpoints end."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamgmm.core.control import Check
from streamgmm.errors import StreamGMMError
from streamgmm.storage import events
from streamgmm.storage.event_thinning import Thinned, cut, read_thinned, thin, written

MOST = 20_000


def check(samples: int) -> Check:
    return Check(samples, -3.0, -4.0, 2.0, 0.1, 4, False)


def fill(path: Path, first: int, last: int) -> None:
    for i in range(first, last):
        kind = "start" if i == 0 else "drift" if i % 50 == 0 else "check"
        events.append(path, events.record(kind, check(100 * i), 0.1 * i))


def samples(path: Path) -> list[int]:
    return [e["samples"] for e in events.read(path)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that was thinned once, and written to since."""
    path = tmp_path / "events.jsonl"
    fill(path, 0, 300)
    thin(path, written(path), MOST)
    fill(path, 300, 320)
    return path


def test_thinning_halves_a_file_and_keeps_what_is_rare(path: Path) -> None:
    assert path.stat().st_size < 0.75 * MOST
    found = samples(path)
    assert found == sorted(set(found))
    assert found[0] == 0
    assert set(found) >= set(range(5000, 30_000, 5000))  # drifts
    assert found[-21:] == list(range(29_900, 32_000, 100))


def test_bytes_are_counted_as_if_nothing_were_removed(path: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    fill(whole, 0, 320)
    assert written(path) == written(whole) == whole.stat().st_size
    assert read_thinned(whole) == Thinned()


def test_a_file_is_thinned_again_and_again(tmp_path: Path) -> None:
    path, whole = tmp_path / "events.jsonl", tmp_path / "whole"
    for first in range(0, 3000, 30):
        before = written(path) if first else 0
        fill(path, first, first + 30)
        if path.stat().st_size > MOST:
            assert thin(path, before, MOST) == path.stat().st_size
        assert path.stat().st_size < 1.3 * MOST
    fill(whole, 0, 3000)
    assert written(path) == whole.stat().st_size
    found = samples(path)
    assert found == sorted(set(found))
    assert (found[0], found[-1]) == (0, 299_900)


def test_events_after_a_checkpoint_are_removed(path: Path) -> None:
    before, place = path.read_bytes(), written(path)
    fill(path, 320, 330)
    cut(path, place, 31_900)
    assert path.read_bytes() == before
    cut(path, place, 31_900)
    assert path.read_bytes() == before


def test_events_after_an_older_checkpoint_are_known_by_their_samples(path: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    fill(whole, 0, 201)
    place = written(whole)
    cut(path, place, 20_000)
    assert samples(path)[-1] == 20_000
    assert written(path) == place
    fill(path, 201, 210)
    cut(path, place, 20_000)
    assert (samples(path)[-1], written(path)) == (20_000, place)


def test_a_run_from_the_start_removes_all(path: Path) -> None:
    cut(path, 0, 0)
    assert path.read_bytes() == b""


def test_thinning_spares_events_since_a_place(path: Path) -> None:
    content = path.read_bytes()
    thin(path, read_thinned(path).removed, MOST)
    assert path.read_bytes() == content


def test_a_file_of_others_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text("a,b\n" * 100)
    with pytest.raises(StreamGMMError, match="not written by a run"):
        cut(path, 10, 0)
    cut(tmp_path / "missing", 10, 0)
    assert path.stat().st_size == 400


@pytest.mark.parametrize("line", ["", "[]", '{"kind": "thinned", "removed": -1e300, "until": 3}', "[" * 5000])
def test_a_first_line_that_thinning_has_not_written_counts_as_an_event(tmp_path: Path, line: str) -> None:
    path = tmp_path / "events.jsonl"
    path.write_text(line + "\n")
    assert read_thinned(path) == Thinned()
