"""A thread that reads ahead, so that reading and learning overlap."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from typing import TypeVar

T = TypeVar("T")
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
                item = waiting.get(timeout=0.2)
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
