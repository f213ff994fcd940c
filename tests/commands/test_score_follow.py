"""Scores of a source that grows, by a model that another process trains; and scores that decide."""

from __future__ import annotations

import csv
import json
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.storage import load_model
from streamgmm.storage.latest_model import LatestModel
from streamgmm.storage.run_folder import MODEL
from tests.commands.command_line import COMMAND, Done, invoke, streamgmm
from tests.commands.processes import SECONDS, following
from tests.sources.brokers import Brokers
from tests.sources.servers import Mosquitto, Redis


def write(path: Path, rows: np.ndarray, *, heading: bool = True) -> None:
    with path.open("w", newline="") as file:
        lines = csv.writer(file)
        if heading:
            lines.writerow(["time", "a", "unit", "b"])
        lines.writerows([f"t{i}", a, "left", b] for i, (a, b) in enumerate(rows.tolist()))


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal([300.0, 0.02], [10.0, 0.001], (count, 2)).round(5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("follow")
    write(place / "x.csv", rows(2000, 0))
    streamgmm("train", "x.csv", "--id", "time", "--components", "2", "--out", "run", folder=place)
    today = rows(50, 1)
    write(place / "normal.csv", today)
    write(place / "bare.csv", today, heading=False)
    write(place / "odd.csv", np.vstack([today, [[300.0, 0.5]]]))
    return place


class TestFailOnAnomaly:
    def score(self, folder: Path, *arguments: object) -> Done:
        return invoke("score", "run", *arguments, "--id", "time", "--contamination", "0.0006", folder=folder)

    def test_three_if_there_is_one(self, folder: Path) -> None:
        done = self.score(folder, "odd.csv", "--fail-on-anomaly")
        assert done.code == 3
        assert len(done.stdout.splitlines()) == 52  # everything is scored first
        assert done.stdout.splitlines()[-1].endswith("True")
        assert self.score(folder, "odd.csv").code == 0

    def test_zero_if_there_is_none(self, folder: Path) -> None:
        assert self.score(folder, "normal.csv", "--fail-on-anomaly").code == 0

    def test_never_zero_because_nothing_is_known(self, folder: Path) -> None:
        write(folder / "few.csv", rows(30, 2))
        streamgmm("train", "few.csv", "--id", "time", "--passes", "1", "--out", "coarse", folder=folder)
        done = invoke("score", "coarse", "odd.csv", "--id", "time", "--fail-on-anomaly", folder=folder)
        assert done.code == 1
        assert "--fail-on-anomaly cannot tell what is an anomaly" in done.words

    def test_the_first_one_ends_following(self, folder: Path) -> None:
        done = self.score(folder, "odd.csv", "--follow", "--fail-on-anomaly", "--json")
        assert done.code == 3
        assert json.loads(done.stdout.splitlines()[-1])["anomaly"]


class TestNoHeading:
    """Text without a heading has the columns of the file that the model was trained on."""

    def score(self, folder: Path, name: str, *more: str) -> list[dict[str, Any]]:
        done = streamgmm("score", "run", name, "--json", *more, folder=folder)
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_columns_and_id_by_name(self, folder: Path) -> None:
        bare = self.score(folder, "bare.csv", "--id", "time")
        assert bare == self.score(folder, "normal.csv", "--id", "time")
        assert [row["id"] for row in bare] == [f"t{i}" for i in range(50)]

    def test_standard_input(self, folder: Path) -> None:
        command, text = [*COMMAND, "score", "run", "-", "--json", "--id", "time"], (folder / "bare.csv").read_text()
        done = subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, check=True)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert found == self.score(folder, "normal.csv", "--id", "time")

    def test_features_alone(self, folder: Path) -> None:
        (folder / "features.csv").write_text("".join(f"{a},{b}\n" for a, b in rows(50, 1).tolist()))
        likelihood = load_model(folder / "run" / MODEL).trainer.mixture.log_prob(rows(50, 1))
        found = [row["log_likelihood"] for row in self.score(folder, "features.csv")]
        np.testing.assert_allclose(found, likelihood)

    def test_a_heading_in_another_order_counts(self, folder: Path) -> None:
        text = "b,time,a,unit\n" + "".join(f"{b},t{i},{a},left\n" for i, (a, b) in enumerate(rows(50, 1).tolist()))
        (folder / "turned.csv").write_text(text)
        assert self.score(folder, "turned.csv", "--id", "time") == self.score(folder, "normal.csv", "--id", "time")

    def test_other_columns_are_refused(self, folder: Path) -> None:
        (folder / "other.csv").write_text("t0,300,left,0.02,9\n")
        assert streamgmm("score", "run", "other.csv", "--id", "time", folder=folder, fails=True).code == 1

    def test_training_resumes_without_it(self, folder: Path, tmp_path: Path) -> None:
        write(tmp_path / "x.csv", rows(500, 0))
        command = ["train", "--id", "time", "--components", "2", "--passes", "1", "--out", "run"]
        streamgmm(*command, "x.csv", folder=tmp_path)
        write(tmp_path / "y.csv", rows(100, 1), heading=False)
        streamgmm(*command, "y.csv", "--resume", folder=tmp_path)
        saved = load_model(tmp_path / "run" / MODEL)
        assert saved.feature_names == ["a", "b"]
        assert saved.trainer.n_samples == 600


