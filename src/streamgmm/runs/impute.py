"""Rows of a source with missing values filled in by a saved model."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import SourceError, StreamGMMError
from streamgmm.runs.score import Report
from streamgmm.sinks import Columns
from streamgmm.sources import Chunk, Source, drop_unfit, read_source, select_columns
from streamgmm.storage import SavedModel


def impute_rows(
    saved: SavedModel, source: Source, report: Report = lambda bad: None, others: Sequence[str] = ()
) -> Iterator[Columns]:
    """Yield, for each chunk, the columns of the source; features of the model have no missing values any more.

    Ids, columns that the model does not know, and values that are not missing stay as they are.

    Parameters
    ----------
    saved : SavedModel
        The model.
    source : Source
        Where rows come from.
    report : callable
        Called with the rows that were skipped in each chunk.
    others : sequence of str
        Names of columns that are to be kept although the model does not know them; see `other_columns`.
    """
    if saved.scaling is not None:
        raise StreamGMMError("models of runs with scaled rows cannot fill in values; train again on raw rows.")
    mixture, empty = saved.trainer.mixture, True
    names = None if saved.feature_names is None else [*saved.feature_names, *others]
    source.expect(names, mixture.n_features + len(others))
    for chunk in read_source(source, source.chunks()):
        if len(chunk.rows):
            chunk = drop_unfit(chunk, np.dtype(np.float64), source, gaps=True, names=source.feature_names)
        report(chunk.bad)
        if len(chunk.rows):
            empty = False
            yield _columns(saved, source, chunk)
        source.commit(chunk.position)
    if empty:
        yield {name: np.empty(0) for name in _names(saved, source, mixture.n_features)}


def other_columns(saved: SavedModel, source: Source) -> list[str]:
    """Return the columns of numbers that a source has and a model does not know; the source is read for it.

    Parameters
    ----------
    saved : SavedModel
        The model.
    source : Source
        The source, opened for this alone.
    """
    if saved.feature_names is None:
        return []
    next(iter(source.chunks()), None)
    return [name for name in source.feature_names or [] if name not in saved.feature_names]


def _columns(saved: SavedModel, source: Source, chunk: Chunk) -> Columns:
    rows: npt.NDArray[Any] = chunk.rows
    if rows.dtype == np.uint8:
        rows = rows * source.factor
    filled = np.array(rows, np.float64)
    chosen = select_columns(np.arange(rows.shape[1])[None], source.feature_names, saved.feature_names, source.name)[0]
    own, width = filled[:, chosen], saved.trainer.n_features
    if own.shape[1] != width:
        raise SourceError(f"rows of {source.name} have {own.shape[1]} features; the model has {width}.")
    gaps = np.isnan(own)
    filled[:, chosen] = np.where(gaps, saved.trainer.mixture.impute(own), own)
    found: Columns = {} if chunk.ids is None else {"id": np.array(chunk.ids, dtype=object)}
    for name, values in zip(_names(saved, source, rows.shape[1]), filled.T, strict=True):
        found[name] = values
    return found


def _names(saved: SavedModel, source: Source, width: int) -> list[str]:
    names = source.feature_names or saved.feature_names
    return [f"x{i}" for i in range(width)] if names is None or len(names) != width else list(names)
