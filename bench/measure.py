"""Interleaved repetitions: every case of a group runs once per round, so that a noisy moment hits all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from streamgmm.kernels import PACK_BYTES, _native

Work = Callable[[], float]
"""Runs once and gives the amount of work done: samples, or bytes."""


def rates(cases: dict[str, Work], rounds: int = 5, seconds: float = 0.3) -> dict[str, list[float]]:
    """Work per second of each case, one figure per round; a case repeats until it has run for ``seconds``."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, work in cases.items():
            done, start = 0.0, time.perf_counter()
            while (spent := time.perf_counter() - start) < seconds or not done:
                done += work()
            if turn:  # the first round warms up
                found[name].append(done / spent)
    return found


def ratio(above: list[float], below: list[float]) -> tuple[float, float, float]:
    """Median, lowest and highest of the rounds' ratios."""
    each = [a / b for a, b in zip(above, below, strict=True)]
    return median(each), min(each), max(each)


def aligned(count: int, dtype: type = np.float32) -> np.ndarray:
    """Ones, starting at a cache line."""
    room = np.ones(count + PACK_BYTES, dtype)
    skip = -room.ctypes.data % PACK_BYTES // room.itemsize
    return room[skip : skip + count]


def reading(values: np.ndarray) -> Work:
    """The limit of a scan: bytes read."""

    def work() -> float:
        _native.read_all(values, 10)
        return 10.0 * values.nbytes

    return work


def rewriting(values: np.ndarray) -> Work:
    """The limit of an update: bytes read and written."""

    def work() -> float:
        _native.rewrite_all(values, 10)
        return 20.0 * values.nbytes

    return work
