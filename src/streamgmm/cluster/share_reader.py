"""Reading a share: the rows that a model can learn, and what is known of the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.cluster.joining import joined
from streamgmm.core.rows import float_type
from streamgmm.errors import Remedy, SourceError
from streamgmm.sources import Chunk, Source, drop_unfit, select_columns
from streamgmm.sources.slices import Layout, Piece, Slices, open_slices


@dataclass(frozen=True)
class Reading:
    """How workers read a source.

    Parameters
    ----------
    open : callable
        Opens the source; each worker calls it once.
    missing : {"error", "learn", "skip"}, default="error"
        What to do with rows that have gaps.
    feature_names : list of str or None, default=None
        Names of the features of the model.
    n_features : int or None, default=None
        Number of features; None while nothing was learned.
    dtype : str or None, default=None
        Float type of the model; None while nothing was learned.
    """

    open: Callable[[], Source]
    missing: str = "error"
    feature_names: list[str] | None = None
    n_features: int | None = None
    dtype: str | None = None


class ShareReader:
    """Reads pieces of a source.

    Parameters
    ----------
    reading : Reading
        How to read.
    source : Source or None, default=None
        The source, if it is open already.
    """

    def __init__(self, reading: Reading, source: Source | None = None) -> None:
        self.reading, self.source = reading, reading.open() if source is None else source
        self._opened: tuple[int, Slices] | None = None

    def use(self, layout: Layout, slices: Slices) -> None:
        """Read from slices that are open already.

        Parameters
        ----------
        layout : Layout
            How the pass is cut.
        slices : Slices
            Its slices.
        """
        self._opened = layout.number, slices

    def chunks(self, layout: Layout, pieces: Iterable[Piece]) -> Iterator[Chunk]:
        """Yield the rows of some pieces that a model can learn; rows with gaps stay, unless they are to be skipped.

        Parameters
        ----------
        layout : Layout
            How the pass is cut.
        pieces : iterable of Piece
            What to read.
        """
        if self.reading.n_features is not None:
            self.source.expect(self.reading.feature_names, self.reading.n_features)
        for _, chunk in joined((None, self._usable(self._slices(layout).read(piece))) for piece in pieces):
            yield chunk

    def _slices(self, layout: Layout) -> Slices:
        if self._opened is None or self._opened[0] != layout.number:
            self._opened = layout.number, open_slices(self.source, layout)
        return self._opened[1]

    def _usable(self, chunk: Chunk) -> Chunk:
        if not len(chunk.rows):
            return chunk
        source, reading = self.source, self.reading
        rows = select_columns(chunk.rows, source.feature_names, reading.feature_names, source.name)
        if reading.n_features not in (None, rows.shape[1]):
            raise SourceError(
                f"rows of {source.name} have {rows.shape[1]} features; the model has {reading.n_features}.",
                Remedy.CHOOSE_COLUMNS,
            )
        dtype = np.dtype(reading.dtype or float_type(rows, of_bytes=np.float32))
        return drop_unfit(chunk._replace(rows=rows), dtype, source, gaps=reading.missing != "error")


def count_gaps(rows: npt.NDArray[Any], missing: str) -> int:
    """Count rows that are not learned because of gaps.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        Rows.
    missing : {"error", "learn", "skip"}
        What is done with rows that have gaps.
    """
    if missing == "error" or rows.dtype.kind != "f":
        return 0
    gaps = np.isnan(rows)
    return int((gaps.any(1) if missing == "skip" else gaps.all(1)).sum())
