"""The rules side by side: SGD, stochastic EM (best of its grid), the natural rule, and batch EM as a yardstick."""

from __future__ import annotations

import time
from functools import lru_cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.paper.batch_em import batch_em
from streamgmm.paper.runs import Run, measure_all
from streamgmm.paper.streaming import GRID
from streamgmm.paper.training_runs import SHORT_PERIODS
from streamgmm.rules import Natural, StochasticEM, from_settings

COMPONENTS = 64


@lru_cache(maxsize=1)
def _data(name: str) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    data = datasets.load(name)
    return datasets.scaled(data.x_train), datasets.scaled(data.x_test)


def measure(run: Run) -> dict[str, Any]:
    """Trains as ``run`` says and measures on test data after every pass."""
    x, test = _data(run.dataset)
    if "rows" in run.settings:
        x = x[np.random.default_rng(0).permutation(len(x))[: run.settings["rows"]]]
    begin = time.perf_counter()
    if run.method == "batch":
        model = batch_em(x, run.seed, run.settings["iterations"])
        seconds = time.perf_counter() - begin
        return {"passes": [_measured(model, test)], "seconds": seconds}
    model = StreamingGaussianMixture(COMPONENTS, random_state=run.seed, **_settings(run))
    order, passes, spent = np.random.default_rng([run.seed, 1]), [], 0.0
    for _ in range(run.passes):
        rows = x[order.permutation(len(x))]
        begin = time.perf_counter()
        model.partial_fit(rows)
        spent += time.perf_counter() - begin
        passes.append({**_measured(model, test), "seconds": spent})
    return {"passes": passes, "seconds": spent}


def _settings(run: Run) -> dict[str, Any]:
    settings = {k: v for k, v in run.settings.items() if k != "rows"}
    if run.method == "sem":
        return {"rule": StochasticEM(**settings)}
    if run.method == "natural":
        return {"rule": from_settings(settings)}
    if run.method == "sgd":
        return {"rule": "sgd", "period": SHORT_PERIODS.get(run.dataset), **settings}
    raise ValueError(f"method {run.method!r} is unknown.")


def _measured(model: StreamingGaussianMixture, test: npt.NDArray[np.float32]) -> dict[str, float]:
    top = model.max_component_score_samples(test)
    return {
        "max_component": float(top.mean()),
        "log_likelihood": float(model.score_samples(test).mean()),
        "live": len(np.unique(model.predict(test))),
        "least_weight": float(model.weights_.min() * COMPONENTS),
    }


def best_sem(names: list[str], folder: Path, jobs: int, rows: dict[str, int]) -> dict[str, dict[str, float]]:
    """The setting of the grid that does best after one pass with seed 0, for each data set."""
    runs = {(name, i): Run(name, "sem", 0, 1, {**s, **_rows(name, rows)}) for name in names for i, s in enumerate(GRID)}
    found = measure_all(runs.values(), measure, folder, jobs, "sem grid")
    best = {}
    for name in names:
        values = [found[runs[name, i].file]["passes"][0]["max_component"] for i in range(len(GRID))]
        best[name] = GRID[int(np.argmax(values))]
    return best


def _rows(name: str, rows: dict[str, int]) -> dict[str, int]:
    return {"rows": rows[name]} if name in rows else {}


def make(names: list[str], seeds: int, jobs: int, folder: Path, quick: bool = False) -> list[dict[str, Any]]:
    """All rows of the table: one a data set and method, with mean and deviation over seeds."""
    rows = dict.fromkeys(names, 3000) if quick else {}
    best = best_sem(names, folder, jobs, rows)
    runs: dict[tuple[str, str], list[Run]] = {}
    for name in names:
        count = min(seeds, 3) if name == "fruits360" else seeds
        settings: dict[str, dict[str, Any]] = {
            "sgd": {},
            "sem": dict(best[name]),
            "natural": Natural().settings(),
            "batch": {"iterations": 3 if quick else 30},
        }
        for method, chosen in settings.items():
            made = [Run(name, method, s, 3, {**chosen, **_rows(name, rows)}) for s in range(count)]
            runs[name, method] = made
    found = measure_all([r for group in runs.values() for r in group], measure, folder, jobs, "rules")
    table = []
    for (name, method), group in runs.items():
        records = [found[r.file] for r in group]
        for label, at in (("natural, 1 pass", 0), ("natural, 3 passes", 2)) if method == "natural" else ((method, -1),):
            table.append({"dataset": name, "method": label, "settings": group[0].settings, **_summary(records, at)})
    return table


def _summary(records: list[dict[str, Any]], at: int) -> dict[str, Any]:
    last = [r["passes"][at] for r in records]
    values = [p["max_component"] for p in last]
    return {
        "mean": mean(values),
        "std": stdev(values) if len(values) > 1 else 0.0,
        "log_likelihood": mean(p["log_likelihood"] for p in last),
        "live": min(p["live"] for p in last),
        "least_weight": min(p["least_weight"] for p in last),
        "seconds": mean(p.get("seconds", r["seconds"]) for p, r in zip(last, records, strict=True)),
        "seeds": len(records),
    }


def markdown(table: list[dict[str, Any]]) -> str:
    """The table for people: test max-component log-likelihood, mean ± std; live components; seconds."""
    methods = ["sgd", "sem", "natural, 1 pass", "natural, 3 passes", "batch"]
    titles = [
        "SGD, 3 passes",
        "sEM, best of grid, 3 passes",
        "natural, 1 pass",
        "natural, 3 passes",
        "batch EM + k-means, 30 it.",
    ]
    cells = {(r["dataset"], r["method"]): r for r in table}
    lines = ["| data | " + " | ".join(titles) + " |", "|---" * (len(titles) + 1) + "|"]
    for name in dict.fromkeys(r["dataset"] for r in table):
        parts = []
        for method in methods:
            r = cells[name, method]
            parts.append(f"{r['mean']:.1f} ± {r['std']:.1f} ({r['live']}; {r['seconds']:.1f} s)")
        lines.append(f"| {name} | " + " | ".join(parts) + " |")
    return "\n".join(lines) + "\n"
