"""Real servers for tests, each on a free port of the loopback device and in a folder of its own."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Self

import pytest

from streamgmm.sources import Chunk, Position, Source, open_source

Published = tuple[str, str | bytes]


def program(name: str) -> str:
    """Return where a program is; without it the test is skipped, except where nothing may be skipped."""
    found = shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin")
    if found is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{name} is not installed")
    return found


def read(source: Source, count: int, start: Position | None = None) -> list[Chunk]:
    """Follow a source until it has given so many rows, good and bad; commit each chunk."""
    chunks: list[Chunk] = []
    while sum(len(c.rows) + len(c.bad) for c in chunks) < count:
        for chunk in source.chunks(start):
            chunks.append(chunk)
            start = chunk.position
            source.commit(start)
    return chunks


def rows_of(chunks: list[Chunk]) -> list[list[float]]:
    return [row for chunk in chunks for row in chunk.rows.tolist()]


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


class Server:
    """A server that can be stopped, killed and started again on the same port."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address = f"127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    def command(self) -> list[str]:
        raise NotImplementedError

    def start(self) -> None:
        self._process = subprocess.Popen(
            self.command(), cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while True:
            assert self._process.poll() is None, f"{self.command()[0]} does not start"
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.01)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *problem: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop it; it keeps its data for the next start."""
        assert self._process is not None
        self._process.terminate()
        self._process.wait(10)


class Redis(Server):
    """redis-server. Commands go through ``client``."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._program, self._settings = program("redis-server"), settings
        super().__init__(folder)
        redis = pytest.importorskip("redis", reason="redis-py is not installed")
        self.client = redis.Redis("127.0.0.1", self.port, protocol=2)

    def command(self) -> list[str]:
        keep = ["--appendonly", "yes", "--save", "", "--bind", "127.0.0.1"]
        return [self._program, "--port", str(self.port), "--dir", str(self.folder), *keep, *self._settings]

    def url(self, stream: str) -> str:
        return f"redis://{self.address}/{stream}"

    def fill(self, stream: str, entries: Iterable[dict[str, str | bytes | float]]) -> list[str]:
        """Append entries and return their ids."""
        with self.client.pipeline(transaction=False) as request:
            for fields in entries:
                request.xadd(stream, fields)
            return [found.decode() for found in request.execute()]


class Mosquitto(Server):
    """The MQTT broker of Debian."""

    def __init__(self, folder: Path, *settings: str) -> None:
        self._program, self._settings = program("mosquitto"), settings
        super().__init__(folder)

    def command(self) -> list[str]:
        lines = [
            f"listener {self.port} 127.0.0.1",
            "user root",
            "persistence true",
            f"persistence_location {self.folder}/",
            "max_queued_messages 0",
            *(self._settings or ["allow_anonymous true"]),
        ]
        (self.folder / "mosquitto.conf").write_text("\n".join(lines) + "\n")
        return [self._program, "-c", str(self.folder / "mosquitto.conf")]

    def url(self, topic: str, settings: str = "") -> str:
        return f"mqtt://{self.address}/{topic}{settings}"

    def keep_for(self, client: str, topic: str) -> str:
        """Let the broker keep messages for a client from now on; return the name of the source that gets them."""
        url = self.url(topic, f"?client={client}")
        source = open_source(url, follow=True)
        assert not list(source.chunks())
        source.close()
        return url

    def publish(self, messages: Iterable[Published], *, qos: int = 1, retain: bool = False) -> None:
        """Publish messages in their order, and return when the broker has them."""
        from paho.mqtt import publish

        listed = [(topic, payload, qos, retain) for topic, payload in messages]
        if listed:
            publish.multiple(listed, "127.0.0.1", self.port)
