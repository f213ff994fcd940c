"""A cluster on this machine: two workers beside one, what a round costs, and what two unrelated processes reach.

Run it with ``python -m bench.cluster``. Ray must be installed: pip install 'streamgmm[ray]'.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np

from streamgmm.core.settings import Settings
from streamgmm.engines.ray import RayEngine, connect
from streamgmm.runs.cluster_run import ClusterRun
from streamgmm.runs.cluster_score import ScoreJob, score_parts
from streamgmm.runs.options import RunOptions
from streamgmm.sources import open_source

FEATURES, COMPONENTS, ROWS = 3072, 64, 100_000
ALONE = """
import sys, time
import numpy as np
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial

rows = np.load(sys.argv[1], mmap_mode="r")
trainer = Trainer(Settings({components}), rows.shape[1], np.float32, engine=Serial(), seed=0)
began, done = time.perf_counter(), 0
while time.perf_counter() - began < 12:
    first = done % (len(rows) - 500)
    trainer.feed(np.array(rows[first : first + 500]), more=True)
    done += 500
    if time.perf_counter() - began < 4:  # annealing is over by then
        base, since = done, time.perf_counter()
print((done - base) / (time.perf_counter() - since))
"""


def processes(path: Path, count: int) -> float:
    """Return the samples per second of unrelated processes that run at the same time, all together."""
    command = [sys.executable, "-c", ALONE.format(components=COMPONENTS), str(path)]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    return sum(float(p.communicate()[0]) for p in running)


def train(path: Path, workers: int) -> tuple[float, float, float]:
    """Return samples per second once annealing is over, the share of time without learning, and samples of a round."""
    folder = Path(tempfile.mkdtemp())
    options = RunOptions(passes=1, shuffle="yes", checkpoint_every=10**9, checkpoint_seconds=1e9)
    run = ClusterRun(folder, partial(open_source, str(path)), Settings(COMPONENTS), RayEngine(workers), options)
    marks: list[tuple[int, float, float]] = []
    for _ in run.go():
        if run.progress.samples > ROWS // 4:
            marks.append((run.progress.samples, time.perf_counter(), run.totals.busy_seconds))
    (n0, t0, b0), (n1, t1, b1) = marks[0], marks[-1]
    cluster = run.record.cluster
    assert cluster is not None
    return (n1 - n0) / (t1 - t0), 1 - (b1 - b0) / (t1 - t0), float(cluster["round"]["samples"] or 0)


def score(path: Path, model: Path, workers: int) -> float:
    """Return rows scored per second, without the start of workers: from the first part on."""
    job = ScoreJob(model.read_bytes(), partial(open_source, str(path)), Path(tempfile.mkdtemp()) / "scores", 0.01)
    marks = []
    rows = 0
    for part in score_parts(job, RayEngine(workers)):
        rows += part["rows"]
        marks.append((rows, time.perf_counter()))
    (n0, t0), (n1, t1) = marks[workers - 1], marks[-1]
    return (n1 - n0) / (t1 - t0)


def trained_model(path: Path) -> Path:
    """Train a model of some rows here, and return its file."""
    from streamgmm import StreamingGaussianMixture

    model = StreamingGaussianMixture(COMPONENTS, random_state=0).partial_fit(np.load(path, mmap_mode="r")[:8000])
    file = Path(tempfile.mkdtemp()) / "model.safetensors"
    model.save(file)
    return file


def main() -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.npy"
        rng = np.random.default_rng(0)
        centres = rng.random((32, FEATURES), np.float32)
        rows = np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, FEATURES))
        for first in range(0, ROWS, 5000):
            noise = rng.random((5000, FEATURES), np.float32)
            rows[first : first + 5000] = 0.5 * centres[rng.integers(0, 32, 5000)] + 0.5 * noise
        rows.flush()
        del rows
        print(f"{ROWS:,} rows of {FEATURES} features, {COMPONENTS} components, float32")
        alone, two = processes(path, 1), processes(path, 2)
        print(f"unrelated processes: one {alone:,.0f} samples/s, two together {two:,.0f} ({two / alone:.2f}×)")
        ray, _ = connect(None, 2)
        rates = {}
        for workers in (1, 2):
            rate, waiting, samples = train(path, workers)
            rates[workers] = rate
            print(
                f"train, {workers} workers: {rate:,.0f} samples/s; {100 * waiting:.1f} % of the time is not reading or "
                f"learning; rounds of {samples:,.0f} samples per worker"
            )
        print(f"train: two workers {rates[2] / rates[1]:.2f}× one")
        model = trained_model(path)
        for workers in (1, 2):
            rates[workers] = score(path, model, workers)
            print(f"score, {workers} workers: {rates[workers]:,.0f} rows/s")
        print(f"score: two workers {rates[2] / rates[1]:.2f}× one")
        ray.shutdown()


if __name__ == "__main__":
    main()
