"""Logs as sensors write them: moved away while they are followed, slow, with gaps, with columns that come and go."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import SourceError, open_source
from streamgmm.storage import load_model
from streamgmm.storage.run_folder import EVENTS, MODEL, latest_checkpoint
from tests.commands.command_line import COMMAND, streamgmm

RNG = np.random.default_rng(0)
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def log(path: Path, count: int, mean: float) -> Path:
    """Rows of one width, so that a line begins at the same bytes in every such file."""
    path.write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in RNG.uniform(mean, mean + 1, (count, 2))))
    return path


def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def kinds(run: Path) -> list[str]:
    path = run / EVENTS
    return [json.loads(line)["kind"] for line in path.read_text().splitlines()] if path.exists() else []


class TestFollowing:
    def follow(self, folder: Path, stop: Callable[[TrainingRun], bool], **options: Any) -> TrainingRun:
        source = open_source(str(folder / "x.csv"), follow=True)
        run = TrainingRun(folder / "run", source, Settings(4), Serial(), RunOptions(passes=None, **options))
        run.folder.mkdir(exist_ok=True)
        run.stop = lambda: stop(run)
        for _ in run.go():
            pass
        return run

    @pytest.mark.parametrize("away_first", [True, False])
    def test_a_log_that_is_moved_away_and_begun_anew(self, tmp_path: Path, away_first: bool) -> None:
        log(tmp_path / "x.csv", 3000, 1)

        def stop(run: TrainingRun) -> bool:
            if run.progress.samples == 3000 and "idle" in kinds(run.folder) and not moved:
                moved.append(True)
                if away_first:
                    (tmp_path / "x.csv").rename(tmp_path / "x.csv.1")
                log(tmp_path / "new.csv", 5000, 2).rename(tmp_path / "x.csv")
            return run.progress.samples >= 8000

        moved: list[bool] = []
        with pytest.warns(UserWarning, match=r"x\.csv was replaced"):
            run = self.follow(tmp_path, stop)
        assert run.progress.samples == 8000
        assert run.progress.position is not None
        assert run.progress.position["row"] == 5000
        assert "replaced" in kinds(run.folder)

    def test_a_log_that_was_empty_at_first_is_known_by_what_came_later(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("a,b\n")

        def stop(run: TrainingRun) -> bool:
            if not run.progress.samples:
                log(tmp_path / "x.csv", 3000, 1)
            return run.progress.samples >= 3000

        self.follow(tmp_path, stop)
        log(tmp_path / "x.csv", 5000, 2)
        done = streamgmm("train", "x.csv", "--out", "run", "--resume", "--json", folder=tmp_path)
        assert json.loads(done.stdout)["samples"] == 8000

    def test_a_slow_log_is_saved_and_does_not_fill_the_disk(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("streamgmm.runs.source_reader.IDLE_SECONDS", 0.5 / 3)  # six seconds in two
        monkeypatch.setattr("streamgmm.runs.source_reader.FIRST_PAUSE", 1 / 3)
        log(tmp_path / "x.csv", 3000, 1)
        began = time.monotonic()

        def stop(run: TrainingRun) -> bool:
            with (tmp_path / "x.csv").open("a") as file:
                file.write("1.5000,1.5000\n")
            return time.monotonic() - began > 2

        run = self.follow(tmp_path, stop, checkpoint_seconds=0.03)
        assert run.progress.samples > 3005
        assert len(kinds(run.folder)) - kinds(run.folder).count("check") < 20

    def test_a_silent_pipe_is_saved(self, tmp_path: Path) -> None:
        script = (
            "import pathlib; from streamgmm.core.settings import Settings; from streamgmm.engines import Serial\n"
            "from streamgmm.runs.options import RunOptions; from streamgmm.runs.train import TrainingRun\n"
            "from streamgmm.sources import open_source\n"
            "source, options = open_source('-', follow=True), RunOptions(passes=None, checkpoint_seconds=0.3)\n"
            "for _ in TrainingRun(pathlib.Path('.'), source, Settings(4), Serial(), options).go(): pass"
        )
        with subprocess.Popen([sys.executable, "-c", script], cwd=tmp_path, stdin=subprocess.PIPE) as going:
            try:
                assert going.stdin is not None
                going.stdin.write("".join(f"{a:.4f},{b:.4f}\n" for a, b in RNG.uniform(0, 1, (500, 2))).encode())
                going.stdin.flush()
                until((tmp_path / MODEL).exists)
            finally:
                going.kill()
        known = latest_checkpoint(tmp_path)
        assert known is not None
        assert known[1].progress.samples > 0

    def test_a_pipe_that_stays_silent_can_be_left(self, tmp_path: Path) -> None:
        command = [*COMMAND, "train", "-", "--out", "run"]
        with subprocess.Popen(command, cwd=tmp_path, stdin=subprocess.PIPE) as going:
            until(lambda: (tmp_path / "run").exists())
            time.sleep(1)
            going.send_signal(signal.SIGTERM)
            going.wait(30)
        assert not (tmp_path / "run").exists()


class TestNames:
    def train(self, folder: Path, text: str, *arguments: object) -> list[str] | None:
        (folder / "x.csv").write_text(text)
        streamgmm("train", "x.csv", "--components", "2", "--passes", "1", "--out", "run", *arguments, folder=folder)
        return load_model(folder / "run" / MODEL).feature_names

    def test_without_a_heading_columns_go_by_number(self, tmp_path: Path) -> None:
        rows = [f"2024-01-{d:02},1.{d},-0.{d},2.{d}\n" for d in range(1, 29)]
        assert self.train(tmp_path, "".join(rows), "--columns", "1,2,3") is None
        assert StreamingGaussianMixture.load(tmp_path / "run" / MODEL).n_samples_seen_ == 28
        (tmp_path / "y.csv").write_text("".join(rows[5:]))
        scores = streamgmm("score", "run", "y.csv", "--columns", "1,2,3", folder=tmp_path).stdout
        assert len(scores.splitlines()) == 1 + 23

    def test_a_first_row_of_small_numbers_is_no_heading(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("sensor,2,1\nsensor,3,4\n")
        (chunk,) = open_source(str(tmp_path / "x.csv"), columns=["1", "2"]).chunks()
        assert chunk.rows.tolist() == [[2, 1], [3, 4]]

    def test_columns_that_are_called_by_numbers(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("time,1,2\nnow,3,4\n")
        (chunk,) = open_source(str(tmp_path / "x.csv"), columns=["1", "2"]).chunks()
        assert chunk.rows.tolist() == [[3, 4]]

    def test_columns_of_one_name_are_told_apart(self, tmp_path: Path) -> None:
        x = RNG.normal([0, 3, -3], 0.2, (600, 3))
        lines = ["{:.4f},{:.4f},{:.4f}\n".format(*row) for row in x]
        assert self.train(tmp_path, "a,a,b\n" + "".join(lines)) == ["a", "a.1", "b"]
        other = ["{2:.4f},{0:.4f},{1:.4f}\n".format(*row) for row in x]
        (tmp_path / "y.csv").write_text("b,a,a\n" + "".join(other))
        here, there = (streamgmm("score", "run", n, folder=tmp_path).stdout for n in ("x.csv", "y.csv"))
        assert here == there

    def test_columns_are_found_beside_others(self, tmp_path: Path) -> None:
        x = RNG.normal([0, 3], 0.2, (600, 2))
        text = "time,temp,hum\n" + "".join(f"t{i},{a:.4f},{b:.4f}\n" for i, (a, b) in enumerate(x))
        assert self.train(tmp_path, text, "--columns", "hum,temp") == ["hum", "temp"]
        assert len(streamgmm("score", "run", "x.csv", folder=tmp_path).stdout.splitlines()) == 601
        with (tmp_path / "x.csv").open("a") as file:
            file.write("t600,0.1,3.1\n")
        done = streamgmm("train", "x.csv", "--out", "run", "--resume", "--json", folder=tmp_path)
        assert json.loads(done.stdout)["samples"] == 601

    def test_a_drift_goes_by_name(self, tmp_path: Path) -> None:
        x = RNG.normal([0, 3], 0.1, (900, 2))
        np.savetxt(tmp_path / "d1.csv", x, delimiter=",", header="p,q", comments="")
        np.savetxt(tmp_path / "d2.csv", x[:, ::-1], delimiter=",", header="q,p", comments="")
        source = open_source(f"drift:sudden:300:{tmp_path / 'd1.csv'}|{tmp_path / 'd2.csv'}")
        rows = np.concatenate([chunk.rows for chunk in source.chunks()])
        assert source.feature_names == ["p", "q"]
        np.testing.assert_allclose(rows.mean(0), [0, 3], atol=0.05)

    def test_an_id_is_no_feature(self, tmp_path: Path) -> None:
        (tmp_path / "x.csv").write_text("a,b\n1,2\n")
        with pytest.raises(SourceError, match="is both a feature and the id"):
            open_source(str(tmp_path / "x.csv"), columns=["a", "b"], id_column="a")

    def test_names_in_capitals(self, tmp_path: Path) -> None:
        (tmp_path / "X.CSV").write_text("1,2\n3,4\n")
        (chunk,) = open_source(str(tmp_path / "X.CSV")).chunks()
        assert chunk.rows.tolist() == [[1, 2], [3, 4]]

    def test_names_that_look_like_formulas(self, tmp_path: Path) -> None:
        pytest.importorskip("matplotlib")
        text = "$\\foo$,$b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in RNG.uniform(0, 1, (1000, 2)))
        self.train(tmp_path, text)
        streamgmm("plot", "run", folder=tmp_path)
        assert (tmp_path / "run" / "density.png").exists()


class TestObjects:
    def write(self, folder: Path, *values: object) -> str:
        (folder / "x.ndjson").write_text("".join(json.dumps(v) + "\n" for v in values))
        return str(folder / "x.ndjson")

    def test_features_that_the_first_one_leaves_out(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, {"t": "x", "a": 1}, {"t": "y", "a": 2, "b": 3})
        source = open_source(path, id_column="t", missing=True)
        (chunk,) = source.chunks()
        assert source.feature_names == ["a", "b"]
        np.testing.assert_array_equal(chunk.rows, [[1, np.nan], [2, 3]])

    def test_features_that_come_later_are_named(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, *[{"a": 1.0}] * 1500, {"a": 2, "b": 3})
        with pytest.warns(UserWarning, match="'b', which the first rows lack; it is ignored"):
            rows = np.concatenate([c.rows for c in open_source(path, missing=True).chunks()])
        assert rows.shape == (1501, 1)

    def test_features_without_any_number_are_named(self, tmp_path: Path) -> None:
        self.write(tmp_path, *[{"temp": 0.1 * i, "hum": 1} for i in range(9)])
        arguments = ["--columns", "temp,humm", "--missing", "learn", "--components", "2", "--out", "run"]
        assert "has a number for 'humm'" in streamgmm("train", "x.ndjson", *arguments, folder=tmp_path).stderr

    def test_ids_of_arrays_go_by_number(self, tmp_path: Path) -> None:
        path = self.write(tmp_path, ["x", 1, 2], ["y", 3, 4])
        (chunk,) = open_source(path, id_column="0").chunks()
        assert chunk.ids == ("x", "y")
        assert chunk.rows.tolist() == [[1, 2], [3, 4]]
        with pytest.raises(SourceError, match="3 values; expected one at 'nosuch'"):
            list(open_source(path, id_column="nosuch").chunks())


class TestTables:
    def write(self, folder: Path, columns: dict[str, Any]) -> str:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        import pyarrow.parquet as pq

        pq.write_table(pa.table(columns), folder / "x.parquet")
        return str(folder / "x.parquet")

    @pytest.mark.parametrize(
        "column",
        [[[1.0, 2.0], None, [3.0, 4.0]], [[1.0, 2.0], [5.0], [3.0, 4.0]], [[1.0, 2.0], [5.0, None], [3.0, 4.0]]],
    )
    def test_vectors_that_are_not_whole_can_be_left_out(self, tmp_path: Path, column: list[Any]) -> None:
        self.write(tmp_path, {"x": column})
        arguments = ["--components", "2", "--out", "run", "--passes", "1", "--json"]
        assert "--bad-rows skip" in streamgmm("train", "x.parquet", *arguments, folder=tmp_path, fails=True).words
        done = streamgmm("train", "x.parquet", *arguments, "--bad-rows", "skip", folder=tmp_path)
        outcome = json.loads(done.stdout)
        assert outcome["samples"] == 2
        assert [b["row"] for b in outcome["first_bad"]] == [1]

    def test_rows_with_nothing_in_a_column_can_be_left_out(self, tmp_path: Path) -> None:
        self.write(tmp_path, {"a": [1.0, 2.0, 3.0], "b": [1.0, None, 3.0]})
        arguments = ["--components", "2", "--out", "run", "--passes", "1", "--json", "--bad-rows", "skip"]
        assert json.loads(streamgmm("train", "x.parquet", *arguments, folder=tmp_path).stdout)["samples"] == 2
        scores = streamgmm("score", "run", "x.parquet", "--bad-rows", "skip", folder=tmp_path).stdout
        assert len(scores.splitlines()) == 3

    def test_coded_numbers_are_numbers(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        coded = pa.table({"a": pa.array([1.5, 2.5, 1.5]).dictionary_encode(), "b": [1.0, 2.0, 3.0]})
        with pa.ipc.new_file(str(tmp_path / "x.arrow"), coded.schema) as file:
            file.write_table(coded)
        (chunk,) = open_source(str(tmp_path / "x.arrow")).chunks()
        assert chunk.rows.tolist() == [[1.5, 1], [2.5, 2], [1.5, 3]]

    def test_an_array_without_columns(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", np.empty((5, 0)))
        with pytest.raises(SourceError, match=r"shape \(5, 0\)"):
            open_source(str(tmp_path / "x.npy"))


class TestScores:
    def test_they_are_written_at_once(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", RNG.uniform(0, 1, (500, 2)))
        streamgmm("train", "x.npy", "--components", "2", "--out", "run", folder=tmp_path)
        surroundings = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
        command, pipe = [*COMMAND, "score", "run", "-"], subprocess.PIPE
        with subprocess.Popen(command, cwd=tmp_path, stdin=pipe, stdout=pipe, env=surroundings, text=True) as going:
            assert going.stdin is not None
            assert going.stdout is not None
            going.stdin.write("0.5,0.5\n")
            going.stdin.flush()
            lines = [going.stdout.readline(), going.stdout.readline()]  # the pipe is still open
            going.kill()
        assert lines[0].startswith("row,log_likelihood")
        assert lines[1].startswith("0,")

    def test_lines_end_as_elsewhere(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", RNG.uniform(0, 1, (500, 2)))
        streamgmm("train", "x.npy", "--components", "2", "--out", "run", folder=tmp_path)
        streamgmm("score", "run", "x.npy", "--out", "scores.csv", folder=tmp_path)
        assert b"\r" not in (tmp_path / "scores.csv").read_bytes()

    def test_one_absurd_number_does_not_hide_a_feature_that_seldom_changes(self, tmp_path: Path) -> None:
        x = np.c_[RNG.normal(0, 1, 3000), np.where(RNG.random(3000) < 0.2, RNG.normal(3, 0.1, 3000), 0)]
        x[50, 1] = 1e30
        np.save(tmp_path / "x.npy", x)
        np.save(tmp_path / "y.npy", np.array([[0, 0.0], [0, 1000.0]]))
        streamgmm("train", "x.npy", "--scale", "standard", "--components", "4", "--out", "run", folder=tmp_path)
        scores = streamgmm("score", "run", "y.npy", "--json", folder=tmp_path).stdout.splitlines()
        usual, strange = (json.loads(line)["log_likelihood"] for line in scores)
        assert strange < usual - 1000

    def test_a_fill_value_does_not_overflow(self, tmp_path: Path) -> None:
        x = RNG.normal(0, 0.001, (3000, 3)).astype(np.float32)
        x[1500, 1] = 9.96921e36
        np.save(tmp_path / "x.npy", x)
        arguments = ["--scale", "standard", "--components", "4", "--out", "run"]
        done = streamgmm("train", "x.npy", *arguments, folder=tmp_path)
        assert "overflow" not in done.stderr + streamgmm("score", "run", "x.npy", folder=tmp_path).stderr

    @quiet
    def test_nothing_but_gaps(self) -> None:
        detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, allow_nan=True))
        with pytest.raises(ValueError, match="none of the 30 rows of X contains a number"):
            detector.fit(np.full((30, 3), np.nan))


def test_very_many_columns_are_named_quickly(tmp_path: Path) -> None:
    names = [f"c{i}" for i in range(20_000)]
    (tmp_path / "x.csv").write_text(",".join(names) + "\n" + ",".join(["1"] * 20_000) + "\n")
    source = open_source(str(tmp_path / "x.csv"))
    source.expect(names[::-1], 20_000)
    began = time.process_time()
    (chunk,) = source.chunks()
    assert chunk.rows.shape == (1, 20_000)
    assert source.feature_names == names[::-1]
    assert time.process_time() - began < 60  # by their square it would take many minutes


def test_a_row_with_too_many_fields_is_bad_also_for_a_known_model(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n3,4,5\n")
    source = open_source(str(tmp_path / "x.csv"), skip_bad=True)
    source.expect(["b", "a"], 2)
    (chunk,) = source.chunks()
    assert chunk.rows.tolist() == [[2, 1]]
    assert [b.row for b in chunk.bad] == [1]
