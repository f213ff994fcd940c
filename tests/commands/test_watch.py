"""`watch` as its users run it: a past to learn from, rows that arrive, alerts that say what is wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.storage import load_model
from streamgmm.storage.alert_log import ALERTS
from streamgmm.storage.run_folder import EVENTS, MODEL
from tests.commands.command_line import COMMAND, invoke, streamgmm
from tests.commands.processes import SECONDS, following
from tests.sinks.receivers import Receiver
from tests.sources.servers import free_port

NAMES = ["inlet", "outlet", "flow"]
FAULTS = {100: 1, 101: 1, 102: 1, 110: 1, 300: 0}  # rows of today, and the sensor at fault; 300 is far from the others
WITHOUT = ["--no-follow", "--resume", "--id", "time"]
Alerts = list[dict[str, Any]]


def readings(count: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    state = rng.integers(2, size=(count, 1))
    return rng.normal([20.0, 300.0, 0.02] + state * [15.0, 80.0, 0.03], [1.0, 5.0, 0.002]).round(5)


def today() -> np.ndarray:
    x = readings(400, 1)
    for row, sensor in FAULTS.items():
        x[row, sensor] += 400 * (1 + sensor)
    return x


def write(path: Path, x: np.ndarray, names: list[str] | None = None) -> Path:
    lines = [",".join(["time", *(names or NAMES)])]
    lines += [f"t{i}," + ",".join("" if np.isnan(v) else str(v) for v in row) for i, row in enumerate(x.tolist())]
    path.write_text("\n".join(lines) + "\n")
    return path


def parsed(text: str) -> Alerts:
    return [json.loads(line) for line in text.splitlines()]


def restore(trained: Path, folder: Path) -> None:
    """Put the run that has learned the past into a folder."""
    shutil.rmtree(folder / "run", ignore_errors=True)
    shutil.copytree(trained / "run", folder / "run")


def key(alert: dict[str, Any]) -> tuple[str, int]:
    return alert["state"], alert["row"]


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that has learned the past."""
    folder = tmp_path_factory.mktemp("watch")
    write(folder / "past.csv", readings(3000, 0))
    train = ["train", "past.csv", "--id", "time", "--missing", "learn", "--components", "4", "--out", "run"]
    streamgmm(*train, folder=folder)
    return folder


@pytest.fixture
def place(trained: Path, tmp_path: Path) -> Path:
    """The same run, in a folder of its own, and the rows of today."""
    restore(trained, tmp_path)
    write(tmp_path / "today.csv", today())
    return tmp_path


def watch(folder: Path, *more: object, source: str = "today.csv") -> Alerts:
    """Watch a file to its end with a model that was trained before; return the alerts."""
    limit = [] if {"--max-p", "--fdr"} & set(more) else ["--max-p", "1e-6"]
    done = streamgmm("watch", source, "--out", "run", *WITHOUT, *limit, *more, folder=folder)
    return parsed(done.stdout)


