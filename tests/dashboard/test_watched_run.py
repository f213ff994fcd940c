"""A run that judges a log with known faults: what its folder tells the page."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm.dashboard.follower import Follower
from streamgmm.dashboard.history import POINTS, History
from streamgmm.dashboard.texts import component_details, facts_html, strange_html
from streamgmm.sources.synthetic.sensors import NAMES, SensorLog
from streamgmm.storage import load_model, save_model
from tests.commands.command_line import streamgmm
from tests.dashboard.test_follower import check
from tests.dashboard.trainings import watch_log


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, SensorLog]:
    folder = tmp_path_factory.mktemp("plant")
    return folder, watch_log(folder)


def followed(folder: Path) -> Follower:
    follower = Follower(folder / "run")
    follower.poll()
    return follower


def time_of(log: SensorLog, row: int) -> str:
    return str(np.datetime64("2026-01-01T00:00:00") + np.timedelta64(int(log.minutes[row]), "m"))


def test_alerts_are_bursts_in_the_order_of_the_log(watched: tuple[Path, SensorLog]) -> None:
    """The log on which the run was trained was shuffled; this one is not."""
    folder, log = watched
    alerts = followed(folder).alerts
    rows = [alert.first_row for alert in alerts]
    assert rows == sorted(rows, reverse=True)
    assert all(alert.first_id == time_of(log, alert.first_row) and not alert.is_open for alert in alerts)
    bursts = [a for a in alerts if (log.faulty[a.first_row : a.last_row + 1] >= 0).any()]
    starts = np.flatnonzero((log.faulty >= 0) & (np.roll(log.faulty, 1) < 0))
    assert len(bursts) == len(starts)
    for burst in bursts:
        if log.faulty[burst.first_row] >= 0:
            assert burst.reasons[0].feature == NAMES[log.faulty[burst.first_row]]


def test_the_present_source_and_what_was_judged(watched: tuple[Path, SensorLog]) -> None:
    folder, _ = watched
    follower = followed(folder)
    history, flagged = follower.history, sum(alert.rows for alert in follower.alerts)
    assert history.totals == (3000, flagged, 0.01)
    facts = facts_html(follower)
    assert "<dt>source</dt><dd>today.csv</dd>" in facts
    assert "as in the source" in facts
    assert f"3,000, {flagged} ({flagged / 3000:.2%}) flagged; 1.00% of typical rows" in facts
    assert [m["samples"] for m in history.marks if m["kind"] == "source"] == [4000]
    bars = history.flagged_shares()
    assert (bars[0].left, bars[-1].right) == (4000, 7000)
    assert sum(bar.share * (bar.right - bar.left) for bar in bars) == pytest.approx(flagged)


def test_points_know_the_time_of_their_rows(watched: tuple[Path, SensorLog]) -> None:
    folder, log = watched
    history = followed(folder).history
    known = [(s, i) for s, i in zip(history.points["samples"], history.ids, strict=True) if i is not None]
    assert len(known) > 10
    assert all(s > 4000 for s, _ in known)  # rows in random order have no place on an axis of time
    for samples, row_id in known:
        assert row_id == time_of(log, int(samples) - 4000 - 1)


def test_columns_and_strange_rows_have_names(watched: tuple[Path, SensorLog]) -> None:
    folder, log = watched
    model = followed(folder).model
    assert model is not None
    assert model.names == NAMES
    assert list(model.strange_ids) == [time_of(log, row) for row in model.strange_numbers]
    faulty = log.faulty[model.strange_numbers]
    for sensor, reasons in zip(faulty, model.reasons, strict=True):
        assert sensor >= 0
        assert reasons[0].feature == NAMES[sensor]
    first = model.strange_numbers[0]
    assert model.reasons[0][0].value == pytest.approx(log.values[first, faulty[0]], rel=1e-5)
    assert time_of(log, first).replace("T", " ") in strange_html(model)
    details = component_details(model)
    assert [line.split(":")[0] for line in details[0].splitlines()] == list(NAMES)


def test_runs_without_rows_keep_no_ids(watched: tuple[Path, SensorLog], tmp_path: Path) -> None:
    folder, _ = watched
    saved = load_model(folder / "run" / "model.safetensors")
    assert saved.monitor is not None
    assert all(saved.monitor.strangest.ids)
    save_model(tmp_path / "model.safetensors", saved, rows=False)
    content = (tmp_path / "model.safetensors").read_bytes()
    assert b"2026-01-" not in content.replace(str(saved.run).encode(), b"")
    follower = Follower(tmp_path)
    follower.poll()
    assert follower.model is not None
    assert follower.model.reasons == follower.model.strange_ids == ()


def test_strange_rows_of_a_refined_model_have_ids(watched: tuple[Path, SensorLog], tmp_path: Path) -> None:
    folder, log = watched
    source = folder / "today.csv"
    arguments = ("--id", "time", "--missing", "learn", "--components", 4, "--out", "run")
    assert "refined by batch EM" in streamgmm("train", source, *arguments, folder=tmp_path).words
    strangest = load_model(tmp_path / "run" / "model.safetensors").monitor.strangest
    assert strangest.ids == [time_of(log, row) for row in strangest.numbers]
    assert len(strangest.ids) == 12


def test_watching_a_log_that_was_learned_begins_with_what_is_new(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["a,b", *(f"{a:.5f},{b:.5f}" for a, b in rng.normal(size=(3500, 2)))]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines[:3001]) + "\n")
    known = ("log.csv", "--out", "run")
    streamgmm("train", *known, "--missing", "learn", "--components", 2, "--passes", 2, folder=tmp_path)
    path.write_text("\n".join(lines) + "\n")
    done = streamgmm("watch", *known, "--resume", "--no-follow", folder=tmp_path)
    assert "500 rows judged" in done.words
    assert "is new to this run" not in done.words


def test_shares_survive_thinning() -> None:
    history, flagged = History(), 0
    for i in range(1, 3 * POINTS):
        flagged += i % 7 == 0
        history.add(check(100 * i, judged=100 * i, flagged=flagged, expected_share=0.01, row_id=f"r{i}"))
    assert history.step > 1
    assert len(history.ids) == len(history.points["samples"])
    assert history.ids[0] == f"r{history.points['samples'][0] / 100:.0f}"
    bars = history.flagged_shares(50)
    assert len(bars) <= 50
    assert sum(b.share * (b.right - b.left) for b in bars) == pytest.approx(flagged)


def test_fields_of_other_types_are_ignored() -> None:
    history = History()
    wrong = {"judged": "many", "flagged": None, "expected_share": "x", "row_id": {"a": 1}}
    history.add(json.loads(json.dumps(check(100, **wrong))))
    assert history.totals is None
    assert history.ids == [None]
    assert history.flagged_shares() == []
