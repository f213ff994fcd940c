"""Bursts of anomalous rows."""

from __future__ import annotations

import itertools
import json
from datetime import datetime
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm.monitoring import Burst, Change, JudgedRows, group_rows


def judged(anomalous: list[bool], first: int = 0, ids: list[Any] | None = None) -> JudgedRows:
    numbers = np.arange(first, first + len(anomalous))
    p_values = np.where(anomalous, 1 / (numbers + 2.0), 0.5)
    return JudgedRows(numbers, np.array(anomalous, bool), p_values, ids)


def summary(changes: list[Change]) -> list[tuple[str, int, str, int, int]]:
    return [(c.state, c.at, c.burst.id, c.burst.rows, c.burst.last_row) for c in changes]


def test_a_burst_has_one_id_a_count_and_a_span() -> None:
    rows = judged([False, True, False, True, False, False, False, True], first=10)
    changes, burst = group_rows("run", None, rows, quiet_rows=3)
    assert summary(changes) == [
        ("open", 1, "run:11", 1, 11),
        ("close", 6, "run:11", 2, 13),
        ("open", 7, "run:17", 1, 17),
    ]
    assert changes[1].burst == Burst("run:11", 2, 11, 13, None, None, 1 / 15, 3)
    assert burst == Burst("run:17", 1, 17, 17, None, None, 1 / 19)


def test_rows_that_follow_at_the_limit() -> None:
    within, apart = [True, False, False, True], [True, False, False, False, True]
    assert len(group_rows("r", None, judged(within), 3)[0]) == 1
    assert len(group_rows("r", None, judged(apart), 3)[0]) == 3


def test_ids_of_rows_become_plain() -> None:
    ids = [datetime(2026, 1, 1), np.datetime64("2026-01-02"), np.int64(7), float("nan"), "x"]
    found = []
    for i in range(5):
        _, burst = group_rows("r", None, judged([True], ids=ids[i : i + 1]))
        assert burst is not None
        found.append(burst.first_id)
    assert found == ["2026-01-01T00:00:00", "2026-01-02", 7, None, "x"]
    _, burst = group_rows("r", None, judged([True] * 5, ids=ids))
    assert burst is not None
    assert (burst.first_id, burst.last_id) == ("2026-01-01T00:00:00", "x")


def test_rows_without_p_value() -> None:
    rows = judged([True] * 3)
    nothing = rows._replace(p_values=np.full(3, np.nan))
    _, burst = group_rows("r", None, nothing)
    assert burst is not None
    assert burst.min_p_value is None
    _, burst = group_rows("r", burst, rows)
    _, burst = group_rows("r", burst, nothing)
    assert burst is not None
    assert burst.min_p_value == 0.25


def test_a_burst_needs_an_end() -> None:
    with pytest.raises(ValueError, match="quiet_rows is 0; expected at least 1"):
        group_rows("r", None, judged([True]), 0)


@given(st.lists(st.booleans(), max_size=60), st.lists(st.integers(0, 60), max_size=6), st.integers(1, 5))
def test_chunks_leave_no_trace(anomalous: list[bool], cuts: list[int], quiet_rows: int) -> None:
    """Any chunking, with the state stored as JSON in between, gives the same changes: a replay gives the same ids."""
    expected, last = group_rows("run", None, judged(anomalous), quiet_rows)
    ends = [0, *sorted(min(c, len(anomalous)) for c in cuts), len(anomalous)]
    burst, found = None, []
    for start, end in itertools.pairwise(ends):
        changes, burst = group_rows("run", burst, judged(anomalous[start:end], start), quiet_rows)
        found += [change._replace(at=change.at + start) for change in changes]
        burst = None if burst is None else Burst(**json.loads(json.dumps(burst._asdict())))
    assert found == expected
    assert burst == last


@given(st.lists(st.booleans(), max_size=60), st.integers(1, 5))
def test_every_anomalous_row_is_in_one_burst(anomalous: list[bool], quiet_rows: int) -> None:
    changes, burst = group_rows("run", None, judged(anomalous), quiet_rows)
    complete = [c.burst for c in changes if c.state == "close"] + ([burst] if burst else [])
    assert sum(b.rows for b in complete) == sum(anomalous)
    assert len({b.id for b in complete}) == len(complete) == sum(c.state == "open" for c in changes)
    for before, after in itertools.pairwise(complete):
        assert after.first_row - before.last_row > quiet_rows
