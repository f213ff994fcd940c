"""What starting costs: CPU time of whole commands, against importing NumPy."""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from bench.report import Table


def start_up(quick: bool) -> list[Table]:
    """Measure the CPU time of commands.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer rounds.
    """
    table = Table(
        "Start-up",
        "CPU time of a whole process, the commands in turn, ÷ python -c 'import numpy'. score: one row on a pipe, from "
        "start to end, with a model of K=16, D=12.",
        ["command", "CPU s", "÷ import numpy"],
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        x = np.random.default_rng(0).normal(size=(2000, 12))
        np.savetxt(folder / "x.csv", x, delimiter=",", header=",".join("abcdefghijkl"), comments="")
        ours = [sys.executable, "-m", "streamgmm"]
        train = [*ours, "train", "x.csv", "--components", "16", "--out", "run", "--quiet"]
        subprocess.run(train, cwd=folder, check=True)
        row = ",".join(map(str, x[0])).encode() + b"\n"
        commands = {
            "python -c 'import numpy'": ([sys.executable, "-c", "import numpy"], b""),
            "streamgmm --version": ([*ours, "--version"], b""),
            "streamgmm --help": ([*ours, "--help"], b""),
            "streamgmm score run -": ([*ours, "score", "run", "-", "--quiet"], row),
        }
        spent: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(3 if quick else 11):
            for command, (arguments, given) in commands.items():
                spent[command].append(_cpu(arguments, given, folder))
    numpy = spent["python -c 'import numpy'"]
    for command, times in spent.items():
        each = np.quantile([t / n for t, n in zip(times, numpy, strict=True)], [0.5, 0.25, 0.75])
        table.add(command, f"{median(times):.2f}", tuple(map(float, each)))
    return [table]


def _cpu(command: list[str], given: bytes, folder: Path) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, cwd=folder, input=given, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
