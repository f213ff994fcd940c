"""Scores of a stream, row by row, beside the row's number or id."""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from streamgmm.keeping import Kept, feature_names
from streamgmm.mixture import Mixture
from streamgmm.streams.base import Bad, Chunk, Source, SourceError, ahead, by_name, leave_out, only_fit
from streamgmm.training import rows_with_values

Columns = dict[str, npt.NDArray[Any]]


def scored(
    kept: Kept, source: Source, contamination: float, report: Callable[[tuple[Bad, ...]], None] = lambda bad: None
) -> Iterator[Columns]:
    """For each chunk, arrays of one entry a row: log-likelihood, component and its responsibility.

    If the model knows what was usual in its stream, also p_value and whether the row is an anomaly: less likely than
    all but ``contamination`` of recent samples. ``report`` hears of rows that were left out.
    """
    mixture, usual = kept.model.mixture_, kept.recent.scores
    threshold = usual.quantile(contamination) if len(usual) >= 1 / contamination else None
    nobody = True
    source.expect(feature_names(kept.model), mixture.n_features)
    for chunk in ahead(source.chunks()):
        if len(chunk.rows):
            rows = by_name(chunk.rows, source.feature_names, feature_names(kept.model), source.name)
            chunk = only_fit(chunk._replace(rows=rows), np.dtype(mixture.means.dtype), source, gaps=takes_gaps(kept))
            chunk = _with_values(chunk)
        report(chunk.bad)
        if not len(chunk.rows):
            continue
        found = _scores(mixture, kept, source, chunk)
        if threshold is not None:
            found["p_value"] = usual.p_values(found["log_likelihood"])
            found["anomaly"] = found["log_likelihood"] < threshold
        nobody = False
        yield found
    if nobody:  # a file without rows still has a heading
        kinds = {"row": int, "log_likelihood": float, "component": int, "responsibility": float}
        kinds |= {} if threshold is None else {"p_value": float, "anomaly": bool}
        yield {name: np.empty(0, kind) for name, kind in kinds.items()}


def _with_values(chunk: Chunk) -> Chunk:
    """The chunk without rows that hold no number: nothing can be said about them."""
    empty = ~rows_with_values(chunk.rows)
    return (
        leave_out(chunk, empty, [Bad(int(n), "holds no number") for n in chunk.numbers[empty]])
        if empty.any()
        else chunk
    )


def takes_gaps(kept: Kept) -> bool:
    """Whether rows may leave out numbers: if those of training might, learned or not."""
    return bool(kept.model.allow_nan) or kept.facts.get("missing", "error") != "error"


def _scores(mixture: Mixture, kept: Kept, source: Source, chunk: Chunk) -> Columns:
    rows = chunk.rows
    if rows.shape[1] != mixture.n_features:
        raise SourceError(
            f"rows of {source.name} have {rows.shape[1]} features; the model has {mixture.n_features}. "
            "Choose columns with --columns."
        )
    dtype = np.dtype(mixture.means.dtype)
    if rows.dtype == np.uint8:
        rows = np.multiply(rows, source.factor, dtype=dtype)
    if kept.scaling is not None:
        rows = kept.scaling.apply(rows, dtype)
    found: Columns = {"row": chunk.numbers}
    if chunk.ids is not None:
        found["id"] = np.array(chunk.ids, dtype=object)
    likelihood, best, component = mixture.scores(rows)
    found["log_likelihood"] = likelihood
    found["component"] = component
    found["responsibility"] = np.minimum(1, np.exp(best - likelihood))
    return found


Write = Callable[[Columns], None]


@contextmanager
def writer(path: Path | None, out: TextIO, kind: str = "csv", id_type: Any = None) -> Iterator[Write]:
    """A function that writes scores to a file (its ending decides the form) or, without a path, to ``out``.

    The file is there once all is written; until then, what was there before stays.
    """
    form = kind if path is None else path.suffix.lstrip(".").lower()
    if form == "parquet" and path is not None:
        with _whole(path) as beside, _parquet(beside, id_type) as write:
            yield write
    elif form in ("csv", "ndjson", "jsonl"):
        text = _csv if form == "csv" else _ndjson
        if path is None:
            yield _at_once(text(out), out)
        else:
            with _whole(path) as beside, beside.open("w", newline="", encoding="utf8") as file:
                yield text(file)
    else:
        raise ValueError(f"scores cannot be written as {form!r}; expected csv, ndjson or parquet.")


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A name to write under, which becomes ``path`` in the end, or nothing."""
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        yield beside
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _at_once(write: Write, out: TextIO) -> Write:
    """Nothing is held back from whoever reads along."""

    def write_out(columns: Columns) -> None:
        write(columns)
        out.flush()

    return write_out


def _csv(file: TextIO) -> Write:
    lines = csv.writer(file, lineterminator="\n")
    known: list[str] = []

    def write(columns: Columns) -> None:
        if not known:
            known.extend(columns)
            lines.writerow(known)
        lines.writerows(zip(*(columns[name].tolist() for name in known), strict=True))

    return write


def _ndjson(file: TextIO) -> Write:
    def write(columns: Columns) -> None:
        for values in zip(*(v.tolist() for v in columns.values()), strict=True):
            found = {k: _known(v) for k, v in zip(columns, values, strict=True)}
            file.write(json.dumps(found, default=_text, allow_nan=False) + "\n")

    return write


def _known(value: Any) -> Any:
    """A value as JSON knows it: an id may be NaN or infinite."""
    return None if isinstance(value, float) and not isfinite(value) else value


def _text(value: Any) -> str:
    """An id that JSON does not know."""
    return str(value.isoformat() if hasattr(value, "isoformat") else value)


def _ids(pa: Any, values: npt.NDArray[Any], kind: Any) -> Any:
    """Ids as a column: of their own kind if they have one, otherwise text."""
    try:
        column = pa.array(values.tolist(), kind)
    except (pa.ArrowException, OverflowError):
        column = pa.array([None if v is None else str(v) for v in values], pa.string())
    return column.cast(pa.string()) if pa.types.is_null(column.type) else column


@contextmanager
def _parquet(path: Path, id_type: Any) -> Iterator[Write]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as problem:
        raise ImportError("Parquet files need pyarrow: pip install 'streamgmm[parquet]'") from problem
    open_file: list[Any] = []

    def write(columns: Columns) -> None:
        table = pa.table(
            {name: _ids(pa, values, id_type) if name == "id" else values for name, values in columns.items()}
        )
        if not open_file:
            open_file.append(pq.ParquetWriter(path, table.schema))
        if table.schema != open_file[0].schema:
            raise ValueError(
                f"ids from row {columns['row'][0]} on are {table.schema.field('id').type}, those before "
                f"{open_file[0].schema.field('id').type}; write such scores as .csv or .ndjson."
            )
        open_file[0].write_table(table)

    try:
        yield write
    finally:
        for file in open_file:
            file.close()
