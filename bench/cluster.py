"""A cluster on this machine: two workers beside one, what a round costs, and what two unrelated processes reach.

Run it with ``python -m bench.cluster``, or ``python -m bench.cluster train`` for a part (a minute each). Ray must be
installed: pip install 'streamgmm[ray]'.
Cases take turns, and every figure is the median over the turns.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from bench.measure import ratio
from streamgmm.core.settings import Settings
from streamgmm.engines.ray import RayEngine
from streamgmm.engines.ray_connection import connect
from streamgmm.runs.cluster_run import ClusterRun
from streamgmm.runs.cluster_score import ScoreJob, score_parts
from streamgmm.runs.options import RunOptions
from streamgmm.sources import Source, open_source
from streamgmm.storage.run_folder import latest_checkpoint

FEATURES, COMPONENTS, ROWS = 3072, 64, 40_000
LEARNED, MEASURED = 260_000, 80_000  # samples: by the first, rounds have reached the length that was chosen
TURNS = 3
CORES = [0, 1]  # a worker reads ahead on a thread of its own, so that one alone uses up to two cores
COPIES = 4  # of the rows are scored, because they are scored faster than learned
ALONE = """
import sys, time
from pathlib import Path
import numpy as np
from streamgmm.storage import load_model

rows, trainer = np.load(sys.argv[1], mmap_mode="r"), load_model(Path(sys.argv[2])).trainer
work = {"train": trainer.feed, "score": trainer.mixture.log_prob}[sys.argv[3]]
first = np.random.default_rng().integers(0, len(rows) - 20_000)
some = [np.array(rows[i : i + 500]) for i in range(first, first + 20_000, 500)]
print("ready", flush=True)
sys.stdin.readline()
began = done = 0
while done < 40 and (not done or time.perf_counter() - began < 2.5):
    if not done:
        began = time.perf_counter()
    work(some[done])
    done += 1
