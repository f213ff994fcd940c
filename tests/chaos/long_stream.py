"""Hours of a stream in seconds: a thousand times faster, with rotations, silence, bursts, outages and restarts.

``python -m tests.chaos.long_stream --hours 12`` prints what a watch of such a stream has used.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from random import Random
from threading import Event, Lock, Thread
from typing import Any, NamedTuple
from unittest.mock import patch

from streamgmm.core.rules.natural import ANOMALY_RULE
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.runs.watch import Watcher, WatchOptions, WatchState
from streamgmm.sinks.alerts import Outbox
from streamgmm.sinks.alerts.target import DeliveryError, Target
from streamgmm.sources import open_source
from streamgmm.storage.alert_log import ALERTS
from streamgmm.storage.run_folder import EVENTS, RunRecord, latest_checkpoint
from tests.chaos.memory_driver import resident

SPEED = 1000
LOG = "log.csv"
MINUTE = 60 / SPEED  # seconds
FEWEST = 4  # runs to compare: a slow machine may not have had as many when the plant ends
ROWS_A_MINUTE = 300
KEPT_ALERTS = 500
EVENT_BYTES = 100_000  # so that twelve hours suffice to fill the file many times
READER = "streamgmm.runs.source_reader"
FASTER = {
    f"{READER}.IDLE_SECONDS": 0.005,
    f"{READER}.FIRST_PAUSE": 1 / SPEED,
    f"{READER}.LONGEST_PAUSE": 3600 / SPEED,
    "streamgmm.runs.absence.GONE_SECONDS": 5 / SPEED,
    "streamgmm.runs.event_log.MOST_BYTES": EVENT_BYTES,
}


class Usage(NamedTuple):
    """What the process holds while nothing runs."""

    memory: int
    descriptors: int
    events: int
    alerts: int
    open_files: tuple[str, ...]


class Flaky(Target):
    """A target of alerts that is down at times."""

    name = key = "flaky"

    def __init__(self) -> None:
        self.down, self.delivered, self.failed = Event(), 0, 0

    def send(self, lines: list[bytes]) -> None:
        if self.down.is_set():
            self.failed += 1
            raise DeliveryError("it is down")
        self.delivered += len(lines)


class Plant(Thread):
    """Writes a log that is rotated every hour, falls silent, floods, contains bad rows, and is away for minutes.

    Parameters
    ----------
    path : Path
        The log.
    minutes : int
        How long it writes.
    read : function
        Return how many bytes of the present file were read: a file is rotated once all of it was.
    target : Flaky
        The target of alerts, which is down for a quarter of every hour.

    Attributes
    ----------
    resting : Lock
        Held while a file is open, so that descriptors can be counted without it.
    """

    def __init__(self, path: Path, minutes: int, read: Callable[[], int], target: Flaky) -> None:
        super().__init__(daemon=True)
        self._path, self._minutes, self._read, self._target = path, minutes, read, target
        self._random, self.rows, self.bad, self.over = Random(0), 0, 0, False
        self.resting = Lock()
        self._begin()

    def _begin(self) -> None:
        with self.resting:
            self._path.write_text("time,a,b,c\n")

    def run(self) -> None:
        for minute in range(self._minutes):
            began, phase = time.monotonic(), minute % 60
            if phase == 20:
                self._target.down.set()
            elif phase == 35:
                self._target.down.clear()
            if not 10 <= phase < 15:  # silence
                self._write(minute, 10 if phase == 40 else 1, strange=phase in (41, 42))
            if phase == 50:
                self._away()
            if phase == 59:
                self._rotate()
            time.sleep(max(0.0, MINUTE - (time.monotonic() - began)))
        self._target.down.clear()
        self.over = True

    def _write(self, minute: int, times: int, *, strange: bool) -> None:
        lines = []
        for i in range(times * ROWS_A_MINUTE):
            x = self._random.gauss(60.0 if strange and i % 20 == 0 else 0.0, 1.0)
            y = "" if i % 50 == 0 else f"{x + self._random.gauss(0, 0.1):.3f}"
            lines.append(f"{minute}:{i},{x:.3f},{y},{self._random.gauss(5, 2):.3f}\n")
        lines.append(f"{minute}:bad,x,y\n")
        self.rows, self.bad = self.rows + len(lines) - 1, self.bad + 1
        with self.resting, self._path.open("a") as log:
            log.writelines(lines)

    def _caught_up(self) -> None:
        while self._read() < self._path.stat().st_size:
            time.sleep(0.002)

    def _away(self) -> None:
        """The log cannot be reached for ten minutes."""
        elsewhere = self._path.with_name("elsewhere")
        os.replace(self._path, elsewhere)
        time.sleep(10 * MINUTE)
        os.replace(elsewhere, self._path)

    def _rotate(self) -> None:
        self._caught_up()
        os.replace(self._path, self._path.with_name(f"{LOG}.1"))
        self._begin()


def simulate(folder: Path, hours: float, restart_minutes: int) -> tuple[list[Usage], dict[str, int]]:
    """Watch a plant for hours; return what was used at every restart, and what was written and learned."""
    target, out, path = Flaky(), folder / "run", folder / LOG
    out.mkdir()
    now: list[TrainingRun] = []
    minutes = round(60 * hours)
    plant = Plant(path, minutes, lambda: _position(now), target)
    used, record = list[Usage](), RunRecord()
    with ExitStack() as stack:
        for name, value in FASTER.items():
            stack.enter_context(patch(name, value))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        plant.start()
        while True:
            until = time.monotonic() + restart_minutes * MINUTE
            try:
                last = _run_once(out, path, target, now, partial(_over, plant, now, until))
            except FileNotFoundError:  # the log is away just now: whoever supervises a run starts it again
                time.sleep(MINUTE)
                continue
            record = last.record
            with plant.resting:
                used.append(_usage(out))
            if _done(plant, now) and len(used) >= FEWEST:
                break
    plant.join()
    progress = record.progress
    counted = {"written": plant.rows, "learned": progress.samples, "bad": progress.bad, "bad written": plant.bad}
    return used, {**counted, "alerts": target.delivered, "failed deliveries": target.failed}


def _run_once(out: Path, path: Path, target: Flaky, now: list[TrainingRun], stop: Callable[[], bool]) -> TrainingRun:
    known = latest_checkpoint(out)
    state = WatchState() if known is None else WatchState.from_facts(known[1].watch or {})
    source = open_source(str(path), follow=True, skip_bad=True, missing=True, id_column="time")
    settings = Settings(8, rule=ANOMALY_RULE, allow_nan=True)
    options = RunOptions(passes=None, missing="learn", checkpoint_seconds=60 / SPEED)
    with closing(source), Outbox(out, [target], lambda text: None, length=state.alerts, kept=KEPT_ALERTS) as outbox:
        run = TrainingRun(out, source, settings, Serial(), options, stop, Watcher(outbox, WatchOptions(), state))
        if known is not None:
            assert run.resume(*known)
        now[:] = [run]
        for _ in run.go():
            pass
        outbox.drain(5.0 if stop() else 0.0)
    return run


def _position(now: list[TrainingRun]) -> int:
    position = now[0].progress.position if now else None
    return 0 if position is None else int(position["byte"])


def _done(plant: Plant, now: list[TrainingRun]) -> bool:
    return plant.over and now[0].progress.samples >= plant.rows


def _over(plant: Plant, now: list[TrainingRun], until: float) -> bool:
    return _done(plant, now) or time.monotonic() > until


def _usage(out: Path) -> Usage:
    gc.collect()
    found = []
    for link in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # that of this loop
            found.append(str(link.readlink()))
    return Usage(resident(), len(found), (out / EVENTS).stat().st_size, (out / ALERTS).stat().st_size, tuple(found))


def figures(used: list[Usage], settled: int) -> dict[str, Any]:
    """Return how much more was used at the end than after ``settled`` restarts, at most."""
    before, after = used[settled], used[settled + 1 :]
    return {
        "restarts": len(used) - 1,
        "memory": max(u.memory for u in after) - before.memory,
        "descriptors": max(u.descriptors for u in after) - before.descriptors,
        "opened since": sorted({name for u in after for name in u.open_files} - set(before.open_files)),
        "event bytes": max(u.events for u in used),
        "alert bytes": max(u.alerts for u in used),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hours", type=float, default=12)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        used, counted = simulate(Path(folder), chosen.hours, 60)
    print(json.dumps({**figures(used, len(used) // 6), **counted}))
    for usage in used:
        print(json.dumps(usage._asdict()))


if __name__ == "__main__":
    main()
