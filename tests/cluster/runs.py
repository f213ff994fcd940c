"""Runs on clusters, real or simulated, for the tests of this folder."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streamgmm.core.settings import Settings
from streamgmm.engines.workers import ClusterEngine
from streamgmm.runs.cluster_run import ClusterRun
from streamgmm.runs.options import RunOptions
from streamgmm.sources import open_source
from streamgmm.storage.run_folder import latest_checkpoint


def write_rows(path: Path, n: int, features: int = 8) -> Path:
    """Write rows of four clusters."""
    rng = np.random.default_rng(0)
    rows = rng.normal(0, 0.3, (n, features)) + rng.integers(0, 4, (n, 1))
    np.save(path, rows.astype(np.float32))
    return path


def start(
    folder: Path, source: Path | str, engine: ClusterEngine, reading: dict[str, Any] | None = None, **changes: Any
) -> ClusterRun:
    """Make a run; ``changes`` are options of the run or settings of the model."""
    own = {n: value for n, value in changes.items() if n in RunOptions.__dataclass_fields__ and n != "scale"}
    settings = Settings(**{"n_components": 9, **{n: v for n, v in changes.items() if n not in own}})
    options = RunOptions(**{"passes": 1, "shuffle": "auto", **own})
    return ClusterRun(folder, partial(open_source, str(source), **(reading or {})), settings, engine, options)


def go(run: ClusterRun, rounds: int | None = None) -> ClusterRun:
    """Run to the end, or stop after some rounds."""
    run.folder.mkdir(exist_ok=True)
    for i, _ in enumerate(run.go(), 1):
        if i == rounds:
            run.stop = lambda: True
    return run


def resumed(folder: Path, source: Path | str, engine: ClusterEngine, **changes: Any) -> ClusterRun:
    """Continue from the last checkpoint of a folder."""
    run = start(folder, source, engine, **changes)
    known = latest_checkpoint(folder)
    assert known is not None
    assert run.resume(*known)
    return run


def assert_same_model(here: ClusterRun, there: ClusterRun) -> None:
    """Two runs agree in every bit of what they have learned."""
    assert here.trainer is not None
    assert there.trainer is not None
    found, expected = here.trainer.tensors(), there.trainer.tensors()
    assert found.keys() == expected.keys()
    for name, value in found.items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)
