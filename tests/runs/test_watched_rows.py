"""A row that arrives alone is judged in a shorter way, with the same result."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamgmm.core.rules.natural import ANOMALY_RULE
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.runs.watch import Watcher, WatchOptions
from streamgmm.sinks.alerts import Outbox
from streamgmm.sources import Chunk, Position, Source


class Rows(Source):
    """Rows of an array, so many at a time."""

    name = "rows"

    def __init__(self, x: np.ndarray, size: int) -> None:
        self._x, self._size = x, size

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        for first in range(0, len(self._x), self._size):
            stop = min(len(self._x), first + self._size)
            yield Chunk(self._x[first:stop], np.arange(first, stop), {"row": stop})


def plant(count: int) -> np.ndarray:
    """Four sensors, one of which never varies, with gaps, rows without any value, and outliers late in the log."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(count, 4)) * [1.0, 1e3, 1e-3, 0.0]
    late = rng.choice(np.arange(count // 2, count), count // 20, replace=False)
    x[late] *= 9
    x[late[:5], 3] = 1.0
    x[rng.random((count, 4)) < 0.01] = np.nan
    x[late[5:8]] = np.nan
    return x


def alerts(folder: Path, x: np.ndarray, size: int, options: WatchOptions) -> bytes:
    run = folder / str(size) / "run"
    run.mkdir(parents=True)
    settings = Settings(4, rule=ANOMALY_RULE, allow_nan=True)
    with Outbox(run, [], print) as outbox:
        watcher = Watcher(outbox, options)
        chosen = RunOptions(passes=1, missing="learn")
        for _ in TrainingRun(run, Rows(x, size), settings, Serial(), chosen, watcher=watcher).go():
            pass
    return (run / "alerts.ndjson").read_bytes()


@pytest.mark.parametrize(
    "options",
    [WatchOptions(), WatchOptions(every_row=True), WatchOptions(max_p=0.002), WatchOptions(fdr=0.05)],
    ids=str,
)
def test_alerts_do_not_depend_on_chunks(tmp_path: Path, options: WatchOptions) -> None:
    x = plant(4000)
    one, many = (alerts(tmp_path, x, size, options) for size in (1, 700))
    assert one == many
    assert one.count(b"\n") > 10
