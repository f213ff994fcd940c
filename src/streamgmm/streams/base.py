"""What a source is: an iterable of chunks, each with the position behind it."""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from streamgmm import inputs

Position = dict[str, Any]
"""Where a source stands, as JSON: what it needs to go on from there. ``row`` counts rows read, bad ones included."""

CHUNK_BYTES = 1 << 22
BEGINNING = 1 << 16  # bytes by which a file is known again

T = TypeVar("T")


class SourceError(ValueError):
    """Data that cannot be read; the message says where and what to do."""


class Bad(NamedTuple):
    """A row that could not be read."""

    row: int
    reason: str


class Chunk(NamedTuple):
    """Rows (n, D), the number of the first one in the source, the position behind the last, and what was left out."""

    rows: npt.NDArray[Any]
    numbers: npt.NDArray[Any]
    position: Position
    bad: tuple[Bad, ...] = ()
    ids: tuple[Any, ...] | None = None


class Source(ABC):
    """Rows from somewhere. Reading from the position of any chunk goes on with the next one."""

    name: str
    path: Path | None = None  # of its file, if it is one
    skip_bad: bool = False  # whether rows that cannot be used are left out
    feature_names: list[str] | None = None
    id_type: Any = None  # Arrow's, of a column of ids that comes with one
    factor: float = 1.0  # by which rows of bytes are to be multiplied
    grows: bool = False  # whether more rows may come while it is followed

    @abstractmethod
    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Chunks from a position on; from the beginning if there is none."""

    def expect(self, names: list[str] | None, width: int) -> None:
        """Hears which features a model has learned, in case that not every row shows them."""
        return

    @property
    def n_rows(self) -> int | None:
        """Rows in all, where that is known beforehand."""
        return None


def rows_per_chunk(n_features: int, itemsize: int = 4) -> int:
    """About four megabytes, so that few rows are lost to a stop and many are read at once."""
    return max(1, min(10_000, CHUNK_BYTES // max(1, n_features * itemsize)))


def by_name(rows: npt.NDArray[Any], names: list[str] | None, wanted: list[str] | None, source: str) -> npt.NDArray[Any]:
    """The columns that a model knows, in its order; as they come, if either side has no names."""
    if names is None or wanted is None or names == wanted:
        return rows
    absent = [n for n in wanted if n not in names]
    if absent:
        raise SourceError(
            f"{source} has no column {absent[0]!r}, which the model has learned; it has {', '.join(names[:20])}."
        )
    return rows[:, [names.index(n) for n in wanted]]


def only_fit(chunk: Chunk, dtype: np.dtype[Any], source: Source, *, gaps: bool) -> Chunk:
    """The chunk without rows that a model of ``dtype`` cannot take; raises for them unless bad ones are skipped."""
    strange = [
        Bad(int(chunk.numbers[i]), why.replace("allow_nan=True", "--missing learn"))
        for i, why in inputs.unfit(chunk.rows, dtype, gaps=gaps)
    ]
    if not strange:
        return chunk
    if not source.skip_bad:
        raise SourceError(f"row {strange[0].row} of {source.name} {strange[0].reason} Or: --bad-rows skip.")
    return leave_out(chunk, np.isin(chunk.numbers, [b.row for b in strange]), strange)


def leave_out(chunk: Chunk, rows: npt.NDArray[np.bool_], why: Sequence[Bad]) -> Chunk:
    """The chunk without some ``rows``, which are bad."""
    ids = None if chunk.ids is None else tuple(i for i, out in zip(chunk.ids, rows, strict=True) if not out)
    return chunk._replace(rows=chunk.rows[~rows], numbers=chunk.numbers[~rows], bad=(*chunk.bad, *why), ids=ids)


def beginning(path: Path, size: int = BEGINNING) -> list[Any]:
    """How a file begins: the number of bytes looked at, and their hash. Files that grow keep it."""
    with path.open("rb") as file:
        head = file.read(size)
    return [len(head), sha256(head).hexdigest()]


def begins_alike(path: Path, known: Sequence[Any]) -> bool:
    """Whether a file still begins as it did."""
    return beginning(path, known[0]) == list(known)


def first_row(start: Position | None, source: Source | None = None) -> int:
    """Where to go on; raises if a source has ended before."""
    row = 0 if start is None else int(start["row"])
    if row and source is not None and source.n_rows is not None and row > source.n_rows:
        raise SourceError(
            f"{source.name} has {source.n_rows} rows, but {row} were read of it: it is not what it was. "
            "Start a new run, or give it another name to learn all of it."
        )
    return row


def ahead(chunks: Iterator[T], stop: Callable[[], bool] = lambda: False, depth: int = 6) -> Iterator[T]:
    """The same chunks, read by a thread of its own, at most ``depth`` ahead: reading overlaps with learning.

    Ends when ``stop`` says so while nothing comes.
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
        except BaseException as problem:  # whatever it is, it belongs to whoever waits
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
        thread.join(timeout=0.5)  # one that waits for a silent source is left behind
