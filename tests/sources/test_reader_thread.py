"""Reading ahead in a thread."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from streamgmm.sources import Chunk, Position, Source, read_ahead, read_source


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


class Arriving(Source):
    """Numbers that have arrived up to some of them; the next one comes when the source is asked whether to stop."""

    name, polls = "numbers", True

    def __init__(self, arrived: int) -> None:
        self.arrived, self.given, self.threads = arrived, 0, list[str]()

    def has_arrived(self) -> bool:
        return self.given < self.arrived

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        while True:
            while not self.has_arrived():
                assert self.interrupted is not None
                if self.interrupted():
                    return
            self.given += 1
            self.threads.append(threading.current_thread().name)
            yield Chunk(np.full((1, 1), float(self.given)), np.array([self.given]), {"row": self.given})


def test_what_arrives_alone_is_read_on_the_thread_that_uses_it() -> None:
    source, here = Arriving(0), threading.current_thread().name

    def stop() -> bool:
        assert threading.current_thread().name == here  # it may write a checkpoint
        source.arrived += 1
        return source.arrived > 5

    assert [int(chunk.numbers[0]) for chunk in read_source(source, source.chunks(), stop)] == [1, 2, 3, 4, 5]
    assert set(source.threads) == {here}


def test_what_has_arrived_is_read_ahead_in_order() -> None:
    source, here = Arriving(50), threading.current_thread().name
    found = read_source(source, source.chunks(), lambda: threading.current_thread().name == here)
    assert [int(chunk.numbers[0]) for chunk in found] == list(range(1, 51))
    assert here not in source.threads[1:]


def test_errors_of_reading_ahead_are_raised_where_chunks_are_used() -> None:
    source = Arriving(50)

    def failing() -> Iterator[Chunk]:
        yield next(source.chunks())
        raise TimeoutError("broken")

    found = read_source(source, failing())
    next(found)
    with pytest.raises(TimeoutError, match="broken"):
        next(found)
