"""Rows of a source with missing values filled in by a saved model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import SourceError, StreamGMMError
from streamgmm.runs.score import Report
from streamgmm.sinks import Columns
from streamgmm.sources import Chunk, Source, drop_unfit, read_source, select_columns
from streamgmm.storage import SavedModel


def impute_rows(
    saved: SavedModel, source: Source, report: Report = lambda bad: None, *, numbers: bool = False
) -> Iterator[Columns]:
    """Yield, for each chunk, the columns of the source; features of the model have no missing values any more.

    Values that are not missing stay as they are. So do all other columns, in their order, if the source names its
    columns and ``ReadOptions.others`` asks for them; otherwise there are only numbers, after the ids if there are any.

    Parameters
    ----------
    saved : SavedModel
        The model.
    source : Source
        Where rows come from.
    report : callable
        Called with the rows that were skipped in each chunk.
    numbers : bool, default=False
        Whether all features become floats. Otherwise values that are present stay what they are in text (12, true).
    """
    if saved.scaling is not None:
        raise StreamGMMError("models of runs with scaled rows cannot fill in values; train again on raw rows.")
    mixture, empty = saved.trainer.mixture, True
    source.heading = source.heading or (saved.run or {}).get("heading") or saved.feature_names
    source.expect(saved.feature_names, mixture.n_features)
    for chunk in read_source(source, source.chunks()):
        if len(chunk.rows):
            chunk = drop_unfit(chunk, np.dtype(np.float64), source, gaps=True, names=source.feature_names)
        report(chunk.bad)
        if len(chunk.rows):
            empty = False
            yield _filled_columns(saved, source, chunk, numbers)
        source.commit(chunk.position)
    if empty:
        names = source.heading or list(source.column_types) or _names(saved, source, mixture.n_features)
        yield {name: np.empty(0) for name in names}


def unknown_features(saved: SavedModel) -> list[str]:
    """Return the names of features of which no value was learned.

    Parameters
    ----------
    saved : SavedModel
        The model.
    """
    mixture = saved.trainer.mixture
    names = saved.feature_names or [f"x{i}" for i in range(mixture.n_features)]
    return [name for name, value in zip(names, mixture.constants, strict=True) if np.isinf(value)]


def _filled_columns(saved: SavedModel, source: Source, chunk: Chunk, numbers: bool) -> Columns:
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
    names, stored = _names(saved, source, rows.shape[1]), chunk.columns or {}
    features = dict(zip(names, filled.T, strict=True))
    if stored and not numbers:
        missing = dict(zip(names, np.isnan(rows).T, strict=True))
        features = {name: _as_stored(stored[name], values, missing[name]) for name, values in features.items()}
    if stored:
        return {
            name: features[name] if values is None or name in features else values for name, values in stored.items()
        }
    return features if chunk.ids is None else {"id": np.array(chunk.ids, dtype=object), **features}


def _as_stored(
    stored: npt.NDArray[Any] | None, filled: npt.NDArray[Any], missing: npt.NDArray[np.bool_]
) -> npt.NDArray[Any]:
    """Return a column with filled gaps, in which all other values are as they are stored."""
    return filled if stored is None else np.where(missing & ~np.isnan(filled), filled.astype(object), stored)


def _names(saved: SavedModel, source: Source, width: int) -> list[str]:
    names = source.feature_names or saved.feature_names
    return [f"x{i}" for i in range(width)] if names is None or len(names) != width else list(names)
