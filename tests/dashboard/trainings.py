"""Small trainings for tests of the page."""

from __future__ import annotations

from pathlib import Path

from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.train import RunOptions, TrainingRun
from streamgmm.sources import open_source


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
