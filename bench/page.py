"""What the live page costs: the same run with nobody looking, and with the page open in a browser."""

from __future__ import annotations

import shutil
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
from streamgmm import StreamingGaussianMixture, running
from streamgmm.looking import LIVE_SECONDS
from streamgmm.streams.arrays import Array


def looked_at(quick: bool) -> list[Table]:
    table = Table(
        "The live page",
        f"K=64, D=784, natural rule, MNIST rows from memory, a checkpoint every {LIVE_SECONDS:g} s: rows per second "
        "while the page is open in Chromium ÷ rows per second while nobody looks, rounds in turn, browser and server "
        "on the same two cores.",
        ["rows/s", "open ÷ not open", "least", "most"],
    )
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        table.words += " Not measured: there is no Chromium here."
        return [table]
    x = np.ascontiguousarray(work.images()[1], dtype=np.float32)
    rounds, seconds = (2, 4.0) if quick else (6, 8.0)
    alone, open_ = [], []
    with tempfile.TemporaryDirectory() as name:
        for turn in range(rounds):
            alone.append(_rate(x, Path(name) / f"a{turn}", seconds))
            folder = Path(name) / f"b{turn}"
            folder.mkdir()
            with _page(folder, browser):
                open_.append(_rate(x, folder, seconds))
    ratios = np.array(open_) / np.array(alone)
    table.add(f"{np.median(alone):,.0f}", float(np.median(ratios)), float(ratios.min()), float(ratios.max()))
    return [table]


def _rate(x: np.ndarray, folder: Path, seconds: float) -> float:
    folder.mkdir(exist_ok=True)
    journey = running.Journey(folder, Array("rows", x), StreamingGaussianMixture(64, random_state=0), 10_000)
    journey.checkpoint_seconds = LIVE_SECONDS
    begin = time.perf_counter()
    journey.stop = lambda: time.perf_counter() - begin > seconds
    for _ in journey.go():
        pass
    return journey.place.samples / (time.perf_counter() - begin)


@contextmanager
def _page(folder: Path, browser: str) -> Iterator[None]:
    server = subprocess.Popen(
        [sys.executable, "-m", "streamgmm.cli", "dashboard", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert server.stdout is not None
    address = server.stdout.readline().split()[0]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        switches = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
                    "--remote-debugging-port=0", f"--user-data-dir={profile}"]  # fmt: skip
        window = subprocess.Popen([browser, *switches, address], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(4)  # until it is drawn
        try:
            yield
        finally:
            for process in (window, server):
                process.terminate()
                process.wait()
