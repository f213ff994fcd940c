"""The page in a browser: it follows a run, and says what is wrong."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.sources.synthetic.sensors import NAMES
from tests.dashboard.browser import chromium, served
from tests.dashboard.trainings import train, training, watch_log

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


EVIL = "<img src=x onerror=document.title='evil'>$$\\frac{a}{b}$$"


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_a_log_that_is_watched(browser: Any, tmp_path: Path, width: int, scheme: str) -> None:
    """Alerts, reasons and times of rows; names from outside are text, whatever they look like."""
    log = watch_log(tmp_path, (EVIL, *NAMES[1:]))
    events = tmp_path / "run" / "events.jsonl"
    event = json.loads(events.read_text().splitlines()[-1]) | {"kind": "source", "source": EVIL}
    more = {**event, "kind": "check", "samples": 8000, "row_id": EVIL}
    events.write_text(events.read_text() + json.dumps(event) + "\n" + json.dumps(more) + "\n")
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address, width=width)
        watched.page.emulate_media(color_scheme=scheme)
        watched.wait_until(f"{DRAWN.format('anomalies', 1)}.share.length > 10")
        first = int(np.flatnonzero(log.faulty >= 0)[-1])
        day = str(np.datetime64("2026-01-01") + np.timedelta64(int(log.minutes[first]), "m"))[:10]
        watched.wait_for_text(day)
        names = watched.page.locator("th").all_inner_texts()
        assert EVIL.split(">")[0] + ">" in "".join(names)
        assert {NAMES[i] for i in np.unique(log.faulty) if i > 0} <= set(names)
        labels = "Bokeh.documents[0].get_model_by_name('live').below[0].major_label_overrides"
        assert watched.page.evaluate(f"Array.from({labels}.values()).at(-1).text").startswith("<img")
        board = watched.page.locator("section").first
        board.scroll_into_view_if_needed()
        box = board.bounding_box()
        watched.page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 4)
        watched.wait_for_text(f"{NAMES[1]}: ")
        assert watched.page.locator("img").count() == 0
        assert watched.page.title() == "streamgmm · run"
        assert watched.page.evaluate("document.documentElement.scrollWidth") <= width
        assert watched.page.locator("section.watch").is_visible()
        assert not watched.errors


def test_runs_that_judge_nothing_show_no_alerts(browser: Any, tmp_path: Path) -> None:
    train(tmp_path / "run", samples=2000)
    with served(tmp_path / "run") as address:
        watched = Watched(browser, address)
        watched.wait_for_text("The run was stopped")
        assert not watched.page.locator("section.watch").is_visible()


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