class TestAlerts:
    def test_a_burst_opens_and_closes_and_names_the_sensor(self, place: Path) -> None:
        first, second, third, fourth = watch(place)
        assert [key(a) for a in (first, second)] == [("open", 100), ("close", 110)]
        assert [key(a) for a in (third, fourth)] == [("open", 300), ("close", 300)]
        assert first["id"] == second["id"] != third["id"] == fourth["id"]
        assert (first["row_id"], first["explain"][0]["feature"]) == ("t100", "outlet")
        reason = first["explain"][0]
        assert reason["value"] == today()[100, 1]
        assert reason["low"] < reason["expected"] < reason["high"] < reason["value"]
        assert reason["share"] > 0.9
        assert first["p_value"] <= 1e-6
        assert first["score"] < first["threshold"]
        assert (second["count"], second["first_id"], second["last_id"]) == (4, "t100", "t110")
        assert third["explain"][0]["feature"] == "inlet"

    def test_every_row(self, place: Path) -> None:
        found = watch(place, "--only-anomalies", "--explain", "1")
        assert [key(a) for a in found] == [("row", row) for row in FAULTS]
        assert len({a["id"] for a in found}) == 2
        assert [[r["feature"] for r in a["explain"]] for a in found] == [[NAMES[s]] for s in FAULTS.values()]

    def test_no_reasons(self, place: Path) -> None:
        assert all(a["explain"] == [] for a in watch(place, "--only-anomalies", "--explain", "0"))

    def test_contamination_is_the_share_of_usual_rows(self, place: Path) -> None:
        write(place / "today.csv", readings(4000, 2))
        done = streamgmm("watch", "today.csv", "--out", "run", *WITHOUT, "--contamination", "0.05", folder=place)
        assert "4,000 rows judged" in done.words
        share = float(done.words.split("anomalies (")[1].split("%")[0])
        assert 3.0 < share < 7.0

    def test_few_of_the_alarms_are_false(self, place: Path) -> None:
        done = streamgmm(
            "watch", "today.csv", "--out", "run", *WITHOUT, "--fdr", "0.05", "--only-anomalies", folder=place
        )
        assert [a["row"] for a in parsed(done.stdout)] == list(FAULTS)

    def test_gaps_are_judged_by_what_is_left(self, place: Path) -> None:
        x = today()
        x[::3, 2] = np.nan
        x[100, 0] = x[50] = np.nan  # t50 has no number at all
        write(place / "today.csv", x)
        found = watch(place, "--only-anomalies")
        assert [a["row"] for a in found] == list(FAULTS)
        assert [r["feature"] for r in found[0]["explain"]] == ["outlet", "flow"]

    def test_rows_with_gaps_can_be_skipped(self, tmp_path: Path) -> None:
        write(tmp_path / "past.csv", readings(3000, 0))
        x = today()
        x[100, 0] = np.nan
        write(tmp_path / "today.csv", x)
        skip = ["--missing", "skip"]
        streamgmm("train", "past.csv", "--id", "time", *skip, "--components", "4", "--out", "run", folder=tmp_path)
        assert [a["row"] for a in watch(tmp_path, "--only-anomalies", *skip)] == list(FAULTS)[1:]

    def test_from_nothing(self, tmp_path: Path) -> None:
        """Without a past, rows are learned first; it says from when on they are judged."""
        write(tmp_path / "log.csv", np.vstack([readings(3000, 0), today()]))
        options = ["--out", "run", "--no-follow", "--id", "time", "--components", "4", "--max-p", "1e-6"]
        done = streamgmm("watch", "log.csv", *options, "--only-anomalies", folder=tmp_path)
        assert [a["row"] for a in parsed(done.stdout)] == [3000 + row for row in FAULTS]
        assert "annealing has finished: rows are judged from row " in done.words

    def test_too_short_to_judge(self, tmp_path: Path) -> None:
        write(tmp_path / "log.csv", readings(60, 0))
        done = streamgmm("watch", "log.csv", "--out", "run", "--no-follow", "--id", "time", folder=tmp_path)
        assert done.stdout == ""
        assert "no row was judged: annealing has not finished after 60 samples" in done.words


class TestSameAlerts:
    """However rows arrive, and however often the program stops."""

    def test_in_any_chunks(self, place: Path, monkeypatch: pytest.MonkeyPatch, trained: Path) -> None:
        every = ["--max-p", "0.05", "--only-anomalies"]
        expected = watch(place, *every)
        assert len(expected) > 10
        restore(trained, place)
        monkeypatch.setattr("streamgmm.sources.lines.LINES_PER_CHUNK", 7)
        assert watch(place, *every, "--checkpoint-every", "37") == expected

    @pytest.mark.parametrize("more", [["--max-p", "0.01"], ["--fdr", "0.2", "--only-anomalies"]], ids=str)
    def test_of_a_run_that_stops_and_resumes(self, place: Path, trained: Path, more: list[str]) -> None:
        expected = watch(place, *more)
        assert len(expected) >= 4
        restore(trained, place)
        lines, out = (place / "today.csv").read_text().splitlines(keepends=True), place / "alerts.ndjson"
        (place / "today.csv").write_text("".join(lines[:106]))  # within a burst
        options = [
            "watch",
            "today.csv",
            "--out",
            "run",
            "--resume",
            "--id",
            "time",
            *more,
            "--alert-to",
            "alerts.ndjson",
        ]
        with following([*COMMAND, *options], place) as (going, _):
            until(lambda: out.exists() and len(parsed(out.read_text())) >= 1)
            until(lambda: "idle" in (place / "run" / EVENTS).read_text())
            going.send_signal(signal.SIGINT)
            assert going.wait(SECONDS) == 0
        (place / "today.csv").write_text("".join(lines))
        streamgmm(*options, "--no-follow", folder=place)
        assert parsed(out.read_text()) == expected

    def test_rows_that_were_learned_are_not_watched(self, place: Path) -> None:
        """Training a log and then watching it judges what was added since, in its order."""
        write(place / "log.csv", readings(2000, 0))
        train = ["train", "log.csv", "--id", "time", "--components", "4", "--missing", "learn", "--out", "other"]
        streamgmm(*train, folder=place)
        write(place / "log.csv", np.vstack([readings(2000, 0), today()]))
        options = ["watch", "log.csv", "--out", "other", *WITHOUT, "--max-p", "1e-6", "--only-anomalies"]
        done = streamgmm(*options, folder=place)
        assert [a["row"] for a in parsed(done.stdout)] == [2000 + row for row in FAULTS]
        assert "400 rows judged" in done.words


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.01)


