"""Small trainings for tests of the page."""

from __future__ import annotations

import csv
from datetime import datetime, timedelta
from pathlib import Path

from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.train import RunOptions, TrainingRun
from streamgmm.sources import open_source
from streamgmm.sources.synthetic.sensors import NAMES, SensorLog, sensor_log
from tests.commands.command_line import streamgmm


def training(folder: Path, source: str = "glyphs:A-J", samples: int = 12_000, scale: str = "none") -> TrainingRun:
    """Return a run that stops after some samples."""
    folder.mkdir(exist_ok=True)
    options = RunOptions(passes=1, checkpoint_every=2000, scale=scale)
    run = TrainingRun(folder, open_source(source), Settings(16), Serial(), options)
    run.stop = lambda: run.progress.samples >= samples
    return run


def train(folder: Path, source: str = "glyphs:A-J", samples: int = 12_000, scale: str = "none") -> None:
    """Train to the end."""
    for _ in training(folder, source, samples, scale).go():
        pass


def write_log(path: Path, log: SensorLog, names: tuple[str, ...] = NAMES) -> None:
    """Write a log as CSV, with ISO times as ids."""
    start = datetime(2026, 1, 1)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *names])
        for minutes, row in zip(log.minutes.tolist(), log.values.tolist(), strict=True):
            numbers = ["" if value != value else f"{value:.7g}" for value in row]
            writer.writerow([(start + timedelta(minutes=minutes)).isoformat(), *numbers])


def watch_log(folder: Path, names: tuple[str, ...] = NAMES, rows: int = 3000) -> SensorLog:
    """Train on a log without faults, watch one with faults in ``folder / "run"``, and return the latter."""
    write_log(folder / "past.csv", sensor_log(4000, seed=1, faults=0.0), names)
    log = sensor_log(rows, seed=2)
    write_log(folder / "today.csv", log, names)
    known = ("--id", "time", "--out", "run")
    streamgmm("train", "past.csv", *known, "--missing", "learn", "--components", 4, "--passes", 1, folder=folder)
    streamgmm("watch", "today.csv", *known, "--resume", "--no-follow", "--checkpoint-every", 1000, folder=folder)
    return log
