"""One lock for each estimator: several threads may use it, and none sees parameters that are half written."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import wraps
from threading import Lock, RLock
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakKeyDictionary

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

# beside the estimators, because a lock can be neither cloned nor pickled
_locks: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()
_making = Lock()


def lock_of(estimator: object) -> Any:
    """Return the lock of an estimator; the thread that holds it may take it again.

    Parameters
    ----------
    estimator : object
        Any estimator.
    """
    lock = _locks.get(estimator)  # nearly always there, and found faster than made
    if lock is not None:
        return lock
    with _making:
        return _locks.setdefault(estimator, RLock())


def one_at_a_time(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """Let one thread at a time call the methods of an estimator that are decorated with this.

    Parameters
    ----------
    method : callable
        A method that changes the estimator, or must see it unchanged.
    """

    @wraps(method)
    def locked(self: S, /, *args: P.args, **settings: P.kwargs) -> R:
        with lock_of(self):
            return method(self, *args, **settings)

    return locked


def _forget() -> None:
    """A forked process has one thread: nobody there holds a lock, whoever held it before."""
    global _making
    _making = Lock()
    _locks.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
