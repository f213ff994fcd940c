"""What is asked for, how long it will take, and tables that say how ours compares with the paper's."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np

from streamgmm import kernels
from streamgmm.grid import filters, torus
from streamgmm.paper.published import Value
from streamgmm.paper.runs import Results, Run, measure_all, recorded
from streamgmm.paper.training_runs import measure

SIZES = {  # training samples, test samples, features: to foretell the time without opening the files
    "mnist": (60_000, 10_000, 784),
    "fashionmnist": (60_000, 10_000, 784),
    "notmnist": (15_724, 3000, 784),
    "devanagari": (17_000, 3000, 1024),
    "svhn": (18_000, 4500, 3072),
    "isolet": (6238, 1559, 617),
    "fruits360": (7785, 2603, 30_000),
}
# Per sample, component and feature, on the machine of docs/results.md.
NANOSECONDS = {"sgd": 0.45, "natural": 0.2, "sem": 0.25, "batch": 0.7}
PROBE_SECONDS = 30e-6  # of a wide step with 64 components and 784 features, there


@dataclass(frozen=True)
class Plan:
    """Data sets, seeds, processes and the folder of records; ``quick`` takes few rows, one seed and one pass."""

    names: list[str]
    seeds: int
    jobs: int
    folder: Path
    quick: bool = False

    def seeds_of(self, name: str) -> range:
        return range(1 if self.quick else min(self.seeds, 3) if name == "fruits360" else self.seeds)

    @property
    def passes(self) -> int:
        return 1 if self.quick else 3

    def part(self, name: str, **wanted: Any) -> dict[str, Any]:
        """Which data of a set a run takes."""
        rows = {"rows": 200 if name == "fruits360" else 1500} if self.quick else {}
        return {**wanted, **rows}

    def run(self, runs: Iterable[Run], label: str) -> Results:
        return measure_all(runs, measure, self.folder, self.jobs, label)

    def seconds(self, runs: Iterable[Run]) -> float:
        """Roughly how long the runs that have no record will take."""
        runs = list(runs)
        known = recorded(runs, self.folder)
        missing = {run.file: run for run in runs if run.file not in known}
        return machine_factor() * sum(map(expected_seconds, missing.values())) / self.jobs


def expected_seconds(run: Run) -> float:
    rows, tested, features = SIZES[run.dataset]
    if run.data.get("rows"):
        rows, tested = min(rows, run.data["rows"]), min(tested, run.data["rows"])
    components = run.settings.get("n_components", 64)
    ones = components * features * 1e-9
    clusters = tested**2 * features * 4e-11 if run.data.get("clusters") else 0.0
    learning = rows * run.passes * ones * NANOSECONDS[run.method]
    return 0.3 + learning + clusters + 0.3 * run.passes * tested * ones


def machine_factor() -> float:
    """How much slower this machine is than that of the estimates."""
    p = kernels.Parameters(np.zeros((64, 784), np.float32), np.ones((64, 784)), np.zeros(64))
    x = np.zeros((200, 784), np.float32)
    begin = time.perf_counter()
    kernels.sgd_steps(p, x, filters(torus(64), 2.0), rate=0.001, scale_bounds=(1e-3, 4.0))
    return (time.perf_counter() - begin) / len(x) / PROBE_SECONDS


@dataclass
class Table:
    """A table for people, and the same as plain data."""

    title: str
    words: str
    columns: list[str]
    rows: list[list[Any]] = field(default_factory=list)

    def markdown(self) -> str:
        lines = ["| " + " | ".join(self.columns) + " |", "|---" * len(self.columns) + "|"]
        lines += ["| " + " | ".join(map(str, row)) + " |" for row in self.rows]
        return f"### {self.title}\n\n{self.words}\n\n" + "\n".join(lines) + "\n"


def summary(values: Sequence[float]) -> Value:
    """Mean and standard deviation over seeds."""
    known = [v for v in values if np.isfinite(v)]
    if not known:
        return Value(float("nan"), 0.0)
    return Value(mean(known), stdev(known) if len(known) > 1 else 0.0)


def shown(value: Value | None, digits: int = 1, bold: bool = False) -> str:
    if value is None:
        return "–"
    text = f"{value.mean:.{digits}f}" if value.std is None else f"{value.mean:.{digits}f} ± {value.std:.{digits}f}"
    return f"**{text}**" if bold else text


def better(a: Value, b: Value, more: bool = True) -> bool:
    """Whether a is better than b by more than half a standard deviation (the larger of the two)."""
    gap = (a.mean - b.mean) * (1 if more else -1)
    return gap > 0.5 * max(a.std or 0.0, b.std or 0.0)


def verdict(a: Value, b: Value, names: tuple[str, str], more: bool = True) -> str:
    """Who is better, in the paper's sense, or 'even'."""
    return names[0] if better(a, b, more) else names[1] if better(b, a, more) else "even"


def last(results: Results, runs: Iterable[Run], name: str) -> Value:
    """A figure after the last pass, over runs."""
    return summary([results[r.file]["passes"][-1][name] for r in runs])


def ceiling(features: int, precision_max: float = 20.0) -> float:
    """The largest log-likelihood that so many features allow under the cap."""
    return 0.5 * features * float(np.log(precision_max / (2 * np.pi)))
