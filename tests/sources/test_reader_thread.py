"""Reading ahead in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from streamgmm.sources import read_ahead


def test_items_keep_their_order() -> None:
    assert list(read_ahead(iter(range(50)), depth=3)) == list(range(50))


def test_errors_are_raised_where_the_items_are_used() -> None:
    def failing() -> Iterator[int]:
        yield 1
        raise KeyError("bug")

    items = read_ahead(failing())
    assert next(items) == 1
    with pytest.raises(KeyError, match="bug"):
        next(items)


def test_stop_ends_the_wait_for_a_silent_source() -> None:
    release = threading.Event()

    def silent() -> Iterator[int]:
        yield 1
        release.wait()

    assert list(read_ahead(silent(), stop=lambda: True)) == [1]
    release.set()


def test_at_most_depth_items_are_read_ahead() -> None:
    read = []

    def counted() -> Iterator[int]:
        for i in range(100):
            read.append(i)
            yield i

    items = read_ahead(counted(), depth=2)
    next(items)
    items.close()  # type: ignore[attr-defined]
    assert len(read) <= 5
