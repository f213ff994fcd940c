"""The file of alerts: places stay valid through kills, truncation and removal of old alerts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgmm.errors import StreamGMMError
from streamgmm.storage.alert_log import ALERTS, AlertLog


def lines(count: int, first: int = 0) -> list[bytes]:
    return [json.dumps({"row": i}).encode() + b"\n" for i in range(first, first + count)]


def test_alerts_are_read_from_a_place_on(tmp_path: Path) -> None:
    log = AlertLog(tmp_path)
    log.append(lines(5))
    assert log.read(0, 2) == lines(2)
    place = sum(map(len, lines(2)))
    assert log.read(place, 100) == lines(3, 2)
    assert log.count(place) == 3
    assert log.read(log.length, 100) == []
    assert not log.wait(log.length, 0)
    assert log.wait(place, 0)
    log.close()
    assert (tmp_path / ALERTS).read_bytes().splitlines(keepends=True)[1:] == lines(5)


def test_large_alerts_are_read_one_by_one(tmp_path: Path) -> None:
    log = AlertLog(tmp_path)
    large = [b"x" * 300_000 + b"\n"] * 3
    log.append(large)
    assert log.read(0, 100) == large[:1]
    log.close()


def test_resuming_removes_what_came_after_the_checkpoint(tmp_path: Path) -> None:
    log = AlertLog(tmp_path)
    log.append(lines(3))
    length = log.sync()
    log.append(lines(4, 3))
    log.close()
    log = AlertLog(tmp_path, length)
    assert log.length == length
    log.append(lines(1, 3))
    assert log.read(0, 100) == lines(4)
    log.close()


@pytest.mark.parametrize("torn", [b"", b'{"ro', b'{"row": 3}'])
def test_a_torn_line_is_removed(tmp_path: Path, torn: bytes) -> None:
    log = AlertLog(tmp_path)
    log.append(lines(3))
    length = log.sync()
    log.close()
    for known in (None, length):
        with (tmp_path / ALERTS).open("ab") as file:
            file.write(torn)
        log = AlertLog(tmp_path, known)
        assert log.length == length
        assert log.read(0, 9) == lines(3)
        log.close()


def test_a_log_that_is_lost_continues_where_the_checkpoint_says(tmp_path: Path) -> None:
    log = AlertLog(tmp_path)
    log.append(lines(3))
    length = log.sync()
    log.close()
    (tmp_path / ALERTS).unlink()
    for known in (length, length + 7, 5):  # also if file and checkpoint do not fit together
        log = AlertLog(tmp_path, known)
        assert (log.first, log.length) == (known, known)
        log.append(lines(1))
        assert log.read(known, 9) == lines(1)
        log.close()


@pytest.mark.parametrize("content", [b"", b"not json\n", b'{"v": 2, "removed": 0}\n', b'{"row": 1}\n', b"[1]\n"])
def test_other_files_are_left_alone(tmp_path: Path, content: bytes) -> None:
    (tmp_path / ALERTS).write_bytes(content)
    with pytest.raises(StreamGMMError, match=r"was not written by a run|has version 2; expected 1"):
        AlertLog(tmp_path)
    assert (tmp_path / ALERTS).read_bytes() == content


def test_a_file_that_shrinks_is_noticed(tmp_path: Path) -> None:
    log = AlertLog(tmp_path)
    log.append(lines(3))
    (tmp_path / ALERTS).write_bytes(b'{"v": 1, "removed": 0}\n')
    with pytest.raises(OSError, match="changed by another program"):
        log.read(0, 9)
    log.close()


def test_the_file_stays_bounded(tmp_path: Path) -> None:
    """Months of alerts: the file holds between once and twice what it keeps, and places stay valid."""
    log, place = AlertLog(tmp_path, kept=50), 0
    for i in range(100):
        log.append(lines(10, 10 * i))
        place = log.sync()
        log.release(place, place)
        if i > 20:
            assert 50 <= log.count(log.first) <= 130
    newest = log.read(log.first, 1000)
    assert newest == lines(len(newest), 1000 - len(newest))
    log.close()
    again = AlertLog(tmp_path, place, kept=50)
    assert (again.read(again.first, 1000), again.length) == (newest, place)
    again.close()


@settings(max_examples=30)  # each syncs to disk many times
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 100), st.booleans()), max_size=30))
def test_nothing_that_is_needed_is_removed(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[int, int, bool]]
) -> None:
    """What a target has not got, and what came after the checkpoint before the last one, is there after any kill."""
    folder = tmp_path_factory.mktemp("log")
    log, delivered, safe, every = AlertLog(folder, kept=3), 0, [0, 0], list[bytes]()
    for count, share, killed in steps:
        new = lines(count, len(every))
        log.append(new)
        every += new
        length = log.sync()
        log.release(length, delivered)
        safe = [safe[1], length]
        if killed:
            log.close()
            log = AlertLog(folder, length, kept=3)
        needed = min(delivered, safe[0])
        assert log.first <= needed
        assert b"".join(log.read(needed, 10_000)) == b"".join(every)[needed:]
        waiting = log.read(delivered, 10_000)
        delivered += sum(map(len, waiting[: len(waiting) * share // 100]))
    log.close()
