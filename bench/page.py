"""The cost of the live page to the run that it shows."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from bench import work
from bench.report import Table
from streamgmm.cli.live_page import LIVE_SECONDS
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.train import RunOptions, TrainingRun
from streamgmm.sources.numpy_files import ArraySource

DRAWING_SECONDS = 4  # until the browser has drawn the page for the first time


def page_cost(quick: bool) -> list[Table]:
    """Compare a run with the page open in a browser to the same run without.

    Parameters
    ----------
    quick : bool
        Whether to measure fewer pairs.
    """
    pairs, seconds = (3, 4.0) if quick else (16, 6.0)
    table = Table(
        "The live page",
        f"K=64, D=784, natural rule, MNIST rows from memory, a checkpoint every {LIVE_SECONDS:g} s, one run: rows per "
        "second while the page is open in Chromium ÷ rows per second while browser and server are paused, alternating "
        f"every {seconds:g} s, all on the same two cores. Quartiles over pairs.",
        ["rows/s", "open ÷ not open", "quartiles", "pairs"],
    )
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        table.words += " Not measured: Chromium is not installed."
        return [table]
    x = np.ascontiguousarray(work.images()[1], dtype=np.float32)
    with tempfile.TemporaryDirectory() as name, _page(Path(name), browser) as groups:
        rates = _rates(x, Path(name), groups, pairs, seconds)
    ratios = rates[:, 1] / rates[:, 0]
    low, middle, high = np.quantile(ratios, [0.25, 0.5, 0.75])
    table.add(f"{np.median(rates[:, 0]):,.0f}", float(middle), f"{low:.2f} to {high:.2f}", pairs)
    return [table]


def _rates(x: np.ndarray, folder: Path, groups: list[int], pairs: int, seconds: float) -> np.ndarray:
    """Return rows per second of one run, (pairs, 2): with the process groups paused, and running."""
    rates: list[float] = []
    options = RunOptions(passes=10_000, checkpoint_seconds=LIVE_SECONDS)
    source = ArraySource("rows", x)
    run = TrainingRun(folder, source, Settings(), Serial(), options, stop=lambda: len(rates) > 2 * pairs)
    begin, before = time.perf_counter(), 0
    for status in run.go():
        now = time.perf_counter()
        if now - begin < seconds:
            continue
        rates.append((status.samples - before) / (now - begin))
        for group in groups:
            os.killpg(group, signal.SIGSTOP if len(rates) % 2 else signal.SIGCONT)
        begin, before = time.perf_counter(), status.samples
    return np.array(rates[1 : 1 + 2 * pairs]).reshape(pairs, 2)  # without the first, which anneals


@contextmanager
def _page(folder: Path, browser: str) -> Iterator[list[int]]:
    """Start server and browser, each in a process group of its own; yield the groups."""
    server = subprocess.Popen(
        [sys.executable, "-m", "streamgmm", "dashboard", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert server.stdout is not None
    address = server.stdout.readline().split()[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        switches = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                    "--remote-debugging-port=0", f"--user-data-dir={profile}"]  # fmt: skip
        window = subprocess.Popen([browser, *switches, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                  start_new_session=True)  # fmt: skip
        time.sleep(DRAWING_SECONDS)
        try:
            yield [server.pid, window.pid]
        finally:
            for process in (window, server):
                os.killpg(process.pid, signal.SIGCONT)
                process.terminate()
                process.wait()
