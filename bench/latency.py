"""How long one row takes from one end of a pipe to the other."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bench.report import Table

FEATURES, COMPONENTS, LEARNED = 12, 16, 4000
USUAL = 200  # rows before each outlier: all outliers are among the rarest 1 % of rows


def through_pipes(quick: bool) -> list[Table]:
    """Measure the latency of single rows.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer rows.
    """
    count = 500 if quick else 2000
    x = np.random.default_rng(0).normal(size=(LEARNED + count, FEATURES))
    pipe = Table(
        "One row through a pipe",
        f"K={COMPONENTS}, D={FEATURES}: from writing a line to reading the answer, in ms. watch: gross outliers, "
        f"each after {USUAL} usual rows, with --only-anomalies.",
        ["command", "p10", "p50", "p90"],
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        np.savetxt(folder / "x.csv", x[:LEARNED], delimiter=",", header=",".join("abcdefghijkl"), comments="")
        _run(folder, "train", "x.csv", "--components", str(COMPONENTS), "--missing", "learn", "--out", "run")
        rows = x[LEARNED:]
        score = _answers(folder, ["score", "run", "-", "--json"], [rows[i : i + 1] for i in range(len(rows))])
        usual = np.random.default_rng(1).normal(size=(count // 20, USUAL, FEATURES))
        outliers = [np.vstack([part, 100 * part[:1]]) for part in usual]
        watch = _answers(folder, ["watch", "-", "--out", "run", "--resume", "--only-anomalies"], outliers)
    for command, times in (("score - --json", score), ("watch - --only-anomalies", watch)):
        p10, p50, p90 = 1e3 * np.quantile(times[5:], [0.1, 0.5, 0.9])
        pipe.add(command, f"{p10:.2f}", f"{p50:.2f}", f"{p90:.2f}")
    return [pipe]


def _run(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "streamgmm", *arguments, "--quiet"], cwd=folder, check=True)


def _answers(folder: Path, arguments: list[str], parts: Sequence[np.ndarray]) -> list[float]:
    """Write rows, the last of each part alone; return how long the answer to that one took."""
    command = [sys.executable, "-m", "streamgmm", *arguments, "--quiet"]
    times, row = list[float](), -1
    with subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as going:
        assert going.stdin is not None
        assert going.stdout is not None
        for part in parts:
            *before, last = (",".join(map(repr, row)).encode() + b"\n" for row in part.tolist())
            going.stdin.write(b"".join(before))
            going.stdin.flush()
            time.sleep(0.05 if before else 0.0)  # until those are done
            row += len(part)
            begin = time.perf_counter()
            going.stdin.write(last)
            going.stdin.flush()
            while json.loads(going.stdout.readline())["row"] != row:
                pass  # some of the usual rows are flagged, too
            times.append(time.perf_counter() - begin)
        going.stdin.close()
    return times
