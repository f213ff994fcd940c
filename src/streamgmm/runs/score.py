"""Scores of the rows of a source under a saved model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.core.rows import rows_with_values
from streamgmm.core.scaling import Scaling
from streamgmm.errors import Remedy, SourceError, StreamGMMError
from streamgmm.monitoring import Judge, Monitor, Reference
from streamgmm.runs.absence import Absence
from streamgmm.sinks import Columns
from streamgmm.sources import (
    FINGERPRINT_BYTES,
    BadRow,
    Chunk,
    ReplacedError,
    Source,
    drop_rows,
    drop_unfit,
    fingerprint,
    has_fingerprint,
    read_source,
    select_columns,
)
from streamgmm.storage import SavedModel

Report = Callable[[tuple[BadRow, ...]], None]
IDLE_SECONDS = 0.2  # between two looks at a source that is followed


class Model(NamedTuple):
    """A model, and what judges rows by it."""

    saved: SavedModel
    mixture: Mixture
    judge: Judge

    @classmethod
    def of(cls, saved: SavedModel) -> Model:
        """Return what a saved model is used with."""
        return cls(saved, saved.trainer.mixture, Judge(saved.trainer, saved.monitor or Monitor()))


def score_rows(
    saved: SavedModel,
    source: Source,
    contamination: float,
    report: Report = lambda bad: None,
    explain: int = 0,
    newer: Callable[[], SavedModel | None] = lambda: None,
    stop: Callable[[], bool] | None = None,
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
    newer : callable
        Asked before each chunk for a model to use from then on; see `LatestModel.newer`.
    stop : callable or None, default=None
        Asked whether to stop, while the source is followed; None ends with the rows that there are.
    """
    if explain and saved.scaling is not None:
        raise StreamGMMError("models of runs with scaled rows cannot explain scores; train again on raw rows.")
    model = Model.of(saved)
    empty, judges = True, model.judge.known or stop is not None
    source.heading = source.heading or (saved.run or {}).get("heading") or saved.feature_names
    source.expect(saved.feature_names, model.mixture.n_features)
    for chunk in read_source(source, source.chunks()) if stop is None else _follow(source, stop):
        if (latest := newer()) is not None:
            model = Model.of(latest)
        if len(chunk.rows):
            chunk = _usable(model.saved, source, chunk)
        report(chunk.bad)
        if not len(chunk.rows):
            source.commit(chunk.position)
            continue
        samples = _samples(model.saved, source, chunk)
        found = _scores(model.mixture, samples, chunk)
        if judges:
            found |= _verdicts(model.judge, samples, found["log_likelihood"], contamination)
        if explain:
            found["explain"] = _reasons(model.mixture, model.saved, source, chunk, explain)
        if model.saved.scaling is not None:
            found["log_likelihood"] = found["log_likelihood"] + _log_volume(model.saved.scaling, chunk.rows)
        empty = False
        yield found
        source.commit(chunk.position)
    if empty:  # a file without rows still has a heading
        kinds = {"row": int, "log_likelihood": float, "component": int, "responsibility": float}
        kinds |= {"p_value": float, "anomaly": bool} if judges else {}
        kinds |= {"explain": object} if explain else {}
        yield {name: np.empty(0, kind) for name, kind in kinds.items()}


def _follow(source: Source, stop: Callable[[], bool]) -> Iterator[Chunk]:
    """Yield what the source has and what arrives later, until stopped; read a file that was replaced from its start."""
    position, known, absence = None, None, Absence(source.name)
    while not stop():
        path = source.path
        try:
            if path is not None:
                if known is not None and not has_fingerprint(path, known):
                    warnings.warn(f"{source.name} was replaced: scoring it from its beginning.", stacklevel=2)
                    position = known = None
                known = known if known is not None and known[0] >= FINGERPRINT_BYTES else fingerprint(path)
                source.fingerprint = known
            absence.note(gone=False)
            for chunk in read_source(source, source.chunks(position), stop):
                position = chunk.position
                yield chunk
                if stop():
                    return
        except ReplacedError:
            pass  # just now: look again
        except FileNotFoundError:
            absence.note(gone=True)
        if not source.grows:
            return
        time.sleep(IDLE_SECONDS)


def _usable(saved: SavedModel, source: Source, chunk: Chunk) -> Chunk:
    """Return the columns and rows of a chunk that a model can score."""
    rows = select_columns(chunk.rows, source.feature_names, saved.feature_names, source.name)
    names, gaps = saved.feature_names or source.feature_names, accepts_gaps(saved)
    chunk = drop_unfit(chunk._replace(rows=rows), saved.trainer.dtype, source, gaps=gaps, names=names)
    return _drop_empty(chunk)


def _verdicts(judge: Judge, rows: npt.NDArray[Any], scores: npt.NDArray[np.float64], contamination: float) -> Columns:
    """Return p-values and anomalies; a model that knows too little has no p-values and flags nothing."""
    if not judge.known:
        return {"p_value": np.full(len(scores), np.nan), "anomaly": np.zeros(len(scores), np.bool_)}
    p_values, thresholds = judge.judge(rows, scores, contamination)
    return {"p_value": p_values, "anomaly": scores < thresholds}


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
