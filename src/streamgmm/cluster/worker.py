"""What a worker does: read its share of a round, and learn it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.cluster.share_reader import Reading, ShareReader, count_gaps
from streamgmm.core.rounds import LearnedShare, RoundStart
from streamgmm.engines.shares import ShareLearner
from streamgmm.sources import BadRow
from streamgmm.sources.slices import Layout, Piece

MOST_NAMED = 10  # bad rows of a share that are named
ROWS_AT_ONCE = 2000


class Task(NamedTuple):
    """A share of a round: which rows, and how many of them to send back.

    Parameters
    ----------
    replica : int
        Number of the replica.
    pieces : list of Piece
        The rows.
    sampled : int, default=0
        Number of rows to send back, taken evenly from the share.
    counted_from : int, default=0
        Rows below this number were counted in an earlier pass.
    """

    replica: int
    pieces: list[Piece]
    sampled: int = 0
    counted_from: int = 0


class Outcome(NamedTuple):
    """A learned share.

    Parameters
    ----------
    learned : LearnedShare
        The replica.
    rows : int
        Rows that could be learned.
    bad : tuple of BadRow
        The first rows that could not.
    n_bad, n_missing : int
        Rows that could not be learned, and rows without values, or with gaps if those are skipped.
    end : int
        Number of the last row, plus 1.
    sample : ndarray of shape (n, D)
        Some of the rows.
    numbers : ndarray of shape (n,)
        Their numbers.
    read_seconds, learn_seconds : float
        Time that reading and learning took.
    """

    learned: LearnedShare
    rows: int
    bad: tuple[BadRow, ...]
    n_bad: int
    n_missing: int
    end: int
    sample: npt.NDArray[Any]
    numbers: npt.NDArray[Any]
    read_seconds: float
    learn_seconds: float


class ShareWorker:
    """Learns shares of rounds, one after the other. It keeps nothing that a replacement could not find out.

    Parameters
    ----------
    reading : Reading
        How to read the source.
    """

    def __init__(self, reading: Reading) -> None:
        self._reader = ShareReader(reading)

    def learn(self, start: RoundStart, task: Task, layout: Layout) -> Outcome:
        """Read a share and learn it from the start of its round.

        Parameters
        ----------
        start : RoundStart
            Where the round starts.
        task : Task
            The share.
        layout : Layout
            How the pass is cut.
        """
        learner, missing = ShareLearner(start, task.replica), self._reader.reading.missing
        bad, samples, numbers = list[BadRow](), list[Any](), list[Any]()
        rows = n_missing = end = 0
        wanted = sum(10**9 if p.stop is None else p.stop - p.first for p in task.pieces)
        step = max(1, min(wanted, ROWS_AT_ONCE) // max(1, task.sampled))
        began, learning = time.perf_counter(), 0.0
        for chunk in self._reader.chunks(layout, task.pieces):
            new = chunk.numbers >= task.counted_from
            bad += [b for b in chunk.bad if b.row >= task.counted_from]
            n_missing += count_gaps(chunk.rows[new], missing)
            end = max(end, int(chunk.numbers.max(initial=-1)) + 1, *(b.row + 1 for b in chunk.bad))
            kept = chunk.rows
            if missing == "skip" and kept.dtype.kind == "f":
                whole = ~np.isnan(kept).any(1)
                kept, chunk = kept[whole], chunk._replace(numbers=chunk.numbers[whole])
            rows += len(kept)
            room = task.sampled - sum(map(len, samples))
            samples.append(kept[::step][:room])
            numbers.append(chunk.numbers[::step][:room])
            before = time.perf_counter()
            for first in range(0, len(kept), ROWS_AT_ONCE):
                learner.feed(kept[first : first + ROWS_AT_ONCE], self._reader.source.factor)
            learning += time.perf_counter() - before
        learned = learner.finish()
        width = int(start.facts["n_features"])
        return Outcome(
            learned=learned,
            rows=rows,
            bad=tuple(bad[:MOST_NAMED]),
            n_bad=len(bad),
            n_missing=n_missing,
            end=end,
            sample=np.concatenate(samples) if rows else np.empty((0, width), start.facts["dtype"]),
            numbers=np.concatenate(numbers) if rows else np.empty(0, np.int64),
            read_seconds=time.perf_counter() - began - learning,
            learn_seconds=learning,
        )
