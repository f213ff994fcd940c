"""Scores of a source that the workers of a cluster share: one Parquet file for each part of it."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from streamgmm.engines.workers import ClusterEngine
from streamgmm.errors import StreamGMMError
from streamgmm.runs.score import accepts_gaps, score_rows
from streamgmm.sinks import Columns, open_sink
from streamgmm.sources import BadRow, Chunk, Position, Source, fingerprint
from streamgmm.sources.slices import FileSlices, Layout, end_of, find_layout, open_slices
from streamgmm.storage import load_model
from streamgmm.storage.atomic import write_atomically

PART_BYTES = 1 << 26  # of rows in memory
ROWS_TOGETHER = 1 << 16  # whose scores are written at once
FEWEST_PARTS = 16  # if there are enough rows: a number that suits any number of workers
PLAN = "parts.json"
MOST_NAMED = 10  # bad rows of a part that are named


@dataclass(frozen=True)
class ScoreJob:
    """What to score, and how.

    Parameters
    ----------
    model : bytes
        A model file.
    open_source : callable
        Opens the source; called here and by every worker. It is given whether values may be missing.
    out : Path
        Folder that all workers can write to.
    contamination : float
        Share of typical rows that may be flagged.
    explain : int, default=0
        Number of features to name for each row.
    reading : dict, default={}
        Options of the source, as plain data: parts that were read otherwise are not mixed with these.
    """

    model: bytes
    open_source: Callable[..., Source]
    out: Path
    contamination: float
    explain: int = 0
    reading: Mapping[str, Any] = field(default_factory=dict)


def score_parts(job: ScoreJob, engine: ClusterEngine) -> Iterator[dict[str, Any]]:
    """Score all parts that are not scored yet; yield what is known of each, as plain data.

    Every part becomes a file at once, so what was interrupted continues with the parts that are missing.

    Parameters
    ----------
    job : ScoreJob
        What to score.
    engine : ClusterEngine
        Where workers run.
    """
    source = _open(job)
    layout = find_layout(source, 0, None)
    if layout.blocks is None:
        raise StreamGMMError(f"{source.name} has no end; expected files.")
    n_slices = len(open_slices(source, layout).ends)
    rows = int(layout.blocks.rows[-1])
    wanted = max(1, min(n_slices, max(FEWEST_PARTS, -(-rows * layout.row_bytes // PART_BYTES))))
    cuts = np.linspace(0, n_slices, wanted + 1).astype(int).tolist()
    plan = {
        "source": source.name,
        "rows": rows,
        "data": None if source.path is None else fingerprint(source.path),
        "end": end_of(layout),
        "reading": dict(job.reading),
        "parts": wanted,
        "model": sha256(job.model).hexdigest(),
        "contamination": job.contamination,
        "explain": job.explain,
    }
    _keep_plan(job, plan)
    left = [part for part in range(wanted) if not part_file(job.out, part).exists()]
    if left:
        yield from engine.map(partial(PartScorer, job, layout, cuts), left)


def part_file(out: Path, part: int) -> Path:
    """Return the file of a part.

    Parameters
    ----------
    out : Path
        The folder of all parts.
    part : int
        Number of the part.
    """
    return out / f"part-{part:06}.parquet"


def _keep_plan(job: ScoreJob, plan: dict[str, Any]) -> None:
    """Write down what is scored; raise if the folder holds scores of something else."""
    path = job.out / PLAN
    job.out.mkdir(parents=True, exist_ok=True)
    if path.exists():
        known = json.loads(path.read_text())
        if known != plan:
            changed = next(name for name in plan if known.get(name) != plan[name])
            raise StreamGMMError(f"{job.out} holds other scores: {changed} has changed. Choose another folder.")
    elif any(job.out.iterdir()):
        raise StreamGMMError(f"{job.out} is not empty, and does not hold parts of scores. Choose another folder.")
    else:
        write_atomically(path, json.dumps(plan).encode())


class PartScorer:
    """Scores parts of a source, on the machine of a worker.

    Parameters
    ----------
    job : ScoreJob
        What to score.
    layout : Layout
        How the source is cut into slices.
    cuts : list of int
        Number of the first slice of each part, and of all slices.
    """

    def __init__(self, job: ScoreJob, layout: Layout, cuts: list[int]) -> None:
        self._job, self._layout, self._cuts = job, layout, cuts
        self._saved, self._source = _load(job), _open(job)

    def __call__(self, part: int) -> dict[str, Any]:
        """Score a part, and return how many rows it has, how many are anomalies, and which could not be used.

        Parameters
        ----------
        part : int
            Number of the part.
        """
        rows = anomalies = 0
        bad: list[BadRow] = []
        source = PartSource(self._source, self._layout, range(*self._cuts[part : part + 2]))
        job = self._job
        with open_sink(part_file(job.out, part), sys.stdout, id_type=self._source.id_type) as write:
            scores = score_rows(self._saved, source, job.contamination, bad.extend, job.explain)
            for found in _together(scores):
                write(found)
                rows += len(found["row"])
                anomalies += int(found["anomaly"].sum()) if "anomaly" in found else 0
        named = [b._asdict() for b in bad[:MOST_NAMED]]
        return {"part": part, "rows": rows, "anomalies": anomalies, "bad": len(bad), "first_bad": named}


class PartSource(Source):
    """Some slices of a source.

    Parameters
    ----------
    source : Source
        The whole source.
    layout : Layout
        How it is cut.
    slices : range
        Numbers of the slices.
    """

    def __init__(self, source: Source, layout: Layout, slices: range) -> None:
        self.name, self.skip_bad, self.factor, self.id_type = (
            source.name,
            source.skip_bad,
            source.factor,
            source.id_type,
        )
        found = open_slices(source, layout)
        assert isinstance(found, FileSlices)
        self._source, self._slices, self._numbers = source, found, slices

    def expect(self, names: list[str] | None, width: int) -> None:
        self._source.expect(names, width)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        for chunk in self._slices.read_in_order(self._numbers):
            self.feature_names, self.left_out = self._source.feature_names, self._source.left_out
            yield chunk


def _together(parts: Iterator[Columns]) -> Iterator[Columns]:
    """Yield the same columns with more rows at a time: a file of many short row groups is slow to write and to read."""
    waiting, rows = list[Columns](), 0
    for part in parts:
        waiting.append(part)
        rows += len(part["row"])
        if rows >= ROWS_TOGETHER:
            yield _joined(waiting)
            waiting, rows = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(parts: list[Columns]) -> Columns:
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _load(job: ScoreJob) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        path.write_bytes(job.model)
        return load_model(path)


def _open(job: ScoreJob) -> Source:
    return job.open_source(missing=accepts_gaps(_load(job)))
