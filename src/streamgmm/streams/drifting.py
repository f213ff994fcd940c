"""Drift on purpose: one stream made of several, which take over from each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.kernels import Floats
from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError, by_name

KINDS = ("sudden", "gradual", "recurring")
ROWS = 500


class Drifting(Source):
    """Rows of several sources, for trying out how a model follows a change.

    kind : "sudden" goes to the next source after every ``every`` rows and stays with the last; "gradual" passes over to
        it, row by row, with a chance that rises over ``every`` rows; "recurring" begins again with the first.

    >>> from streamgmm.streams.arrays import Array
    >>> parts = [Array("a", np.zeros((9, 1))), Array("b", np.ones((9, 1)))]
    >>> rows = [c.rows for c in Drifting("recurring", parts, every=2).chunks()]
    >>> np.concatenate(rows)[:6].ravel().tolist()
    [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]
    """

    def __init__(self, kind: str, sources: Sequence[Source], every: int, seed: int = 0) -> None:
        if kind not in KINDS:
            raise SourceError(f"drift {kind!r} is unknown; expected {', '.join(KINDS)}.")
        if len(sources) < 2 or every < 1:
            raise SourceError(f"{len(sources)} sources, changing every {every} rows; expected at least two and one.")
        self.name = f"{kind} drift of {', '.join(s.name for s in sources)}"
        self._kind, self._sources, self._every, self._seed = kind, list(sources), every, seed

    def expect(self, names: list[str] | None, width: int) -> None:
        self.feature_names = names
        for source in self._sources:
            source.expect(names, width)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        row = 0 if start is None else int(start["row"])
        taps = [_Tap(self, s, *(start["parts"][i] if start else (None, 0))) for i, s in enumerate(self._sources)]
        while True:
            numbers = np.arange(row, row - row % ROWS + ROWS)
            wanted = self._choice(numbers)
            rows: Floats | None = None
            chosen = {i: np.flatnonzero(wanted == i) for i in np.unique(wanted).tolist()}
            found = {i: taps[i].take(len(places)) for i, places in chosen.items()}
            for i, got in found.items():
                places = chosen[i]
                if rows is None:
                    rows = np.empty((len(numbers), got.shape[1]), np.result_type(*found.values()))
                if got.shape[1] != rows.shape[1]:
                    raise SourceError(f"{self._sources[i].name} has {got.shape[1]} features; expected {rows.shape[1]}.")
                rows[places[: len(got)]] = got
                if len(got) < len(places):  # a source has ended, and the stream with it
                    numbers = numbers[: places[len(got)]]
            if not len(numbers) or rows is None:
                return
            whole = len(numbers) == len(wanted)
            row += len(numbers)
            parts = [tap.position for tap in taps]
            bad = tuple(b for tap in taps for b in tap.bad_since())
            yield Chunk(rows[: len(numbers)], numbers, {"row": row, "parts": parts}, bad)
            if not whole:
                return

    def _choice(self, numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Which source each row comes from: a function of its number."""
        turn, last = numbers // self._every, len(self._sources) - 1
        if self._kind == "recurring":
            return turn % (last + 1)
        if self._kind == "gradual":
            chance = np.random.default_rng([self._seed, int(numbers[0]) // ROWS]).random(ROWS)[numbers % ROWS]
            turn = turn + (chance < numbers % self._every / self._every)
        return np.minimum(turn, last)


class _Tap:
    """Any number of rows at a time from a source, their features in the order of the first one's."""

    def __init__(self, whole: Drifting, source: Source, at: Position | None, used: int) -> None:
        self._whole, self._source = whole, source
        self._at, self._used = at, used  # rows used of the chunk that begins at that position
        self._chunks = source.chunks(at)
        self._rows: npt.NDArray[np.floating] | None = None
        self._behind: Position | None = at
        self._bad: list[Bad] = []

    def bad_since(self) -> list[Bad]:
        """What the source has left out since the last time."""
        bad, self._bad = self._bad, []
        return bad

    @property
    def position(self) -> tuple[Position | None, int]:
        return self._at, self._used

    def take(self, count: int) -> Floats:
        """Up to ``count`` rows; fewer at the end."""
        found: list[Floats] = []
        while count > 0:
            if self._rows is None or self._used >= len(self._rows):
                skip = self._used if self._rows is None else 0
                chunk = next(self._chunks, None)
                if chunk is None:
                    break
                self._whole.feature_names = names = self._whole.feature_names or self._source.feature_names
                rows, self._at = by_name(chunk.rows, self._source.feature_names, names, self._source.name), self._behind
                self._behind, self._used = chunk.position, skip
                self._rows = _floats(rows, self._source.factor)
                self._bad += [b._replace(reason=f"(of {self._source.name}) {b.reason}") for b in chunk.bad]
            taken = self._rows[self._used : self._used + count]
            found.append(taken)
            self._used += len(taken)
            count -= len(taken)
        return np.concatenate(found) if found else np.empty((0, 0 if self._rows is None else self._rows.shape[1]))


def _floats(rows: npt.NDArray[Any], factor: float) -> npt.NDArray[np.floating]:
    if rows.dtype == np.uint8:
        return rows * np.float32(factor)
    return rows if rows.dtype.kind == "f" else rows.astype(np.float64)
