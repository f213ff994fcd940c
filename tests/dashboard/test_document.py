"""The Bokeh models of the page, without a browser."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("bokeh", reason="bokeh is not installed")

from bokeh.document import Document

from streamgmm.core.grid import Grid
from streamgmm.dashboard.follower import Follower
from streamgmm.dashboard.mosaics import mosaic, small_curves
from streamgmm.dashboard.page import Page, build, facts_html
from tests.dashboard.test_follower import check
from tests.dashboard.trainings import train


def test_a_long_run_is_drawn_less_often(tmp_path: Path) -> None:
    page = Page(Follower(tmp_path))

    def points_after(kind: str, samples: int) -> int:
        with (tmp_path / "events.jsonl").open("a") as file:
            file.write(json.dumps(check(samples, kind)) + "\n")
        page.update()
        return len(page.curves.data["samples"])

    assert points_after("check", 10_000) == 1
    assert points_after("check", 10_100) == 1  # one percent more can wait
    assert points_after("check", 10_300) == 3
    assert points_after("check", 10_301) == 3
    assert points_after("drift", 10_302) > 3  # drift cannot


def test_the_document_shows_a_run(tmp_path: Path) -> None:
    train(tmp_path / "run", samples=6000)
    follower, document = Follower(tmp_path / "run"), Document()
    build(document, follower)
    names = {root.name for root in document.roots}
    curves = {"likelihood", "annealing", "throughput", "live", "anomalies"}
    assert names == {"state", "facts", "torus", "strange", "reasons", "alerts"} | curves
    assert "can be resumed" in document.get_model_by_name("state").text
    image, _, cells = (r.data_source.data for r in document.get_model_by_name("torus").renderers)
    assert image["image"][0].shape == (4 * 28, 4 * 28)
    assert len(cells["weight"]) == 16
    assert "16 components, 784 features" in facts_html(follower)
    (tmp_path / "run").rename(tmp_path / "other")
    page = Page(follower)
    page.update()
    assert "does not exist" in page.roots[0].text


def test_a_mosaic_has_its_first_row_on_top() -> None:
    rows = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 0, 1]], np.float32)
    pixels = mosaic(rows, (2, 2), Grid(2, 2)).view(np.uint8).reshape(4, 4, 4)[::-1]
    np.testing.assert_array_equal(pixels[:2, :2, 0], 0)
    np.testing.assert_array_equal(pixels[:2, 2:, 0], 255)
    np.testing.assert_array_equal(pixels[2:, :2, 0], [[0, 255], [0, 255]])
    np.testing.assert_array_equal(pixels[..., 3], [[255] * 4] * 2 + [[255, 255, 0, 0]] * 2)  # no fourth image


def test_colours_are_kept() -> None:
    row = np.linspace(0, 1, 12, dtype=np.float32)
    pixels = mosaic(row[None], (2, 2, 3), Grid(1, 1)).view(np.uint8).reshape(2, 2, 4)[::-1]
    np.testing.assert_array_equal(pixels[..., :3], (255 * row).astype(np.uint8).reshape(2, 2, 3))


def test_small_curves_stay_in_their_cells() -> None:
    curves = small_curves(np.random.default_rng(0).normal(size=(5, 900)).astype(np.float32), Grid(2, 3))
    assert len(curves["xs"]) == 5
    assert len(curves["xs"][0]) <= 226
    assert 1 < min(curves["xs"][4]) < max(curves["xs"][4]) < 2
    assert 0 < min(curves["ys"][4]) < max(curves["ys"][4]) < 1
    assert small_curves(np.empty((0, 0), np.float32), Grid(1, 1)) == {"xs": [], "ys": []}
