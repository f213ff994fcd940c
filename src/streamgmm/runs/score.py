"""Scores of the rows of a source under a saved model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.core.rows import rows_with_values
from streamgmm.core.scaling import Scaling
from streamgmm.errors import Remedy, SourceError, StreamGMMError
from streamgmm.monitoring import Judge, Monitor, Reference
from streamgmm.sinks import Columns
from streamgmm.sources import BadRow, Chunk, Source, drop_rows, drop_unfit, read_ahead, select_columns
from streamgmm.storage import SavedModel

Report = Callable[[tuple[BadRow, ...]], None]


def score_rows(
    saved: SavedModel,
    source: Source,
    contamination: float,
    report: Report = lambda bad: None,
    explain: int = 0,
) -> Iterator[Columns]:
    """Yield, for each chunk, columns with one entry per row: log-likelihood, component and its responsibility.

    If the model knows what is typical of its stream, also yield p_value and whether the row is an anomaly: less likely
    than all but ``contamination`` of typical rows.

    Parameters
    ----------
    saved : SavedModel
        The model.
    source : Source
        Where rows come from.
    contamination : float
        Share of typical rows that may be flagged.
    report : callable
        Called with the rows that were skipped in each chunk.
    explain : int, default=0
        Number of features to name for each row, with the reason; see ``Mixture.explain``.
    """
    if explain and saved.scaling is not None:
        raise StreamGMMError("models of runs with scaled rows cannot explain scores; train again on raw rows.")
    mixture, judge = saved.trainer.mixture, Judge(saved.trainer, saved.monitor or Monitor())
    empty = True
    source.expect(saved.feature_names, mixture.n_features)
    for chunk in read_ahead(source.chunks()):
        if len(chunk.rows):
            rows = select_columns(chunk.rows, source.feature_names, saved.feature_names, source.name)
            chunk = drop_unfit(chunk._replace(rows=rows), saved.trainer.dtype, source, gaps=accepts_gaps(saved))
            chunk = _drop_empty(chunk)
        report(chunk.bad)
        if not len(chunk.rows):
            source.commit(chunk.position)
            continue
        samples = _samples(saved, source, chunk)
        found = _scores(mixture, samples, chunk)
        if judge.known:
            found["p_value"], thresholds = judge.judge(samples, found["log_likelihood"], contamination)
            found["anomaly"] = found["log_likelihood"] < thresholds
        if explain:
            found["explain"] = _reasons(mixture, saved, source, chunk, explain)
        if saved.scaling is not None:
            found["log_likelihood"] = found["log_likelihood"] + _log_volume(saved.scaling, chunk.rows)
        empty = False
        yield found
        source.commit(chunk.position)
    if empty:  # a file without rows still has a heading
        kinds = {"row": int, "log_likelihood": float, "component": int, "responsibility": float}
        kinds |= {} if not judge.known else {"p_value": float, "anomaly": bool}
        kinds |= {"explain": object} if explain else {}
        yield {name: np.empty(0, kind) for name, kind in kinds.items()}


def typical_scores(saved: SavedModel) -> Reference:
    """Return what typical rows score, which may be unknown."""
    return (saved.monitor or Monitor()).reference


def accepts_gaps(saved: SavedModel) -> bool:
    """Whether rows may have gaps: if those of training might, learned or skipped."""
    return bool(saved.trainer.settings.allow_nan) or (saved.run or {}).get("missing", "error") != "error"


def _log_volume(scaling: Scaling, rows: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Return what the log-likelihood of each row gains when it is expressed in the units of the rows."""
    known = np.ones(rows.shape) if rows.dtype.kind != "f" else ~np.isnan(rows)
    return np.asarray(known @ np.log(scaling.factor))


def _drop_empty(chunk: Chunk) -> Chunk:
    """Drop rows that hold no number: nothing can be said about them."""
    empty = ~rows_with_values(chunk.rows)
    bad = [BadRow(int(n), "contains no number") for n in chunk.numbers[empty]]
    return drop_rows(chunk, empty, bad) if bad else chunk


def _reasons(mixture: Mixture, saved: SavedModel, source: Source, chunk: Chunk, most: int) -> npt.NDArray[Any]:
    """Return, for each row, why it is strange, as plain data."""
    rows = chunk.rows * source.factor if chunk.rows.dtype == np.uint8 else chunk.rows
    found = np.empty(len(rows), object)
    for i, reasons in enumerate(mixture.explain(rows, saved.feature_names, most)):
        found[i] = [reason._asdict() for reason in reasons]
    return found


def _samples(saved: SavedModel, source: Source, chunk: Chunk) -> npt.NDArray[Any]:
    """Return the rows of a chunk as the model has learned them."""
    rows, width, dtype = chunk.rows, saved.trainer.n_features, saved.trainer.dtype
    if rows.shape[1] != width:
        raise SourceError(
            f"rows of {source.name} have {rows.shape[1]} features; the model has {width}.", Remedy.CHOOSE_COLUMNS
        )
    if rows.dtype == np.uint8:
        rows = np.multiply(rows, source.factor, dtype=dtype)
    return rows if saved.scaling is None else saved.scaling.apply(rows, dtype)


def _scores(mixture: Mixture, rows: npt.NDArray[Any], chunk: Chunk) -> Columns:
    found: Columns = {"row": chunk.numbers}
    if chunk.ids is not None:
        found["id"] = np.array(chunk.ids, dtype=object)
    likelihood, best, component = mixture.scores(rows)
    found["log_likelihood"] = likelihood
    found["component"] = component
    found["responsibility"] = np.minimum(1, np.exp(best - likelihood))
    return found