class TestPipes:
    def test_an_alert_comes_at_once(self, place: Path) -> None:
        command = [*COMMAND, "watch", "-", "--out", "run", "--resume", "--id", "time", "--max-p", "1e-6"]
        with following(command, place) as (going, line):
            assert going.stdin is not None
            going.stdin.write('{"time": "a", "inlet": 20, "outlet": 300, "flow": 0.02}\n')
            going.stdin.write('{"time": "b", "flow": 0.02, "outlet": 9999, "inlet": 20}\n')
            going.stdin.flush()
            opened = json.loads(line())
            assert (opened["state"], opened["row_id"], opened["explain"][0]["feature"]) == ("open", "b", "outlet")
            going.stdin.write('{"time": "c", "inlet": 20, "outlet": 300, "flow": 0.02}\n')
            going.stdin.close()
            closed = json.loads(line())
            assert (closed["state"], closed["id"], closed["count"]) == ("close", opened["id"], 1)
            assert going.wait(SECONDS) == 0

    def test_what_comes_through_the_next_pipe_is_new(self, place: Path) -> None:
        command = [*COMMAND, "watch", "-", "--out", "run", "--resume", "--id", "time", "--max-p", "1e-6"]
        found = []
        for _ in range(2):
            text = "t,20,300,0.02\nu,20,9999,0.02\n"  # the model knows the columns
            done = subprocess.run(command, cwd=place, input=text, capture_output=True, text=True, timeout=SECONDS)
            assert done.returncode == 0, done.stderr
            found.append(parsed(done.stdout))
        assert [[key(a) for a in alerts] for alerts in found] == 2 * [[("open", 1), ("close", 1)]]
        assert found[0][0]["id"] != found[1][0]["id"]

    def test_nobody_reads_the_alerts(self, place: Path) -> None:
        command = [*COMMAND, "watch", "today.csv", "--out", "run", *WITHOUT, "--max-p", "1e-6"]
        end, begin = os.pipe()
        os.close(end)
        done = subprocess.run(command, cwd=place, stdout=begin, stderr=subprocess.PIPE, text=True, timeout=SECONDS)
        os.close(begin)
        assert done.returncode in (0, 1)
        assert "Traceback" not in done.stderr
        assert key(parsed((place / "run" / ALERTS).read_text())[1]) == ("open", 100)  # nothing is lost

    def test_ctrl_c_saves(self, place: Path) -> None:
        command = [*COMMAND, "watch", "today.csv", "--out", "run", "--resume", "--id", "time", "--max-p", "1e-6"]
        with following(command, place) as (going, line):
            found = [json.loads(line()) for _ in range(4)]
            going.send_signal(signal.SIGINT)
            assert going.wait(SECONDS) == 0
        assert [key(a) for a in found] == [("open", 100), ("close", 110), ("open", 300), ("close", 300)]
        with (place / "today.csv").open("a") as file:
            file.write("t400,20,9999,0.02\n")
        later = watch(place)
        assert [key(a) for a in later] == [("open", 400), ("close", 400)]


