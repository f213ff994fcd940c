"""Drift on demand: one stream made of several sources that take over from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import SourceError
from streamgmm.native import Floats
from streamgmm.sources.base import BadRow, Chunk, Position, Source
from streamgmm.sources.selection import select_columns

DRIFT_KINDS = ("sudden", "gradual", "recurring")
ROWS_PER_CHUNK = 500


class DriftSource(Source):
    """Rows of several sources, to test how a model follows a change.

    Parameters
    ----------
    kind : {"sudden", "gradual", "recurring"}
        "sudden" switches to the next source after ``every`` rows and stays with the last one. "gradual" mixes in the
        next source with a probability that grows from 0 to 1 over ``every`` rows. "recurring" is like "sudden", but
        returns to the first source after the last one.
    sources : sequence of Source
        At least two. The stream ends when a source has no row left at its turn.
    every : int
        Rows between two changes.
    seed : int, default=0
        Seed of gradual drift.

    Examples
    --------
    >>> from streamgmm.sources.numpy_files import ArraySource
    >>> sources = [ArraySource("a", np.zeros((9, 1))), ArraySource("b", np.ones((9, 1)))]
    >>> rows = [chunk.rows for chunk in DriftSource("recurring", sources, every=2).chunks()]
    >>> np.concatenate(rows)[:6].ravel().tolist()
    [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """

    def __init__(self, kind: str, sources: Sequence[Source], every: int, seed: int = 0) -> None:
        if kind not in DRIFT_KINDS:
            raise SourceError(f"unknown kind of drift {kind!r}; expected {', '.join(DRIFT_KINDS)}.")
        if len(sources) < 2 or every < 1:
            raise SourceError(
                f"drift of {len(sources)} sources every {every} rows; expected at least 2 sources and 1 row."
            )
        self.name = f"{kind} drift of {', '.join(s.name for s in sources)}"
        self._kind, self._sources, self._every, self._seed = kind, list(sources), every, seed

    def expect(self, names: list[str] | None, width: int) -> None:
        self.feature_names = names
        for source in self._sources:
            source.expect(names, width)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        row = 0 if start is None else int(start["row"])
        taps = [_Tap(self, s, *(start["parts"][i] if start else (None, 0))) for i, s in enumerate(self._sources)]
        complete = True
        while complete:
            wanted = self._choose(np.arange(row, row - row % ROWS_PER_CHUNK + ROWS_PER_CHUNK))
            rows = self._fill(wanted, taps)
            if not len(rows):
                return
            first, row = row, row + len(rows)
            bad = tuple(b for tap in taps for b in tap.take_bad())
            position = {"row": row, "parts": [tap.position for tap in taps]}
            yield Chunk(rows, np.arange(first, row), position, bad)
            complete = len(rows) == len(wanted)

    def _choose(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return which source each row comes from: a function of its number only, so that any position can resume."""
        turn, last = numbers // self._every, len(self._sources) - 1
        if self._kind == "recurring":
            return turn % (last + 1)
        if self._kind == "gradual":
            rng = np.random.default_rng([self._seed, int(numbers[0]) // ROWS_PER_CHUNK])
            draw = rng.random(ROWS_PER_CHUNK)[numbers % ROWS_PER_CHUNK]
            turn = turn + (draw < numbers % self._every / self._every)
        return np.minimum(turn, last)

    def _fill(self, wanted: npt.NDArray[np.int64], taps: list[_Tap]) -> Floats:
        """Take rows from the wanted sources; fewer if one of them ends."""
        places = {i: np.flatnonzero(wanted == i) for i in np.unique(wanted).tolist()}
        parts = {i: taps[i].take(len(places[i])) for i in places}
        width = next(iter(parts.values())).shape[1]
        rows = np.empty((len(wanted), width), np.result_type(*parts.values()))
        stop = len(wanted)
        for i, part in parts.items():
            if part.shape[1] != width:
                raise SourceError(f"{self._sources[i].name} has {part.shape[1]} features; expected {width}.")
            rows[places[i][: len(part)]] = part
            if len(part) < len(places[i]):
                stop = min(stop, int(places[i][len(part)]))
        return rows[:stop]


class _Tap:
    """Any number of rows at a time from a source, with features in the order of the first source."""

    def __init__(self, drift: DriftSource, source: Source, at: Position | None, used: int) -> None:
        self._drift, self._source = drift, source
        self._at, self._used = at, used  # rows used of the chunk that starts at this position
        self._chunks = source.chunks(at)
        self._rows: Floats | None = None
        self._after: Position | None = at
        self._bad: list[BadRow] = []

    @property
    def position(self) -> tuple[Position | None, int]:
        return self._at, self._used

    def take_bad(self) -> list[BadRow]:
        """Return the rows that the source has skipped since the last call."""
        bad, self._bad = self._bad, []
        return bad

    def take(self, count: int) -> Floats:
        """Return the next rows; fewer at the end."""
        found: list[Floats] = []
        while count > 0:
            if (self._rows is None or self._used >= len(self._rows)) and not self._read_chunk():
                break
            assert self._rows is not None
            taken = self._rows[self._used : self._used + count]
            found.append(taken)
            self._used += len(taken)
            count -= len(taken)
        return np.concatenate(found) if found else np.empty((0, 0 if self._rows is None else self._rows.shape[1]))

    def _read_chunk(self) -> bool:
        """Read the next chunk of the source; return False at its end."""
        skip = self._used if self._rows is None else 0
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        names = self._source.feature_names
        self._drift.feature_names = self._drift.feature_names or names
        self._drift.left_out = sorted({*self._drift.left_out, *self._source.left_out})
        rows = select_columns(chunk.rows, names, self._drift.feature_names, self._source.name)
        self._rows = _to_floats(rows, self._source.factor)
        self._at, self._after, self._used = self._after, chunk.position, skip
        self._bad += [b._replace(reason=f"(of {self._source.name}) {b.reason}") for b in chunk.bad]
        return True


def _to_floats(rows: npt.NDArray[Any], factor: float) -> Floats:
    if rows.dtype == np.uint8:
        return rows * np.float32(factor)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)
