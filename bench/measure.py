"""Interleaved repetitions: every case of a group runs once per round, so that noise affects all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np

from streamgmm.native import aligned_copy
from streamgmm.native._native import read_all, rewrite_all  # measured by benchmarks only

Work = Callable[[], float]
"""Runs once and returns the amount of work done: samples, or bytes."""


def rates(cases: dict[str, Work], rounds: int = 5, seconds: float = 0.3) -> dict[str, list[float]]:
    """Return the work per second of each case, one value per round.

    Parameters
    ----------
    cases : dict of str to callable
        Cases by name.
    rounds : int, default=5
        Rounds to measure, after one to warm up.
    seconds : float, default=0.3
        A case repeats for this long in every round.
    """
    found: dict[str, list[float]] = {name: [] for name in cases}
    for turn in range(rounds + 1):
        for name, work in cases.items():
            done, start = 0.0, time.perf_counter()
            while (spent := time.perf_counter() - start) < seconds or not done:
                done += work()
            if turn:
                found[name].append(done / spent)
    return found


def ratio(above: list[float], below: list[float]) -> tuple[float, float, float]:
    """Return median, minimum and maximum of the ratios of all rounds.

    Parameters
    ----------
    above, below : list of float
        Numerators and denominators, one per round.
    """
    each = [a / b for a, b in zip(above, below, strict=True)]
    return median(each), min(each), max(each)


def aligned(count: int, dtype: type = np.float32) -> np.ndarray:
    """Return an aligned array of ones.

    Parameters
    ----------
    count : int
        Number of values.
    dtype : type, default=float32
        Their type.
    """
    return aligned_copy(np.ones(count, dtype))


def reading(values: np.ndarray) -> Work:
    """Return a case that reads an array: the limit of a scan, in bytes.

    Parameters
    ----------
    values : array
        What to read.
    """

    def work() -> float:
        read_all(values, 10)
        return 10.0 * values.nbytes

    return work


def rewriting(values: np.ndarray) -> Work:
    """Return a case that reads and writes an array: the limit of an update, in bytes.

    Parameters
    ----------
    values : array
        What to read and write.
    """

    def work() -> float:
        rewrite_all(values, 10)
        return 20.0 * values.nbytes

    return work