class TestTargets:
    def test_several(self, place: Path) -> None:
        with Receiver() as server:
            found = watch(place, "--alert-to", "-", "--alert-to", "x.ndjson", "--alert-to", server.url())
        assert [key(a) for a in found] == [("open", 100), ("close", 110), ("open", 300), ("close", 300)]
        assert parsed((place / "x.ndjson").read_text()) == found == server.accepted

    def test_one_that_is_down_gets_them_when_the_run_is_resumed(
        self, place: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("streamgmm.cli.watch.DRAIN_SECONDS", 0.1)
        port = free_port()
        options = ["watch", "today.csv", "--out", "run", *WITHOUT, "--max-p", "1e-6"]
        to = ["--alert-to", f"http://127.0.0.1:{port}/hook/secret-token"]
        done = streamgmm(*options, *to, folder=place)
        assert f"4 alerts wait for http://127.0.0.1:{port}/…; they are sent when the run is resumed" in done.words
        monkeypatch.setattr("streamgmm.cli.watch.DRAIN_SECONDS", SECONDS)
        with Receiver(port=port) as server:
            streamgmm(*options, *to, folder=place)
        assert [key(a) for a in server.accepted] == [("open", 100), ("close", 110), ("open", 300), ("close", 300)]

    def test_a_redirect_is_not_followed(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streamgmm.cli.watch.DRAIN_SECONDS", 0.5)
        with Receiver() as other, Receiver(lambda _: (302, {"Location": other.url()})) as server:
            done = streamgmm(
                "watch",
                "today.csv",
                "--out",
                "run",
                *WITHOUT,
                "--max-p",
                "1e-6",
                "--alert-to",
                server.url(),
                folder=place,
            )
        assert not other.requests
        assert "redirects are not followed" in done.words

    @pytest.mark.parametrize(
        ("arguments", "words"),
        [
            (["--alert-to", "ftp://host/x"], "is not a target of alerts"),
            (["--alert-to", "missing/x.ndjson"], "is in a folder that does not exist"),
            (["--alert-to", "a.ndjson", "--alert-to", "a.ndjson"], "is given twice"),
            (["--max-p", "0.01", "--fdr", "0.1"], "--max-p and --fdr both choose what is flagged"),
        ],
    )
    def test_refused(self, place: Path, arguments: list[str], words: str) -> None:
        done = streamgmm("watch", "today.csv", "--out", "run", *WITHOUT, *arguments, folder=place, fails=True)
        assert words in done.words
        assert done.code in (1, 2)


class TestFolders:
    def test_a_run_is_not_overwritten(self, place: Path) -> None:
        done = streamgmm("watch", "today.csv", "--out", "run", "--no-follow", folder=place, fails=True)
        assert "--resume" in done.words

    def test_other_components_are_refused(self, place: Path) -> None:
        options = ["watch", "today.csv", "--out", "run", *WITHOUT, "--components", "8"]
        assert "--components" in streamgmm(*options, folder=place, fails=True).words

    def test_without_rows(self, place: Path) -> None:
        found = watch(place, "--no-rows")
        assert len(found) == 4
        assert len(load_model(place / "run" / MODEL).monitor.strangest.rows) == 0
        assert load_model(place / "run" / MODEL).monitor.reservoir is None
        write(place / "more.csv", today())
        again = watch(place, "--no-rows", source="more.csv")
        assert [key(a) for a in again] == [key(a) for a in found]
        assert {a["id"] for a in again}.isdisjoint(a["id"] for a in found)

    def test_settings_name_the_default_target(self, place: Path) -> None:
        found = watch(place)
        settings = tomllib.loads((place / "run" / "settings.toml").read_text())
        assert settings["alert-to"] == ["-"]
        assert len(found) == 4

    def test_options_from_a_file(self, place: Path) -> None:
        (place / "run.toml").write_text('max-p = 1e-6\nonly-anomalies = true\nalert-to = ["-", "x.ndjson"]\n')
        done = streamgmm("watch", "today.csv", "--out", "run", *WITHOUT, "--config", "run.toml", folder=place)
        assert [a["row"] for a in parsed(done.stdout)] == list(FAULTS)
        assert (place / "x.ndjson").read_text() == done.stdout


class TestHostileInput:
    SECRET = "hunter2"

    def test_names_and_ids(self, place: Path, tmp_path: Path) -> None:
        names = ["in\x1b]0;owned\x07let", "=cmd|calc", "<script>alert(1)</script>"]
        write(tmp_path / "past.csv", readings(2000, 0), names)
        text = write(tmp_path / "odd.csv", today(), names).read_text()
        (tmp_path / "odd.csv").write_text(text.replace("t100,", "<img src=x onerror=alert(1)>\x1b[31m,"))
        train = ["train", "past.csv", "--id", "time", "--missing", "learn", "--components", "4", "--out", "hostile"]
        streamgmm(*train, folder=tmp_path)
        options = ["watch", "odd.csv", "--out", "hostile", *WITHOUT, "--max-p", "1e-6"]
        done = streamgmm(*options, folder=tmp_path)
        assert done.stdout.isascii()
        assert "\x1b" not in done.stdout + done.stderr
        first = parsed(done.stdout)[0]
        assert first["row_id"].startswith("<img")  # as it is: who shows it, escapes it
        assert first["explain"][0]["feature"] == names[1]

    def test_secrets_stay_secret(self, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("streamgmm.cli.watch.DRAIN_SECONDS", 1.0)
        port = free_port()
        with Receiver() as server:
            hooks = [
                server.url(f"/{self.SECRET}", f"user:{self.SECRET}@"),
                f"http://127.0.0.1:{port}/?key={self.SECRET}",
            ]
            to = [word for hook in hooks for word in ("--alert-to", hook)]
            done = invoke("watch", "today.csv", "--out", "run", *WITHOUT, "--max-p", "1e-6", *to, folder=place)
            assert done.code == 0
            assert len(server.accepted) == 4
        assert self.SECRET not in done.stdout + done.stderr
        for path in (place / "run").rglob("*"):
            if path.is_file():
                assert self.SECRET.encode() not in path.read_bytes(), path.name
