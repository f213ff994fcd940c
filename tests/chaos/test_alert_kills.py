"""Kills and outages while alerts are delivered: none is lost, and repeats have the same id."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from streamgmm.monitoring import DiscoveryState
from streamgmm.sinks.alerts import encode_alert
from tests.chaos.alert_driver import CHUNK, alerts_of
from tests.sinks.broker_receivers import MockKafka, Subscriber, read_topic
from tests.sinks.receivers import OK, Answer, Receiver
from tests.sources.servers import Mosquitto

pytestmark = pytest.mark.services
PACE = 0.005  # seconds for a chunk
Bodies = list[dict[str, Any]]


def expected(n_rows: int) -> dict[tuple[str, str], dict[str, Any]]:
    """The alerts of a run that nobody disturbs, by id and state."""
    made, _, _ = alerts_of(0, n_rows, DiscoveryState(), None)
    bodies = [json.loads(encode_alert(alert)) for alert in made]
    return {(body["id"], body["state"]): body for body in bodies}


def assert_none_is_lost(found: Bodies, n_rows: int) -> None:
    """Everything arrived; what arrived twice was the same."""
    every = expected(n_rows)
    assert {(body["id"], body["state"]) for body in found} == every.keys()
    for body in found:
        assert body == every[body["id"], body["state"]]


class Plant:
    """A driver and its four targets: a webhook that may fail now and then, MQTT, Kafka and a file."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        for name in ("run", "mosquitto"):
            (folder / name).mkdir()
        chance = random.Random(0)
        self.failing = 0.0  # share of requests to the webhook
        self._answer: Callable[[int], Answer] = lambda _: (503, {}) if chance.random() < self.failing else OK
        self.folder, self.file = folder / "run", folder / "alerts.ndjson"
        self.broker = stack.enter_context(Mosquitto(folder / "mosquitto"))
        self.subscriber = stack.enter_context(Subscriber(self.broker.port, "alerts"))
        self.kafka = stack.enter_context(MockKafka())
        self.receivers = [Receiver(self._answer)]
        stack.callback(lambda: self.receivers[-1].__exit__())
        self.urls = [
            self.receivers[0].url(),
            self.broker.url("alerts"),
            f"kafka://{self.kafka.address}/alerts",
            str(self.file),
        ]

    def start(self, n_rows: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tests.chaos.alert_driver", str(self.folder), str(n_rows), str(PACE)]
        return subprocess.Popen([*command, *self.urls], stdout=subprocess.PIPE, text=True)

    def break_for(self, seconds: float) -> None:
        """Close the web server, stop the MQTT broker, and let the Kafka broker hang."""
        self.receivers[-1].__exit__()
        self.broker.stop()
        self.kafka.signal(signal.SIGSTOP)
        time.sleep(seconds)
        self.receivers.append(Receiver(self._answer, self.receivers[-1].port))
        self.broker.start()
        self.kafka.signal(signal.SIGCONT)

    def row(self) -> int:
        checkpoint = self.folder / "checkpoint.json"
        return json.loads(checkpoint.read_bytes())["row"] if checkpoint.exists() else 0

    def check(self, n_rows: int) -> None:
        *_, last = expected(n_rows).values()
        self.subscriber.wait_for(last)
        assert_none_is_lost([body for receiver in self.receivers for body in receiver.accepted], n_rows)
        assert_none_is_lost(list(self.subscriber.messages), n_rows)
        assert_none_is_lost([body for _, body, _ in read_topic(self.kafka.address, "alerts")], n_rows)
        lines = self.file.read_text().splitlines()
        assert_none_is_lost([json.loads(line) for line in lines if line.endswith("}")], n_rows)


@pytest.fixture
def plant(tmp_path: Path) -> Iterator[Plant]:
    with ExitStack() as stack:
        yield Plant(tmp_path, stack)


def kill_and_resume(plant: Plant, kills: int) -> None:
    n_rows, moments, plant.failing = 150 * CHUNK * (1 + kills // 5), random.Random(0), 0.5
    for _ in range(kills):
        before = plant.row()
        going = plant.start(n_rows)
        while plant.row() <= before:
            assert going.poll() is None
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.1))
        going.kill()
        going.communicate()
    assert plant.row() < n_rows, "all kills came too late"
    going = plant.start(n_rows)
    going.communicate(timeout=600)
    assert going.returncode == 0
    plant.check(n_rows)


def endure_an_outage(plant: Plant, seconds: float) -> None:
    n_rows = CHUNK * round((seconds + 3) / PACE)
    going = plant.start(n_rows)
    while not plant.row():
        time.sleep(0.01)
    plant.break_for(seconds)
    told = going.communicate(timeout=600)[0].splitlines()
    assert going.returncode == 0
    plant.check(n_rows)
    for url in plant.urls[:3]:
        name = url.replace("/hook", "/…")
        assert sum(f"for {name} (" in text for text in told) == 1, told
        assert sum(text.startswith(f"{name} accepts alerts again") for text in told) == 1, told


def test_three_kills(plant: Plant) -> None:
    kill_and_resume(plant, 3)


def test_five_seconds_without_targets(plant: Plant) -> None:
    endure_an_outage(plant, 5)


@pytest.mark.soak
def test_twenty_kills(plant: Plant) -> None:
    kill_and_resume(plant, 20)


@pytest.mark.soak
def test_a_minute_without_targets(plant: Plant) -> None:
    endure_an_outage(plant, 60)
