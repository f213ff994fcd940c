"""Which rows of a pass each worker learns, round by round: a function of the source, the round and the worker."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import check_position
from streamgmm.sources.slices import Piece, Slices
from streamgmm.storage.schema import COUNT, list_of, record

LONGEST_NUMBER = 15  # digits
PLACES = {"finished": list_of(list_of(COUNT, length=2)), "begun": record({}, unknown=COUNT)}


class PassPlan:
    """What of a pass is still to be learned.

    Worker r of R reads the slices r, r + R, r + 2R, …, each from its start to its end. Slices that are read together
    have the same worker, except for the last ones, which are shared out evenly. What is left is known slice by slice,
    so a pass may continue with another number of workers.

    Parameters
    ----------
    slices : Slices
        The slices of the pass.
    position : dict or None, default=None
        Where to continue, as ``position`` has given it.
    """

    def __init__(self, slices: Slices, position: dict[str, Any] | None = None) -> None:
        self._slices, self._grows = slices, slices.refresh()
        self._places = slices.starts.copy()
        if position is None:
            return
        check_position({"row": 0, **position}, PLACES, "this source")
        for first, end in position["finished"]:
            self._require_slices(0 <= first < end <= len(self._places))
            self._places[first:end] = slices.ends[first:end]
        for number, place in position["begun"].items():
            self._places[self._slice(number)] = place

    def _slice(self, name: str) -> int:
        """Return the number of a slice that a position names."""
        number = int(name) if name.isdecimal() and len(name) <= LONGEST_NUMBER else len(self._places)
        self._require_slices(number < len(self._places))
        return number

    def _require_slices(self, known: bool) -> None:
        if not known:
            raise SourceError(
                f"what is left of this source is not known: it has {len(self._places)} slices now, and had others.",
                Remedy.START_NEW_RUN,
            )

    @property
    def rows_left(self) -> int:
        """Rows that are still to be learned, as far as they are known."""
        return int(np.maximum(self._slices.ends - self._places, 0).sum())

    def refresh(self) -> None:
        """Look for new rows, where there may be some."""
        self._slices.refresh()

    def deal(self, workers: int, rows: int, batch_size: int = 1) -> list[list[Piece]]:
        """Give each worker that has rows left its share of the next ones; the last shares of a worker are shorter.

        Parameters
        ----------
        workers : int
            Number of workers.
        rows : int
            Rows of all shares together.
        batch_size : int, default=1
            Samples of a step: shares are whole steps.
        """
        steps, readers = -(-rows // batch_size), self._workers(workers)
        busy = np.unique(readers[self._places < self._slices.ends]).tolist()
        wanted = {r: len(range(turn, steps, len(busy))) * batch_size for turn, r in enumerate(busy)}
        return [self._take(np.flatnonzero(readers == r), wanted.get(r, 0)) for r in range(workers)]

    def _take(self, own: npt.NDArray[np.int64], wanted: int) -> list[Piece]:
        found = list[Piece]()
        for number in own[self._places[own] < self._slices.ends[own]].tolist():
            if not wanted:
                break
            first, end = int(self._places[number]), int(self._slices.ends[number])
            stop = min(end, first + wanted)
            found.append(Piece(number, first, None if stop == end and not self._grows else stop))
            self._places[number], wanted = stop, wanted - (stop - first)
        return found

    def _workers(self, count: int) -> npt.NDArray[np.int64]:
        """Return who reads each slice."""
        numbers = np.arange(len(self._places))
        together = numbers // self._slices.together
        n_groups = int(together[-1]) + 1 if len(together) else 0
        return np.where(together < n_groups - n_groups % count, together % count, numbers % count)

    def position(self) -> dict[str, Any]:
        """Return what was learned as plain data: runs of finished slices, and where others stand."""
        finished = (self._places >= self._slices.ends) & (not self._grows)
        begun = np.flatnonzero(~finished & (self._places > self._slices.starts))
        return {"finished": _runs(finished), "begun": {str(n): int(self._places[n]) for n in begun.tolist()}}


def _runs(chosen: npt.NDArray[np.bool_]) -> list[list[int]]:
    """Return the first number of each run of chosen ones, and the number after its last.

    >>> _runs(np.array([True, True, False, True]))
    [[0, 2], [3, 4]]
    """
    edges = np.flatnonzero(np.diff(np.concatenate([[0], chosen.astype(np.int8), [0]])))
    return edges.reshape(-1, 2).tolist()
