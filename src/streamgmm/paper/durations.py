"""Estimates of how long runs take."""

from __future__ import annotations

import time

import numpy as np

from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.paper.runs import Run

SIZES = {  # training samples, test samples and features, so that no file need be opened
    "mnist": (60_000, 10_000, 784),
    "fashionmnist": (60_000, 10_000, 784),
    "notmnist": (15_724, 3000, 784),
    "devanagari": (17_000, 3000, 1024),
    "svhn": (18_000, 4500, 3072),
    "isolet": (6238, 1559, 617),
    "fruits360": (7785, 2603, 30_000),
}
# On the machine of docs/results.md:
NANOSECONDS = {  # per sample, component and feature
    "sgd": 0.45,
    "natural": 0.2,
    "sem": 0.25,
    "batch": 0.7,
    "exact": 6.0,
    "flat": 0.3,
    "flat-defaults": 0.6,
    "flat-low-rank": 3.0,
    "two-layers": 8.0,
    "three-layers": 8.0,
}
PROBE_SECONDS = 30e-6  # per sample in `machine_factor`


def expected_seconds(run: Run) -> float:
    """Estimate how long a run takes on the machine of docs/results.md.

    Parameters
    ----------
    run : Run
        The run.
    """
    rows, tested, features = run.data["own"]["size"] if "own" in run.data else SIZES[run.dataset]
    if run.data.get("rows"):
        rows, tested = min(rows, run.data["rows"]), min(tested, run.data["rows"])
    components = run.settings.get("n_components", 64)
    unit = components * features * 1e-9
    clusters = (
        sum(min(tested, n) ** 2 * (10 if n < tested else 1) for n in run.data.get("clusters", ())) * features * 4e-11
    )
    learning = rows * run.passes * unit * NANOSECONDS[run.method]
    return 0.3 + learning + clusters + 0.3 * run.passes * tested * unit


def machine_factor() -> float:
    """Measure how much slower this machine is than that of docs/results.md."""
    settings = Settings(64, rule="sgd", scale="none", sigma_init=2.0, period=1000)
    trainer = Trainer(settings, 784, np.float32, engine=Serial(), seed=0)
    x = np.zeros((200, 784), np.float32)
    begin = time.perf_counter()
    trainer.feed(x)
    return (time.perf_counter() - begin) / len(x) / PROBE_SECONDS