class TestFollow:
    def test_rows_that_arrive_later(self, folder: Path, tmp_path: Path) -> None:
        write(tmp_path / "log.csv", rows(3, 2))
        command = [*COMMAND, "score", "run", str(tmp_path / "log.csv"), "--id", "time", "--follow", "--json"]
        with following(command, folder) as (going, line):
            assert [json.loads(line())["id"] for _ in range(3)] == ["t0", "t1", "t2"]
            with (tmp_path / "log.csv").open("a") as file:
                file.write("t3,300.0,left,0.02\nt4,300.0,lef")
                file.flush()
                assert json.loads(line())["id"] == "t3"
                file.write("t,0.5\n")
                file.flush()
                last = json.loads(line())
            assert (last["id"], last["row"], last["anomaly"]) == ("t4", 4, True)
            going.send_signal(signal.SIGTERM)
            assert going.wait(SECONDS) == 0

    def test_a_log_that_is_rotated(self, folder: Path, tmp_path: Path) -> None:
        write(tmp_path / "log.csv", rows(3, 2))
        command = [*COMMAND, "score", "run", str(tmp_path / "log.csv"), "--id", "time", "--follow", "--json"]
        with following(command, folder) as (_, line):
            assert [json.loads(line())["row"] for _ in range(3)] == [0, 1, 2]
            write(tmp_path / "new.csv", rows(2, 3))
            (tmp_path / "new.csv").replace(tmp_path / "log.csv")
            assert [json.loads(line())["row"] for _ in range(2)] == [0, 1]

    def test_a_model_that_is_trained_meanwhile(self, folder: Path, tmp_path: Path) -> None:
        for name, shift in (("first", 0.0), ("second", 500.0)):
            write(tmp_path / "x.csv", rows(2000, 0) + np.array([shift, 0.0]))
            streamgmm("train", "x.csv", "--id", "time", "--components", "2", "--out", name, folder=tmp_path)
        x = np.array([[800.0, 0.02]])
        expected = {n: load_model(tmp_path / n / MODEL).trainer.mixture.log_prob(x)[0] for n in ("first", "second")}
        command = [*COMMAND, "score", "first", "-", "--id", "time", "--follow", "--json"]
        with following(command, tmp_path) as (going, line):
            assert going.stdin is not None

            def ask() -> Any:
                assert going.stdin is not None
                going.stdin.write("t,800,left,0.02\n")
                going.stdin.flush()
                return json.loads(line())

            before = ask()
            assert before["log_likelihood"] == pytest.approx(expected["first"])
            assert before["anomaly"]
            (tmp_path / "second" / MODEL).replace(tmp_path / "first" / MODEL)
            while (now := ask())["log_likelihood"] == before["log_likelihood"]:
                pass
            assert now["log_likelihood"] == pytest.approx(expected["second"])
            assert not now["anomaly"]
            going.stdin.close()  # a pipe ends only once
            assert going.wait(SECONDS) == 0

    def test_a_file_grows(self, folder: Path, tmp_path: Path) -> None:
        out = tmp_path / "scores.csv"
        command = ["score", "run", "-", "--id", "time", "--follow", "--out", str(out)]
        text = "t0,300,left,0.02\nt1,301,left,0.02\n"
        done = subprocess.run([*COMMAND, *command], cwd=folder, input=text, capture_output=True, text=True, check=True)
        assert "2 rows scored" in done.stderr
        assert [line.split(",")[1] for line in out.read_text().splitlines()] == ["id", "t0", "t1"]

    def test_not_every_file_can_grow(self, folder: Path) -> None:
        words = streamgmm("score", "run", "x.csv", "--follow", "--out", "s.parquet", folder=folder, fails=True).words
        assert "s.parquet cannot grow row by row" in words


