"""Kills and outages while `watch` runs: no alert is lost, repeats are the same, and the model has every bit."""

from __future__ import annotations

import json
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.storage.run_folder import MODEL
from tests.chaos.test_alert_kills import Plant
from tests.chaos.test_kills import assert_same
from tests.commands.command_line import COMMAND, streamgmm
from tests.sinks.broker_receivers import read_topic
from tests.sources.brokers import Brokers
from tests.sources.servers import Redis

pytestmark = pytest.mark.services
OPTIONS = ["--resume", "--max-p", "1e-6", "--checkpoint-every", "500"]
ALONE = ["--no-follow", "--alert-to", "only.ndjson"]
BURSTS = 8  # of two anomalies each
SECONDS = 120.0
Alerts = dict[tuple[str, str], dict[str, Any]]


def readings(count: int, seed: int = 1) -> np.ndarray:
    """Rows of three sensors; now and then one of them is wrong, twice in a row."""
    rng = np.random.default_rng(seed)
    x = rng.normal([20.0, 300.0, 5.0] + 30 * rng.integers(2, size=(count, 1)), 1.0).round(4)
    if seed:
        first = np.arange(1000, count - 1, count // BURSTS)
        x[first, 1] = x[first + 1, 1] = 9999.0
    return x


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.005)


def by_key(lines: list[dict[str, Any]]) -> Alerts:
    return {(line["id"], line["state"]): line for line in lines}


def parsed(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")] if path.exists() else []


class Watch(Plant):
    """A run that has learned the past, and its targets: a webhook, MQTT, Kafka and a file."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        super().__init__(folder, stack)
        self.whole = folder / "undisturbed"
        self.whole.mkdir()
        np.savetxt(folder / "past.csv", readings(3000, 0), delimiter=",", fmt="%.4f", header="a,b,c", comments="")
        self.folder.rmdir()
        streamgmm("train", "past.csv", "--components", "4", "--missing", "learn", "--out", "run", folder=folder)
        shutil.copytree(self.folder, self.whole / "run")  # of the same name, on which ids depend

    def expect(self, source: str) -> Alerts:
        """Return the alerts of a run that nobody disturbs."""
        streamgmm("watch", source, "--out", "run", *OPTIONS, *ALONE, folder=self.whole)
        return by_key(parsed(self.whole / "only.ndjson"))

    def begin(self, source: str, *more: str, targets: bool = True) -> subprocess.Popen[str]:
        to = [word for url in (self.urls if targets else []) for word in ("--alert-to", url)]
        command = [*COMMAND, "watch", source, "--out", "run", *OPTIONS, *to, *more]
        return subprocess.Popen(
            command, cwd=self.folder.parent, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )

    def saved(self) -> int:
        return (self.folder / MODEL).stat().st_mtime_ns

    def kill(self, source: str, kills: int, *more: str, targets: bool = True) -> None:
        """Kill a run at random moments, each soon after a checkpoint; then let it end."""
        moments, killed = random.Random(0), 0
        for _ in range(kills):
            before, going = self.saved(), self.begin(source, *more, targets=targets)
            until(lambda then=before, run=going: self.saved() != then or run.poll() is not None)
            time.sleep(moments.uniform(0, 0.05))
            killed += going.poll() is None
            going.kill()
            going.communicate()
        assert killed == kills, "some kills came too late"
        waiting = True
        while waiting:  # alerts that a target has refused are sent by the next run
            going = self.begin(source, *more, targets=targets)
            words = going.communicate(timeout=SECONDS)[1]
            assert going.returncode == 0, words
            waiting = "they are sent when the run is resumed" in words

    def arrived(self) -> list[list[dict[str, Any]]]:
        """Return what each target has got."""
        return [
            [body for receiver in self.receivers for body in receiver.accepted],
            list(self.subscriber.messages),
            [body for _, body, _ in read_topic(self.kafka.address, "alerts")],
            parsed(self.file),
        ]

    def assert_all(self, expected: Alerts) -> None:
        """Everything arrived everywhere; what arrived twice was the same."""
        *_, last = expected.values()
        self.subscriber.wait_for(last)
        for found in self.arrived():
            assert by_key(found) == expected
            assert all(body == expected[body["id"], body["state"]] for body in found)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Watch]:
    with ExitStack() as stack:
        yield Watch(tmp_path, stack)


def kill_readers_of_kafka(plant: Watch, rows: int, kills: int) -> None:
    values = [json.dumps(dict(zip("abc", row, strict=True))).encode() for row in readings(rows).tolist()]
    brokers = Brokers()  # they end with this object
    source = brokers.fill("rows", values)
    expected = plant.expect(source)
    assert len(expected) >= BURSTS
    plant.failing = 0.5
    plant.kill(source, kills, "--no-follow")
    plant.assert_all(expected)
    assert_same(plant.folder, plant.whole / "run")


def kill_readers_of_redis(plant: Watch, rows: int, kills: int) -> None:
    (plant.whole / "server").mkdir()
    with Redis(plant.whole / "server", "--appendonly", "no") as server:
        server.fill("rows", (dict(zip("abc", row, strict=True)) for row in readings(rows).tolist()))
        expected = plant.expect(server.url("rows"))
        plant.kill(server.url("rows"), kills, "--no-follow", "--alert-to", "only.ndjson", targets=False)
    assert_same(plant.folder, plant.whole / "run")
    assert by_key(parsed(plant.folder.parent / "only.ndjson")) == expected


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def endure_an_outage(plant: Watch, seconds: float) -> None:
    rows, log = readings(20_000), plant.folder.parent / "log.csv"
    np.savetxt(log, rows, delimiter=",", fmt="%.4f", header="a,b,c", comments="")
    shutil.copy(log, plant.whole / "log.csv")
    expected = plant.expect("log.csv")
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(lines[:2001]))
    going = plant.begin("log.csv", "--follow")
    until(lambda: len(parsed(plant.file)) >= 1)
    grow = threading.Timer(1.0, append, (log, "".join(lines[2001:])))  # when no target is there any more
    grow.start()
    plant.break_for(seconds)
    grow.join()
    # the last burst closes thirty ordinary rows later, while the source is followed
    until(lambda: by_key(parsed(plant.file)) == expected)
    until(lambda: all(by_key(found) == expected for found in plant.arrived()))
    going.send_signal(signal.SIGTERM)
    words = going.communicate(timeout=SECONDS)[1]
    assert going.returncode == 0, words
    plant.assert_all(expected)
    for url in plant.urls[:3] if seconds >= 60 else []:  # short outages are not always worth a word
        assert f"for {url.replace('/hook', '/…')} (" in words, words


def test_three_kills_with_kafka(plant: Watch) -> None:
    kill_readers_of_kafka(plant, 60_000, 3)


def test_three_kills_with_redis(plant: Watch) -> None:
    kill_readers_of_redis(plant, 20_000, 3)


def test_five_seconds_without_targets(plant: Watch) -> None:
    endure_an_outage(plant, 5)


@pytest.mark.soak
def test_twenty_kills_with_kafka(plant: Watch) -> None:
    kill_readers_of_kafka(plant, 300_000, 20)


@pytest.mark.soak
def test_twenty_kills_with_redis(plant: Watch) -> None:
    kill_readers_of_redis(plant, 150_000, 20)


@pytest.mark.soak
def test_a_minute_without_targets(plant: Watch) -> None:
    endure_an_outage(plant, 60)
