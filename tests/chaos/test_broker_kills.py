"""Kills of runs that read from brokers: Redis loses nothing and repeats nothing, MQTT loses nothing."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from streamgmm.sources.mqtt import WINDOW
from streamgmm.storage.run_folder import EVENTS
from tests.chaos.test_kills import kill_and_resume_source, write, written
from tests.commands.command_line import COMMAND
from tests.sources.servers import Mosquitto, Redis

pytestmark = pytest.mark.services
REPEATED = 2 * WINDOW  # messages that a kill may repeat


def kill_redis_readers(folder: Path, rows: int, kills: int, *more: str) -> None:
    (folder / "server").mkdir()
    with Redis(folder / "server", "--appendonly", "no") as server:
        server.fill("x", ({"v": row.tobytes()} for row in np.load(write(folder, "npy", rows))))
        kill_and_resume_source(folder, server.url("x"), kills, *more)


def kill_mqtt_readers(folder: Path, rows: int, kills: int) -> None:
    """Every message is learned; those of a checkpoint whose acknowledgement was cut off may be learned again."""
    (folder / "broker").mkdir()
    out, moments = folder / "run", random.Random(0)
    with Mosquitto(folder / "broker") as broker:
        source = broker.keep_for("run", "rows")
        values = np.random.default_rng(0).random((rows, 3)).round(4).tolist()
        broker.publish(("rows", json.dumps(row)) for row in values)
        command = [*COMMAND, "train", source, "--out", str(out), "--follow", "--components", "4", "--json", "--resume"]
        for _ in range(kills):
            before = written(out)
            going = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while written(out) == before:
                assert going.poll() is None
                time.sleep(0.005)
            with pytest.raises(subprocess.TimeoutExpired):
                going.wait(timeout=moments.uniform(0, 0.3))  # too early for all rows
            os.kill(going.pid, signal.SIGKILL)
            going.wait()
        before = written(out)
        going = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        while written(out) == before or not any(e["kind"] == "idle" and e["samples"] >= rows for e in events(out)):
            assert going.poll() is None
            time.sleep(0.05)
        going.send_signal(signal.SIGTERM)
        learned = json.loads(going.communicate(timeout=60)[0])["samples"]
    assert rows <= learned <= rows + kills * REPEATED, learned


def events(folder: Path) -> list[dict]:
    return [json.loads(line) for line in (folder / EVENTS).read_text().splitlines() if line.endswith("}")]


def test_three_kills_of_a_reader_of_redis(tmp_path: Path) -> None:
    kill_redis_readers(tmp_path, 40_000, 3)


def test_three_kills_of_a_reader_of_mqtt(tmp_path: Path) -> None:
    kill_mqtt_readers(tmp_path, 3000, 3)


@pytest.mark.soak
def test_twenty_kills_of_a_reader_of_redis(tmp_path: Path) -> None:
    kill_redis_readers(tmp_path, 100_000, 20, "--passes", "20")


@pytest.mark.soak
def test_twenty_kills_of_a_reader_of_mqtt(tmp_path: Path) -> None:
    kill_mqtt_readers(tmp_path, 20_000, 20)
