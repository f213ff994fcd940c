"""Calls in other processes, each with one thread, that end when the caller does."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from multiprocessing import get_context, parent_process
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def call_in_processes(
    function: Callable[[Item], Result], items: Iterable[Item], jobs: int
) -> Generator[tuple[Item, Result], None, None]:
    """Call a function on every item; yield items with their results, in the order in which they are done.

    Parameters
    ----------
    function : callable
        A function of a module, so that other processes find it.
    items : iterable
        Its arguments.
    jobs : int
        Processes.
    """
    processes = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), initializer=_obey_parent)
    with _one_thread_each(), processes as pool:
        pending = {pool.submit(function, item): item for item in items}
        try:
            for done in as_completed(pending):
                yield pending[done], done.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _obey_parent() -> None:
    """End this process when its parent ends, even if that is killed, and without a traceback at Ctrl-C."""

    def wait(parent: Any) -> None:
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=wait, args=(parent_process(),), daemon=True).start()


@contextmanager
def _one_thread_each() -> Iterator[None]:
    """Limit processes that start meanwhile to one thread; libraries read these variables on import."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