print(done * 500 / (time.perf_counter() - began))
"""


def processes(rows: Path, model: Path, work: str, count: int) -> float:
    """Return the samples per second of unrelated processes that work at the same time, all together."""
    command = [sys.executable, "-c", ALONE, str(rows), str(model), work]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    running = [subprocess.Popen(command, text=True, **pipes) for _ in range(count)]  # type: ignore[call-overload]
    for p in running:
        p.stdout.readline()
    return sum(float(out) for out in _answers(running))


def _answers(running: list[subprocess.Popen[str]]) -> list[str]:
    for p in running:
        assert p.stdin is not None
        p.stdin.write("\n")
        p.stdin.flush()
    return [p.communicate()[0] for p in running]


def open_run(rows: Path, folder: Path, workers: int) -> ClusterRun:
    """Make a run without checkpoints."""
    options = RunOptions(passes=12, shuffle="yes", checkpoint_every=10**9, checkpoint_seconds=1e9)
    return ClusterRun(folder, partial(open_source, str(rows)), Settings(COMPONENTS), RayEngine(workers), options)


def prepare(rows: Path, folder: Path, samples: int) -> ClusterRun:
    """Learn the first rows with two workers, and save what was learned."""
    run = open_run(rows, folder, 2)
    run.stop = lambda: run.progress.samples >= samples
    began = time.perf_counter()
    for _ in run.go():
        pass
    totals, seconds = run.totals, time.perf_counter() - began
    print(
        f"the first {run.progress.samples:,} samples, two workers: {seconds:.1f} s with their start; {totals.rounds} "
        f"rounds, {100 * totals.merge_seconds / totals.seconds:.1f} % of their time merging, "
        f"{100 * totals.waiting():.1f} % merging, sending and starting",
        flush=True,
    )
    return run


class Cost:
    """What training costs from a checkpoint to the end of the rows: samples per second, and where the time went."""

    def __init__(self, rows: Path, prepared: Path, workers: int) -> None:
        folder = Path(tempfile.mkdtemp(dir=prepared.parent))
        shutil.copytree(prepared, folder, dirs_exist_ok=True)
        run = open_run(rows, folder, workers)
        known = latest_checkpoint(folder)
        assert known is not None
        run.resume(*known)
        run.stop = lambda: run.progress.samples >= LEARNED + MEASURED
        marks = []
        for _ in run.go():
            marks.append((run.progress.samples, time.perf_counter(), run.totals.busy_seconds, run.totals.merge_seconds))
        (n0, t0, b0, m0), (n1, t1, b1, m1) = marks[0], marks[-1]  # workers start in the first round
        self.rate, seconds = (n1 - n0) / (t1 - t0), t1 - t0
        self.merging, self.sending = (m1 - m0) / seconds, 1 - (b1 - b0 + m1 - m0) / seconds
        self.round = (n1 - n0) / (len(marks) - 1) / workers


def open_on_cores(rows: str, cores: list[int], missing: bool) -> Source:
    """Open a source; a worker that does so stays on these cores from then on, with all threads that it starts."""
    import ray

    if ray.get_runtime_context().worker.mode == ray.WORKER_MODE:
        os.sched_setaffinity(0, cores)
    return open_source(rows, missing=missing)


def score(rows: Path, model: Path, workers: int, cores: list[int]) -> float:
    """Return rows scored per second, without the start of workers: from the first part of each on."""
    opening = partial(open_on_cores, str(rows), cores)
    job = ScoreJob(model.read_bytes(), opening, Path(tempfile.mkdtemp()) / "scores", 0.01)
    marks, done = [], 0
    for part in score_parts(job, RayEngine(workers)):
        done += part["rows"]
        marks.append((done, time.perf_counter()))
    (n0, t0), (n1, t1) = marks[workers - 1], marks[-1]
    return (n1 - n0) / (t1 - t0)


def write_rows(path: Path) -> None:
    """Write rows of 32 clusters."""
    rng = np.random.default_rng(0)
    centres = rng.random((32, FEATURES), np.float32)
    rows = np.lib.format.open_memmap(path, "w+", np.float32, (ROWS, FEATURES))
    for first in range(0, ROWS, 5000):
        noise = rng.random((5000, FEATURES), np.float32)
        rows[first : first + 5000] = 0.5 * centres[rng.integers(0, 32, 5000)] + 0.5 * noise


def say(name: str, two: list[float], one: list[float]) -> None:
    """Print two rates and their ratio."""
    middle, least, most = ratio(two, one)
    print(
        f"{name}: one {median(one):,.0f}/s, two {median(two):,.0f}/s; two {middle:.2f}× one ({least:.2f}-{most:.2f})",
        flush=True,
    )


def main() -> None:
    """Measure and print everything."""
    with tempfile.TemporaryDirectory() as place:
        rows, folder = Path(place) / "x.npy", Path(place) / "run"
        write_rows(rows)
        print(f"{ROWS:,} rows of {FEATURES} features, {COMPONENTS} components, float32", flush=True)
        folder.mkdir()
        ray, _ = connect(None, 2)
        works = sys.argv[1:] or ("train", "score")
        cluster = prepare(rows, folder, LEARNED if "train" in works else ROWS // 2).record.cluster
        assert cluster is not None
        print(f"chosen round: {cluster['round']['samples']} samples per worker", flush=True)
        model, copies = folder / "model.safetensors", Path(place) / "copies"
        copies.mkdir()
        for i in range(COPIES):
            (copies / f"{i}.npy").symlink_to(rows)
        for work in works:
            alone: dict[int, list[float]] = {1: [], 2: []}
            rates: dict[int, list[float]] = {1: [], 2: []}
            spread: list[float] = []
            costs: dict[int, list[Cost]] = {1: [], 2: []}
            for _ in range(TURNS):
                for count in (1, 2):
                    alone[count].append(processes(rows, model, work, count))
                    if work == "score":
                        rates[count].append(score(copies, model, count, CORES[:count]))
                    else:
                        costs[count].append(Cost(rows, folder, count))
                        rates[count].append(costs[count][-1].rate)
                if work == "score":
                    spread.append(score(copies, model, 1, CORES))
            say(f"{work}, unrelated processes", alone[2], alone[1])
            say(f"{work}, workers, one of which has one core", rates[2], rates[1])
            if spread:
                say(f"{work}, workers, one of which has two cores", rates[2], spread)
            for count, found in costs.items() if work == "train" else ():
                merging, sending, samples = (
                    median(getattr(c, name) for c in found) for name in ("merging", "sending", "round")
                )
                print(
                    f"  {count} workers: {100 * merging:.1f} % of the time is merging, {100 * sending:.1f} % sending "
                    f"and starting, in rounds of {samples:,.0f} samples per worker"
                )
        ray.shutdown()


if __name__ == "__main__":
    main()
