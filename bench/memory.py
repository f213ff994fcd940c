"""Peak memory of a training: `python -m bench.memory K D`, in a process of its own, because a peak is a process's."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from bench.report import Table
from streamgmm import StreamingGaussianMixture

CHUNK, CHUNKS = 100, 20


def memory(quick: bool) -> list[Table]:
    """Compare the peak memory that training adds with the size of parameters and chunk.

    Parameters
    ----------
    quick : bool
        Whether to measure one size only.
    """
    table = Table(
        "Memory",
        f"Peak resident memory that training adds (natural rule, float32, {CHUNKS} chunks of {CHUNK} rows, each in "
        "a process of its own), and what is documented: parameters and variances (3 arrays of K × D) and the chunk.",
        ["K", "D", "stated, MB", "measured, MB", "÷ stated"],
    )
    for components, features in ((64, 30_000),) if quick else ((64, 30_000), (256, 30_000), (64, 3072)):
        stated = (3 * components * features + CHUNK * features) * 4 / 1e6
        command = [sys.executable, "-m", "bench.memory", str(components), str(features)]
        found = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        table.add(components, features, stated, found, found / stated)
    return [table]


def added(components: int, features: int, **settings: Any) -> float:
    """Return the megabytes that training adds to the peak of this process, the chunk included.

    Parameters
    ----------
    components : int
        Number of components.
    features : int
        Number of features.
    **settings : dict
        Other parameters of the estimator.
    """
    rng = np.random.default_rng(0)
    StreamingGaussianMixture(4, **settings).partial_fit(rng.random((500, 8), dtype=np.float32))  # imports and pools
    before = _peak()
    x = np.zeros((CHUNK, features), np.float32)
    model = StreamingGaussianMixture(components, random_state=0, **settings)
    for _ in range(CHUNKS):
        rng.random(dtype=np.float32, out=x)
        model.partial_fit(x)
    return _peak() - before


def _peak() -> float:
    """Return the peak memory of this process in megabytes; on Linux without that of the process that started it."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text("utf8").splitlines() if line.startswith("VmHWM:"))
        return float(line.split()[1]) / 1e3
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    print(added(int(sys.argv[1]), int(sys.argv[2])))
