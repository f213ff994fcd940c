"""Scores of a stream, row by row, beside the row's number or id."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import numpy.typing as npt

from streamgmm import inputs
from streamgmm.mixture import Mixture
from streamgmm.running import Kept, feature_names
from streamgmm.streams.base import Chunk, Source, SourceError, ahead, by_name

Columns = dict[str, npt.NDArray[Any]]


def scored(kept: Kept, source: Source, contamination: float) -> Iterator[Columns]:
    """For each chunk, arrays of one entry a row: log-likelihood, component and its responsibility.

    If the model knows what was usual in its stream, also p_value and whether the row is an anomaly: less likely than
    all but ``contamination`` of recent samples.
    """
    mixture, usual = kept.model.mixture_, kept.recent.scores
    threshold = usual.quantile(contamination) if len(usual) >= 1 / contamination else None
    nobody = True
    for chunk in ahead(source.chunks()):
        if not len(chunk.rows):
            continue
        rows = by_name(chunk.rows, source.feature_names, feature_names(kept.model), source.name)
        chunk = chunk._replace(rows=rows)
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
    name = f"{source.name} (from row {chunk.numbers[0]} on)"
    inputs.refuse_unfit(rows, dtype, name, gaps=takes_gaps(kept))
    if rows.dtype == np.uint8:
        rows = np.multiply(rows, source.factor, dtype=dtype)
    if kept.scaling is not None:
        rows = kept.scaling.apply(rows, dtype)
    found: Columns = {"row": chunk.numbers}
    if chunk.ids is not None:
        found["id"] = np.array(chunk.ids, dtype=object)
    responsibilities = mixture.responsibilities(rows)
    best = responsibilities.argmax(1)
    found["log_likelihood"] = mixture.log_prob(rows)
    found["component"] = best
    found["responsibility"] = responsibilities[np.arange(len(best)), best]
    return found


Write = Callable[[Columns], None]


@contextmanager
def writer(path: Path | None, out: TextIO, kind: str = "csv") -> Iterator[Write]:
    """A function that writes scores to a file (its ending decides the form) or, without a path, to ``out``."""
    form = kind if path is None else path.suffix.lstrip(".")
    if form == "parquet" and path is not None:
        with _parquet(path) as write:
            yield write
    elif form in ("csv", "ndjson", "jsonl"):
        text = _csv if form == "csv" else _ndjson
        if path is None:
            yield text(out)
        else:
            with path.open("w", newline="", encoding="utf8") as file:
                yield text(file)
    else:
        raise ValueError(f"scores cannot be written as {form!r}; expected csv, ndjson or parquet.")


def _csv(file: TextIO) -> Write:
    lines = csv.writer(file)
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
            file.write(json.dumps(dict(zip(columns, values, strict=True))) + "\n")

    return write


@contextmanager
def _parquet(path: Path) -> Iterator[Write]:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as problem:
        raise ImportError("Parquet files need pyarrow: pip install 'streamgmm[parquet]'") from problem
    open_file: list[Any] = []

    def write(columns: Columns) -> None:
        table = pa.table({name: values if name != "id" else values.tolist() for name, values in columns.items()})
        if not open_file:
            open_file.append(pq.ParquetWriter(path, table.schema))
        open_file[0].write_table(table)

    try:
        yield write
    finally:
        for file in open_file:
            file.close()
