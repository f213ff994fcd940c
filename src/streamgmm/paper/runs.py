"""Runs and their records. Each run has one JSON file, so that an interrupted table resumes where it stopped."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

import streamgmm
from streamgmm.paper.processes import call_in_processes
from streamgmm.progress import live_line
from streamgmm.storage.atomic import write_atomically

FORMAT = 2  # of records; raise it when a run measures something else than before


@dataclass(frozen=True)
class Run:
    """One training to measure.

    Parameters
    ----------
    dataset : str
        Data set.
    method : str
        "sgd", "natural", "sem" or "batch".
    seed : int
        Seed of the start and of the order of samples.
    passes : int
        Passes over the data.
    settings : dict, default={}
        Settings that differ from the defaults; "sem" and "natural" hold those of the rule, "baseline" is SGD's,
        "precision_start" and "weights_start" say how the model begins.
    data : dict, default={}
        Which data to use: "rows", "classes", "all_but", "test_on", "patch", "parts", "start_classes", "reading", "own";
        and what else to do: "clusters" lists numbers of test samples for clustering indices, "model" is a folder to
        save to.
    """

    dataset: str
    method: str
    seed: int
    passes: int
    settings: dict[str, Any] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)

    @property
    def file(self) -> str:
        """Name of the record, unique to the run and the version of streamgmm."""
        text = json.dumps([asdict(self), streamgmm.__version__, FORMAT], sort_keys=True)
        return f"{self.dataset}-{self.method}-{self.seed}-{sha256(text.encode()).hexdigest()[:10]}.json"


Measure = Callable[[Run], dict[str, Any]]
Results = dict[str, dict[str, Any]]


def recorded(runs: Iterable[Run], folder: Path) -> Results:
    """Return the results of those runs that have a record.

    Parameters
    ----------
    runs : iterable of Run
        The runs.
    folder : Path
        Folder of the records.
    """
    return {run.file: found for run in runs if (found := _read(folder / run.file)) is not None}


def measure_all(runs: Iterable[Run], measure: Measure, folder: Path, jobs: int, label: str) -> Results:
    """Return the results of all runs by record name; measure those that have no record yet.

    Parameters
    ----------
    runs : iterable of Run
        The runs.
    measure : callable
        Measures one run; called in other processes.
    folder : Path
        Folder of the records.
    jobs : int
        Processes.
    label : str
        What to call the runs in the progress line.
    """
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {run.file: run for run in runs}
    results = recorded(wanted.values(), folder)
    missing = [run for name, run in wanted.items() if name not in results]
    if not missing:
        return {name: results[name] for name in wanted}
    with live_line(label, len(wanted)) as show, closing(call_in_processes(measure, missing, jobs)) as measured:
        show(len(results), None)
        for run, found in measured:
            record = {"run": asdict(run), "versions": versions(), "results": found}
            write_atomically(folder / run.file, json.dumps(record).encode())
            results[run.file] = found
            show(len(results), None)
    return {name: results[name] for name in wanted}


def versions() -> dict[str, str]:
    """Return the versions of everything that a record depends on."""
    import sklearn

    return {
        "streamgmm": streamgmm.__version__,
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }


def _read(path: Path) -> dict[str, Any] | None:
    try:
        return dict(json.loads(path.read_text(encoding="utf8"))["results"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
