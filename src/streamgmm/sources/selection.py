"""The columns and rows of a chunk that a model can use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.rows import unfit
from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import BadRow, Chunk, Source


def select_columns(
    rows: npt.NDArray[Any], names: list[str] | None, wanted: list[str] | None, source: str
) -> npt.NDArray[Any]:
    """Return the columns that a model knows, in its order; all of them if either side has no names.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        Rows of the source.
    names : list of str or None
        Names of the columns of the rows.
    wanted : list of str or None
        Names of the features of the model.
    source : str
        Name of the source.
    """
    if names is None or wanted is None or names == wanted:
        return rows
    require_columns(names, wanted, source)
    return rows[:, [names.index(n) for n in wanted]]


def require_columns(names: list[str], wanted: list[str], source: str) -> None:
    """Raise ``SourceError`` unless a source has all features of a model.

    Parameters
    ----------
    names : list of str
        Names of the columns of the source.
    wanted : list of str
        Names of the features of the model.
    source : str
        Name of the source.
    """
    absent = [n for n in wanted if n not in names]
    if absent:
        raise SourceError(
            f"{source} has no column {absent[0]!r}, a feature of the model; it has {', '.join(names[:20])}."
        )


def drop_unfit(
    chunk: Chunk, dtype: np.dtype[Any], source: Source, *, gaps: bool, names: Sequence[str] | None = None
) -> Chunk:
    """Return a chunk without the rows that a model cannot learn; raise ``SourceError`` unless bad rows are skipped.

    Parameters
    ----------
    chunk : Chunk
        Rows of the source.
    dtype : dtype
        Floating-point type of the model.
    source : Source
        Where the chunk comes from.
    gaps : bool
        Whether rows may contain NaN.
    names : sequence of str or None, default=None
        Names of the features, for messages.
    """
    if not chunk.rows.shape[1]:
        raise SourceError(f"rows of {source.name} have no features; expected at least 1.", Remedy.CHOOSE_COLUMNS)
    unfit_rows = list(unfit(chunk.rows, dtype, gaps=gaps, names=names))
    if not unfit_rows:
        return chunk
    bad = [BadRow(int(chunk.numbers[i]), reason) for i, reason in unfit_rows]
    if not source.skip_bad:
        first, _ = unfit_rows[0]
        fit_with_gaps = not gaps and not any(unfit(chunk.rows[first : first + 1], dtype, gaps=True))
        raise SourceError(
            f"row {bad[0].row} of {source.name} {bad[0].reason}.",
            *([Remedy.ALLOW_MISSING] if fit_with_gaps else []),
            Remedy.SKIP_BAD_ROWS,
        )
    return drop_rows(chunk, np.isin(chunk.numbers, [b.row for b in bad]), bad)


def drop_rows(chunk: Chunk, dropped: npt.NDArray[np.bool_], bad: Sequence[BadRow]) -> Chunk:
    """Return a chunk without some rows, and with the reasons.

    Parameters
    ----------
    chunk : Chunk
        Rows of a source.
    dropped : ndarray of bool of shape (n,)
        Which rows to drop.
    bad : sequence of BadRow
        The dropped rows and why; added to ``Chunk.bad``.
    """
    ids = None if chunk.ids is None else tuple(i for i, drop in zip(chunk.ids, dropped, strict=True) if not drop)
    rows, numbers = chunk.rows[~dropped], chunk.numbers[~dropped]
    columns = chunk.columns
    if columns is not None:
        columns = {name: None if values is None else values[~dropped] for name, values in columns.items()}
    return chunk._replace(rows=rows, numbers=numbers, bad=(*chunk.bad, *bad), ids=ids, columns=columns)
