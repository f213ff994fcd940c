"""Commands on Redis streams and MQTT topics, with real servers."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from streamgmm.storage.run_folder import EVENTS, MODEL
from tests.commands.command_line import COMMAND, streamgmm
from tests.sources.servers import Mosquitto, Redis

services = pytest.mark.services
FEW = ["--components", "4"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Redis]:
    with Redis(tmp_path_factory.mktemp("redis"), "--requirepass", "s3cret") as server:
        server.client.connection_pool.connection_kwargs["password"] = "s3cret"
        yield server


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mosquitto]:
    with Mosquitto(tmp_path_factory.mktemp("mosquitto")) as broker:
        yield broker


class Following:
    """A training that follows a source, in a process of its own."""

    def __init__(self, source: str, out: Path, *more: str) -> None:
        command = [*COMMAND, "train", source, "--out", str(out), "--follow", *FEW, *more, "--resume", "--json"]
        self.out = out
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def wait_for(self, kind: str, samples: int = 0) -> None:
        """Wait for an event after so many samples."""
        path = self.out / EVENTS
        while True:
            events = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
            if any(e["kind"] == kind and e["samples"] >= samples for e in events):
                return
            assert self._process.poll() is None, self._process.communicate()[1]
            time.sleep(0.02)

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()

    def stop(self) -> tuple[dict, str]:
        """Stop it; return its result and what it said."""
        self._process.send_signal(signal.SIGTERM)
        result, words = self._process.communicate(timeout=30)
        assert "Traceback" not in words
        return json.loads(result), words


def entries(count: int, first: int = 0) -> list[dict[str, float]]:
    rng = np.random.default_rng(first)
    return [{"time": first + i, "a": a, "b": b} for i, (a, b) in enumerate(rng.random((count, 2)).tolist())]


@services
def test_redis_from_training_to_scores(server: Redis, tmp_path: Path) -> None:
    url, out = f"redis://:s3cret@{server.address}/readings", tmp_path / "run"
    server.fill("readings", [*entries(1500), {"time": 1500, "a": "\x1b[2Jx", "b": 1}, {"time": 1501, "a": 0.5}])
    said = streamgmm(
        "train", url, "--out", out, *FEW, "--id", "time", "--bad-rows", "skip", "--missing", "learn", "--json"
    )
    result = json.loads(said.stdout)
    assert (result["samples"], result["bad_rows"]) == (1501, 1)
    assert "\x1b" not in said.stderr
    ids = server.fill("readings", entries(100, 1502))
    again = streamgmm("train", url, "--out", out, *FEW, "--id", "time", "--bad-rows", "skip", "--resume", "--json")
    assert json.loads(again.stdout)["samples"] == 1601
    scored = streamgmm("score", out, url, "--columns", "a,b", "--id", "id", "--bad-rows", "skip", "--json").stdout
    found = [json.loads(line) for line in scored.splitlines()]
    assert len(found) == 1601
    assert [f["id"] for f in found[-100:]] == ids
    for path in (out / EVENTS, out / MODEL):
        assert b"s3cret" not in path.read_bytes()
    assert "s3cret" not in said.stderr + again.stderr


@services
def test_redis_followed_through_a_kill(server: Redis, tmp_path: Path) -> None:
    url, out = f"redis://:s3cret@{server.address}/live", tmp_path / "run"
    server.fill("live", entries(700))
    settings = ["--columns", "a,b", "--checkpoint-every", "100"]
    first = Following(url, out, *settings)
    first.wait_for("idle", 700)
    server.fill("live", entries(600, 700))
    first.wait_for("resumed", 700)
    first.kill()
    second = Following(url, out, *settings)
    second.wait_for("idle", 1300)
    assert second.stop()[0]["samples"] == 1300
    streamgmm("train", url, "--out", tmp_path / "whole", *FEW, *settings, "--samples", 1300)
    from streamgmm.storage import load_model

    here, there = (load_model(folder / MODEL).trainer.tensors() for folder in (out, tmp_path / "whole"))
    assert here.keys() == there.keys()
    for name, values in here.items():
        np.testing.assert_array_equal(values, there[name], err_msg=name)


@services
def test_mqtt_from_training_to_scores(broker: Mosquitto, tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((400, 2)).round(4).tolist()
    out, source = tmp_path / "run", broker.keep_for("plant", "plant/+/value")

    def readings(some: list[list[float]]) -> list[tuple[str, str]]:
        return [(f"plant/{name}/value", str(v)) for row in some for name, v in zip("ab", row, strict=True)]

    broker.publish(readings([*rows, *rows, *rows]))
    training = Following(source, out, "--scale", "standard")
    training.wait_for("idle", 1200)
    assert training.stop()[0]["samples"] == 1200
    broker.publish(readings(rows[:50]))  # while the run is away
    again = Following(source, out)
    again.wait_for("idle", 1250)
    assert again.stop()[0]["samples"] == 1250
    scoring = subprocess.Popen(
        [*COMMAND, "score", str(out), broker.url("plant/+/value"), "--samples", "5", "--json"],
        stdout=subprocess.PIPE,
        text=True,
    )
    while scoring.poll() is None:  # score gets what is published while it runs
        broker.publish(readings(rows[:10]))
    assert len(scoring.communicate()[0].splitlines()) == 5


@services
def test_topics_cannot_be_read_twice(broker: Mosquitto, tmp_path: Path) -> None:
    said = streamgmm("train", broker.url("t"), "--out", tmp_path / "run", "--passes", 2, fails=True)
    assert "MQTT topic t can be read only once; --passes 2 needs a file" in said.words


@pytest.mark.parametrize(("url", "extra"), [("redis://localhost/s", "redis"), ("mqtt://localhost/t", "mqtt")])
def test_missing_extras(url: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "redis", None)
    monkeypatch.setitem(sys.modules, "paho", None)
    said = streamgmm("train", url, "--out", tmp_path / "run", fails=True)
    assert f"pip install 'streamgmm[{extra}]'" in said.words


@pytest.mark.parametrize(
    "url",
    [
        "mqtx://me:s3cret@host/t",
        "redis://me:s3cret@host",
        "mqtt://me:s3cret@host/a#b",
        "mqtt://me:1/s3cret@host/t",
        "redis://:?s3cret@host/s",
        "other://host/s?password=a@s3cret",
        "mqtt://me:s3cret@host:port/t",
        "mqtt://me:s3cret@host/t?colour=s3cret",
        "mqtt://me:s3cret@host/t?window=0",
        "mqtt://me:s3cret@host/t?rows=none",
        "mqtts://me:s3cret@host/t?ca=missing.pem",
        "kafka://me:s3cret@host:1?sasl.password=s3cret",
        "kafka://host:1/t?no.such.thing=1&sasl.password=s3cret",
    ],
)
def test_secrets_are_not_repeated(url: str, tmp_path: Path) -> None:
    said = streamgmm("train", url, "--out", tmp_path / "run", fails=True)
    assert said.stderr
    assert "s3cret" not in said.stderr
