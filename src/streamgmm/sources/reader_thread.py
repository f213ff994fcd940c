"""A thread that reads ahead, so that reading and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as StillReading
from typing import TypeVar

from streamgmm.sources.base import Source

T = TypeVar("T")
WAIT_SECONDS = 0.2  # between two questions whether to stop
END_SECONDS = {True: 10.0, False: 0.5}
"""How long to wait for the last chunk of a finite source, and of one that may stay silent."""


def read_ahead(
    chunks: Iterator[T], stop: Callable[[], bool] = lambda: False, depth: int = 6, patience: float = 0.5
) -> Iterator[T]:
    """Yield the same items, read by another thread. Errors of that thread are raised here.

    Parameters
    ----------
    chunks : iterator
        What to read.
    stop : callable, default=lambda: False
        Asked while no item arrives; reading ends when it returns True.
    depth : int, default=6
        How many items to read ahead at most.
    patience : float, default=0.5
        Seconds to wait for the other thread at the end. One that is left behind in a decoder may crash at exit.
    """
    waiting: queue.Queue[T | BaseException | None] = queue.Queue(depth)
    over = threading.Event()

    def put(item: T | BaseException | None) -> bool:
        while not over.is_set():
            try:
                waiting.put(item, timeout=0.1)
                return True
            except queue.Full:
                continue
        return False

    def read() -> None:
        try:
            for chunk in chunks:
                if not put(chunk):
                    return
            put(None)
        except BaseException as problem:  # raised again in the thread that waits
            put(problem)

    thread = threading.Thread(target=read, name="streamgmm-read-ahead", daemon=True)
    thread.start()
    try:
        while True:
            try:
                item = waiting.get(timeout=WAIT_SECONDS)
            except queue.Empty:
                if stop():
                    return
                continue
            if item is None:
                return
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        over.set()
        thread.join(timeout=patience)  # a thread blocked on a silent source is left behind; it is a daemon


def read_source(source: Source, chunks: Iterator[T], stop: Callable[[], bool] = lambda: False) -> Iterator[T]:
    """Yield the same items, which come from a source; read ahead in the way that suits it.

    Parameters
    ----------
    source : Source
        What the items are read from.
    chunks : iterator
        Its chunks, or what is made of them.
    stop : callable, default=lambda: False
        Asked while no item arrives; reading ends when it returns True.
    """
    if source.polls:
        return _read_arriving(source, chunks, stop)
    return read_ahead(chunks, stop, patience=END_SECONDS[source.finite])


def _read_arriving(source: Source, chunks: Iterator[T], stop: Callable[[], bool]) -> Iterator[T]:
    """Yield the same items; another thread reads the next one if it has begun to arrive.

    A row that arrives alone is read on this thread: waking another one would take longer than to judge the row.
    """
    end, over = object(), threading.Event()
    with ThreadPoolExecutor(1, "streamgmm-read-ahead") as reader:
        try:
            source.interrupted = stop
            item = next(chunks, end)
            while item is not end:
                ahead: Future[T | object] | None = None
                if source.has_arrived():
                    source.interrupted = over.is_set  # ``stop`` is asked on this thread only
                    ahead = reader.submit(next, chunks, end)
                yield item  # type: ignore[misc]
                item = next(chunks, end) if ahead is None else _result(ahead, stop, end)
                source.interrupted = stop
        finally:
            over.set()


def _result(ahead: Future[T | object], stop: Callable[[], bool], end: object) -> T | object:
    """Wait for an item; return ``end`` if asked to stop before."""
    while True:
        try:
            return ahead.result(WAIT_SECONDS)
        except StillReading:
            if ahead.done():  # the error is that of reading
                raise
            if stop():
                return end
