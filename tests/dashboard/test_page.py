"""The page in a browser: it follows a run, says what is wrong, and is there for this machine alone."""

from __future__ import annotations

import http.client
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from streamgmm.running import Journey
from streamgmm.streams import open_source
from tests.dashboard.browser import chromium, served

DRAWN = "Bokeh.documents[0].get_model_by_name('{}').renderers[{}].data_source.data"
LENGTH = DRAWN.format("likelihood", 1) + ".samples.length"
PIXELS = f"Array.from({DRAWN.format('torus', 0)}.image[0]).slice(0, 5000).join()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


class Watched:
    """A page, and what the browser had to complain about."""

    def __init__(self, browser: Any, address: str, width: int = 1280, height: int = 1000) -> None:
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": height})
        self.complaints: list[str] = []
        self.page.on("console", lambda m: self.complaints.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.complaints.append(str(e)))
        self.page.goto(address)
        self.page.wait_for_function("window.Bokeh && Bokeh.documents.length > 0 && Bokeh.documents[0].is_idle")

    def until(self, script: str) -> None:
        self.page.wait_for_function(script, timeout=20_000)

    def says(self, words: str) -> None:
        self.page.get_by_text(words).first.wait_for(timeout=20_000)


def journey(folder: Path, source: str = "glyphs:A-J", samples: int = 12_000) -> Journey:
    folder.mkdir(exist_ok=True)
    run = Journey(folder, open_source(source), StreamingGaussianMixture(16, random_state=0), 1, 2000)
    run.stop = lambda: run.place.samples >= samples
    return run


def go(run: Journey) -> None:
    for _ in run.go():
        pass


def test_it_follows_a_run(browser: Any, tmp_path: Path) -> None:
    first = journey(tmp_path / "run", samples=12_000)
    steps = first.go()
    while first.place.samples < 5000:
        next(steps)
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.until(f"{LENGTH} > 10")
        watched.says("The run goes on.")
        points, pixels = watched.page.evaluate(LENGTH), watched.page.evaluate(PIXELS)
        picture = watched.page.screenshot()
        for _ in steps:
            pass
        watched.until(f"{LENGTH} > {points} + 50")
        watched.says("The run was stopped; --resume goes on.")
        watched.until(f"{PIXELS} !== '{pixels}'")
        watched.until(
            "Bokeh.documents[0].get_model_by_name('strange').renderers[0].data_source.data.image.length === 1"
        )
        assert watched.page.screenshot() != picture
        board = watched.page.locator("section").first.bounding_box()
        watched.page.mouse.move(board["x"] + board["width"] / 3, board["y"] + board["height"] / 2)
        watched.says("weight")
        watched.says("recent samples")
        assert not watched.complaints


def test_a_run_that_has_ended(browser: Any, tmp_path: Path) -> None:
    """Vectors that are no images, and every check on the curve."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(rng.integers(2, size=(20_000, 1)), 0.2, (20_000, 30)))
    run = journey(tmp_path / "run", str(tmp_path / "x.npy"), 10**9)
    go(run)
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address, width=390, height=1500)
        watched.says("The run has ended.")
        watched.says("20,000")
        watched.says("16 components, 30 features")
        checks = (tmp_path / "run" / "events.jsonl").read_text().count('"kind": "check"')
        assert watched.page.evaluate(LENGTH) == checks >= 250
        assert watched.page.evaluate(DRAWN.format("torus", 1) + ".xs.length") == 16
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not watched.complaints


def _nothing(folder: Path) -> None:
    return


def _half_written(folder: Path) -> None:
    go(journey(folder, samples=2000))
    model = folder / "model.safetensors"
    model.write_bytes(model.read_bytes()[:5000])
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes() + b'{"kind": "check", "sam')


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (_nothing, "There is no folder run: it was moved or deleted, or the run has not begun."),
        (Path.mkdir, "The run has not written anything yet."),
        (_half_written, "The run has no whole model file yet"),
    ],
)
def test_folders_without_a_whole_run(browser: Any, tmp_path: Path, spoil: Callable[[Path], None], words: str) -> None:
    spoil(tmp_path / "run")
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.says(words)
        assert not watched.complaints


def test_a_folder_that_is_deleted_meanwhile(browser: Any, tmp_path: Path) -> None:
    go(journey(tmp_path / "run", samples=2000))
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.says("The run was stopped")
        shutil.rmtree(tmp_path / "run")
        watched.says("There is no folder run")
        go(journey(tmp_path / "run", samples=2000))
        watched.says("The run was stopped")
        assert not watched.complaints


def answer(address: str, path: str, **headers: str) -> int:
    place = urlsplit(address)
    connection = http.client.HTTPConnection("127.0.0.1", place.port, timeout=10)
    connection.putrequest("GET", path, skip_host="Host" in headers)
    for name, value in headers.items():
        connection.putheader(name.replace("_", "-"), value)
    connection.endheaders()
    status = connection.getresponse().status
    connection.close()
    return status


def test_it_is_for_itself_alone(tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    with served(tmp_path / "run") as address:
        own = urlsplit(address).netloc
        socket = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec_WebSocket_Version": "13",
                  "Sec_WebSocket_Key": "AAAAAAAAAAAAAAAAAAAAAA=="}  # fmt: skip
        assert answer(address, "/") == 200
        assert answer(address, "/", Origin=f"http://{own}") == 200
        assert answer(address, "/", Origin="http://evil.example") == 403
        assert answer(address, "/", Host="evil.example") == 403
        assert answer(address, "/ws", Origin="http://evil.example", **socket) == 403
        for path in ("/../../../../etc/passwd", "/static/../../../../../etc/passwd", "/model.safetensors", "/run"):
            assert answer(address, path) in (403, 404)


@pytest.mark.parametrize("address", ["0.0.0.0", "192.168.1.7", "::"])
def test_other_addresses_are_refused(tmp_path: Path, address: str) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    command = [sys.executable, "-m", "streamgmm.cli", "dashboard", str(tmp_path), "--address", address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "make an SSH tunnel" in " ".join(done.stderr.split())


@pytest.mark.parametrize("command", ["train", "demo"])
def test_beside_a_training(tmp_path: Path, command: str) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    words = {"train": ["train", "glyphs:A-C", "--samples", "3000"], "demo": ["demo", "--samples", "2000"]}[command]
    arguments = [*words, "--components", "9", "--out", "run", "--dashboard", "--port", "0"]
    done = subprocess.run(
        [sys.executable, "-m", "streamgmm.cli", *arguments],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert "live page: http://localhost:" in done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_a_page_ends_with_its_training(tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    arguments = ["train", "glyphs:A-C", "--components", "4", "--out", "run", "--dashboard", "--port", "0"]
    command = [sys.executable, "-m", "streamgmm.cli", *arguments]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as training:
        try:
            assert training.stderr is not None
            port = urlsplit(training.stderr.readline().split()[-1]).port
            assert listens(port)
        finally:
            training.kill()
        deadline = time.monotonic() + 30
        while listens(port) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not listens(port)


def listens(port: int | None) -> bool:
    with socket.socket() as visitor:
        return visitor.connect_ex(("127.0.0.1", int(port or 0))) == 0


def test_training_goes_on_without_a_page(tmp_path: Path) -> None:
    pytest.importorskip("bokeh", reason="bokeh is not installed")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        arguments = ["train", "glyphs:A-C", "--samples", "2000", "--components", "4", "--out", "run"]
        command = [sys.executable, "-m", "streamgmm.cli", *arguments, "--dashboard", "--port", port]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert "training goes on" in done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()
