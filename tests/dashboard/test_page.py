"""The page in a browser: it follows a run, and says what is wrong."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.dashboard.browser import chromium, served
from tests.dashboard.trainings import train, training

pytestmark = pytest.mark.services

DRAWN = "Bokeh.documents[0].get_model_by_name('{}').renderers[{}].data_source.data"
LENGTH = DRAWN.format("likelihood", 1) + ".samples.length"
PIXELS = f"Array.from({DRAWN.format('torus', 0)}.image[0]).slice(0, 5000).join()"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("profile")) as context:
        yield context


class Watched:
    """A page in the browser, and the errors that it caused."""

    def __init__(self, browser: Any, address: str, width: int = 1280, height: int = 1000) -> None:
        self.page = browser.new_page()
        self.page.set_viewport_size({"width": width, "height": height})
        self.errors: list[str] = []
        self.page.on("console", lambda m: self.errors.append(m.text) if m.type == "error" else None)
        self.page.on("pageerror", lambda e: self.errors.append(str(e)))
        self.page.goto(address)
        self.page.wait_for_function("window.Bokeh && Bokeh.documents.length > 0 && Bokeh.documents[0].is_idle")

    def wait_until(self, script: str) -> None:
        self.page.wait_for_function(script, timeout=20_000)

    def wait_for_text(self, words: str) -> None:
        self.page.get_by_text(words).first.wait_for(timeout=20_000)


def test_it_follows_a_run(browser: Any, tmp_path: Path) -> None:
    run = training(tmp_path / "run", samples=12_000)
    statuses = run.go()
    while run.progress.samples < 5000:
        next(statuses)
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.wait_until(f"{LENGTH} > 10")
        watched.wait_for_text("The run is in progress.")
        points, pixels = watched.page.evaluate(LENGTH), watched.page.evaluate(PIXELS)
        picture = watched.page.screenshot()
        for _ in statuses:
            pass
        watched.wait_until(f"{LENGTH} > {points} + 50")
        watched.wait_for_text("The run was stopped and can be resumed.")
        watched.wait_until(f"{PIXELS} !== '{pixels}'")
        watched.wait_until(DRAWN.format("strange", 0) + ".image.length === 1")
        assert watched.page.screenshot() != picture
        board = watched.page.locator("section").first.bounding_box()
        watched.page.mouse.move(board["x"] + board["width"] / 3, board["y"] + board["height"] / 2)
        watched.wait_for_text("weight")
        watched.wait_for_text("recent samples")
        assert not watched.errors


def test_a_run_that_has_ended(browser: Any, tmp_path: Path) -> None:
    """Vectors that are not images, and every check on the curve."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "x.npy", rng.normal(rng.integers(2, size=(20_000, 1)), 0.2, (20_000, 30)))
    train(tmp_path / "run", str(tmp_path / "x.npy"), 10**9)
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address, width=390, height=1500)
        watched.wait_for_text("The run has ended.")
        watched.wait_for_text("20,000")
        watched.wait_for_text("16 components, 30 features")
        checks = (tmp_path / "run" / "events.jsonl").read_text().count('"kind": "check"')
        assert watched.page.evaluate(LENGTH) == checks >= 250
        assert watched.page.evaluate(DRAWN.format("torus", 1) + ".xs.length") == 16
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= 390
        assert not watched.errors


def _no_folder(folder: Path) -> None:
    return


def _half_written(folder: Path) -> None:
    train(folder, samples=2000)
    model = folder / "model.safetensors"
    model.write_bytes(model.read_bytes()[:5000])
    events = folder / "events.jsonl"
    events.write_bytes(events.read_bytes() + b'{"kind": "check", "sam')


@pytest.mark.parametrize(
    ("prepare", "words"),
    [
        (_no_folder, "Folder run does not exist: the run has not started, or it was moved or deleted."),
        (Path.mkdir, "The run has not written anything yet."),
        (_half_written, "There is no complete model file yet"),
    ],
)
def test_incomplete_folders(browser: Any, tmp_path: Path, prepare: Callable[[Path], None], words: str) -> None:
    prepare(tmp_path / "run")
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.wait_for_text(words)
        assert not watched.errors


def test_a_folder_that_is_deleted_meanwhile(browser: Any, tmp_path: Path) -> None:
    train(tmp_path / "run", samples=2000)
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.wait_for_text("The run was stopped")
        shutil.rmtree(tmp_path / "run")
        watched.wait_for_text("Folder run does not exist")
        train(tmp_path / "run", samples=2000)
        watched.wait_for_text("The run was stopped")
        assert not watched.errors