class TestLatestModel:
    @pytest.fixture
    def model(self, folder: Path, tmp_path: Path) -> Path:
        path = tmp_path / MODEL
        path.write_bytes((folder / "run" / MODEL).read_bytes())
        return path

    def test_nothing_is_new_at_first(self, model: Path) -> None:
        latest = LatestModel(model, pause=0.0)
        assert latest.newer() is None
        assert latest.saved.trainer.n_components == 2

    def test_damage_is_told_and_the_old_model_stays(self, model: Path) -> None:
        latest = LatestModel(model, pause=0.0)
        model.write_bytes(b"damaged")
        with pytest.warns(UserWarning, match="the new model cannot be used; scoring continues with the previous one"):
            assert latest.newer() is None
        assert latest.newer() is None
        model.unlink()
        assert latest.newer() is None

    def test_other_features_are_refused(self, model: Path, tmp_path: Path) -> None:
        latest = LatestModel(model, pause=0.0)
        np.save(tmp_path / "y.npy", np.random.default_rng(0).random((500, 3)))
        streamgmm("train", "y.npy", "--components", "2", "--out", "other", folder=tmp_path)
        (tmp_path / "other" / MODEL).replace(model)
        with pytest.raises(ValueError, match="replaced by a model of other features"):
            latest.newer()


Send = Callable[[list[dict[str, Any]]], None]


@contextmanager
def broker_of(kind: str, folder: Path) -> Iterator[tuple[str, Send]]:
    """Start a broker; give the name of a source, and a function that sends rows to it."""
    if kind == "kafka":
        brokers = Brokers()
        url = brokers.fill("sensors", [])
        yield url, lambda found: brokers.fill("sensors", (json.dumps(row).encode() for row in found), 0)
    elif kind == "redis":
        with Redis(folder) as server:
            yield server.url("sensors"), lambda found: server.fill("sensors", found)
    else:
        with Mosquitto(folder) as server:
            url = server.keep_for("scores", "sensors")
            yield url, lambda found: server.publish(("sensors", json.dumps(row)) for row in found)


@pytest.mark.services
@pytest.mark.parametrize("kind", ["kafka", "redis", "mqtt"])
def test_brokers_are_followed(folder: Path, tmp_path: Path, kind: str) -> None:
    first = [{"time": f"t{i}", "a": a, "b": b} for i, (a, b) in enumerate(rows(3, 2).tolist())]
    with broker_of(kind, tmp_path) as (url, send):
        send(first)
        command = [*COMMAND, "score", "run", url, "--id", "time", "--follow", "--json"]
        with following(command, folder) as (going, line):
            assert [json.loads(line())["id"] for _ in range(3)] == ["t0", "t1", "t2"]
            send([{"time": "t3", "a": 300.0, "b": 0.5}])
            last = json.loads(line())
            assert (last["id"], last["row"], last["anomaly"]) == ("t3", 3, True)
            going.send_signal(signal.SIGTERM)
            assert going.wait(SECONDS) == 0
