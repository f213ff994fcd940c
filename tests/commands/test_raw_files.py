"""`train` on files as people have them: sorted, in any units, with columns of text, large or small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.storage import load_model
from streamgmm.storage.run_folder import EVENTS, MODEL
from tests.commands.command_line import streamgmm

RNG = np.random.default_rng(0)
FORMAT2 = Path(__file__).parent.parent / "data" / "format2"


def write(path: Path, count: int = 600) -> Path:
    """Readings in their own units, sorted by machine, with names and times."""
    machine = np.repeat([0, 1], count // 2)
    x = RNG.normal(machine[:, None], 0.1) * [10, 1e5, 1e-6] + [300, 1e5, 0]
    lines = [
        f"2024-01-01T{i},{a:.3f},m{m},{p:.1f},{c:.9f}" for i, (m, (a, p, c)) in enumerate(zip(machine, x, strict=True))
    ]
    path.write_text("time,celsius,name,pascal,ampere\n" + "\n".join(lines) + "\n")
    return path


def train(*arguments: object, folder: Path) -> dict[str, Any]:
    return json.loads(streamgmm("train", *arguments, "--components", "4", "--json", folder=folder).stdout)


def start(folder: Path) -> dict[str, Any]:
    return json.loads((folder / EVENTS).read_text().splitlines()[0])


class TestColumnsWithoutNumbers:
    def test_they_are_named_once(self, tmp_path: Path) -> None:
        write(tmp_path / "raw.csv")
        done = streamgmm("train", "raw.csv", "--components", "4", "--out", "run", folder=tmp_path)
        line = "'time', 'name' of raw.csv left out: they hold no numbers."
        assert done.words.count(line) == 1
        assert "features: celsius, pascal, ampere" in done.words
        assert start(tmp_path / "run")["left_out"] == ["time", "name"]
        assert len(streamgmm("score", "run", "raw.csv", folder=tmp_path).stdout.splitlines()) == 601
        again = streamgmm("train", "raw.csv", "--out", "run", "--resume", "--json", folder=tmp_path)
        assert line not in again.words
        assert json.loads(again.stdout)["left_out"] == ["time", "name"]

    def test_of_objects(self, tmp_path: Path) -> None:
        values = [
            {"t": f"x{i}", "tags": ["m"], "a": float(a), "b": float(b)} for i, (a, b) in enumerate(RNG.random((99, 2)))
        ]
        (tmp_path / "raw.ndjson").write_text("".join(json.dumps(v) + "\n" for v in values))
        outcome = train("raw.ndjson", "--out", "run", folder=tmp_path)
        assert outcome["left_out"] == ["t", "tags"]
        assert load_model(tmp_path / "run" / MODEL).feature_names == ["a", "b"]

    def test_of_tables(self, tmp_path: Path) -> None:
        pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        import pyarrow.parquet as pq

        columns = {"t": [f"x{i}" for i in range(99)], "a": RNG.random(99), "b": RNG.random(99), "k": ["key"] * 99}
        pq.write_table(pa.table(columns), tmp_path / "raw.parquet")
        assert train("raw.parquet", "--id", "k", "--out", "run", folder=tmp_path)["left_out"] == ["t"]

    def test_the_id_and_chosen_columns_are_not_among_them(self, tmp_path: Path) -> None:
        write(tmp_path / "raw.csv")
        assert train("raw.csv", "--id", "time", "--out", "one", folder=tmp_path)["left_out"] == ["name"]
        assert train("raw.csv", "--columns", "pascal,ampere", "--out", "two", folder=tmp_path)["left_out"] == []

    def test_text_among_numbers_is_a_bad_row(self, tmp_path: Path) -> None:
        lines = write(tmp_path / "raw.csv").read_text().splitlines()
        lines[400] = lines[400].replace("2024-01-01T399,", "2024-01-01T399,broken ")
        (tmp_path / "raw.csv").write_text("\n".join(lines) + "\n")
        done = streamgmm("train", "raw.csv", "--out", "no", folder=tmp_path, fails=True)
        assert "row 399 of raw.csv has 'broken" in done.words
        outcome = train("raw.csv", "--bad-rows", "skip", "--out", "run", folder=tmp_path)
        assert (outcome["bad_rows"], outcome["first_bad"][0]["row"]) == (1, 399)
        assert outcome["left_out"] == ["time", "name"]

    def test_nothing_but_text(self, tmp_path: Path) -> None:
        (tmp_path / "raw.csv").write_text("a,b\nx,y\nz,w\n")
        done = streamgmm("train", "raw.csv", "--out", "run", folder=tmp_path, fails=True)
        assert "raw.csv has no column of numbers; it has a, b." in done.words

    def test_scores_say_so_too(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", RNG.random((300, 3)))
        streamgmm("train", "x.npy", "--components", "2", "--out", "run", folder=tmp_path)
        write(tmp_path / "raw.csv", 20)
        done = streamgmm("score", "run", "raw.csv", "--out", "s.csv", folder=tmp_path)
        assert "left out, without numbers: time, name" in done.words

    @pytest.mark.parametrize("suffix", ["csv", "ndjson", "parquet"])
    def test_scores_name_what_the_model_does_not_know(self, tmp_path: Path, suffix: str) -> None:
        pd = pytest.importorskip("pandas", reason="pandas is not installed")
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        frame = pd.read_csv(write(tmp_path / "raw.csv", 200))
        frame.to_json(tmp_path / "raw.ndjson", orient="records", lines=True)
        frame.to_parquet(tmp_path / "raw.parquet")
        train("raw.csv", "--columns", "pascal,celsius", "--out", "run", folder=tmp_path)
        done = streamgmm("score", "run", f"raw.{suffix}", "--id", "time", "--out", "s.csv", folder=tmp_path)
        assert "left out, not features of the model: name, ampere\n" in done.stderr

    @pytest.mark.parametrize("command", ["score", "impute"])
    def test_a_feature_can_be_the_id_of_rows(self, tmp_path: Path, command: str) -> None:
        (tmp_path / "x.csv").write_text("a,b\n" + "".join(f"{i % 7}.5,{i % 5}.25\n" for i in range(200)))
        train("x.csv", "--out", "run", folder=tmp_path)
        done = streamgmm(command, "run", "x.csv", "--id", "a", folder=tmp_path)
        assert done.stdout.splitlines()[2].startswith("1,1.5," if command == "score" else "1.5,1.25")

    def test_row_numbers_of_pandas_are_not_learned(self, tmp_path: Path) -> None:
        lines = write(tmp_path / "raw.csv").read_text().splitlines()
        numbered = [f"{i if i >= 0 else ''},{line}" for i, line in enumerate(lines, -1)]
        (tmp_path / "indexed.csv").write_text("\n".join(numbered) + "\n")
        done = streamgmm("train", "indexed.csv", "--components", "4", "--out", "run", folder=tmp_path)
        told = "the first column of indexed.csv has no name: it is left out, as row numbers that pandas wrote."
        assert done.words.count(f"{told} Keep it as the id of rows with --id ''.") == 1
        assert "features: celsius, pascal, ampere" in done.words
        scored = streamgmm("score", "run", "indexed.csv", "--id", "", folder=tmp_path)
        assert scored.stdout.splitlines()[1].startswith("0,0,")


class TestOrder:
    def test_it_is_said(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", RNG.random((300, 3)))
        small = ("--components", "2", "--passes", "1")
        words = streamgmm("train", "x.npy", *small, "--out", "a", folder=tmp_path).words
        assert "rows are learned in random order, through a buffer of up to 256 MB" in words
        assert "--shuffle no keeps their order" in words
        words = streamgmm("train", "x.npy", *small, "--half-life", "100", "--out", "b", folder=tmp_path).words
        assert "rows are learned in the order of the source: past rows are forgotten by a half-life" in words
        assert json.loads(
            streamgmm("train", "x.npy", *small, "--shuffle", "no", "--json", "--out", "c", folder=tmp_path).stdout
        )["shuffled"] is False  # fmt: skip

    def test_what_cannot_be_shuffled_is_refused(self, tmp_path: Path) -> None:
        np.savetxt(tmp_path / "x.csv.gz", RNG.random((300, 3)), delimiter=",")
        done = streamgmm("train", "x.csv.gz", "--shuffle", "yes", "--out", "run", folder=tmp_path, fails=True)
        assert "rows of x.csv.gz cannot be shuffled" in done.words
        assert "--shuffle no" in done.words
        assert (
            "can only be read from its start" in streamgmm("train", "x.csv.gz", "--out", "run", folder=tmp_path).words
        )

    def test_it_is_kept_when_a_run_is_resumed(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", RNG.random((9000, 3)))
        small = ("train", "x.npy", "--components", "2", "--out", "run")
        streamgmm(*small, "--shuffle", "no", "--samples", "1000", folder=tmp_path)
        done = streamgmm(*small, "--resume", "--shuffle", "yes", folder=tmp_path, fails=True)
        assert "this run was started with --shuffle no" in done.words
        resumed = streamgmm(*small, "--resume", folder=tmp_path)
        assert "rows are learned in the order of the source: as before" in resumed.words


class TestPasses:
    def test_they_are_kept_when_a_run_is_resumed(self, tmp_path: Path) -> None:
        np.save(tmp_path / "x.npy", RNG.random((6000, 3)))
        assert train("x.npy", "--out", "run", "--passes", "3", "--samples", "1000", folder=tmp_path)["samples"] < 6000
        assert train("x.npy", "--out", "run", "--resume", folder=tmp_path)["samples"] == 18_000

    def test_a_small_file_is_learned_well(self, tmp_path: Path) -> None:
        """Raw units, sorted, 600 rows: both machines are found, and the model is refined."""
        write(tmp_path / "raw.csv")
        outcome = train("raw.csv", "--out", "run", folder=tmp_path)
        assert outcome["refined"]
        assert outcome["passes"] == 14
        mixture = load_model(tmp_path / "run" / MODEL).trainer.mixture
        heavy = mixture.means[mixture.weights > 0.1]
        assert {round(float(v), -1) for v in heavy[:, 0]} == {300.0, 310.0}

    @pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
    def test_mistakes(self, tmp_path: Path, text: str) -> None:
        assert streamgmm("train", "x.npy", "--out", "run", f"--passes={text}", folder=tmp_path, fails=True).code == 2


class TestScale:
    def test_auto_is_the_default(self, tmp_path: Path) -> None:
        write(tmp_path / "raw.csv")
        assert train("raw.csv", "--out", "run", folder=tmp_path)["scale"] == "auto"
        assert train("raw.csv", "--out", "none", "--scale", "none", folder=tmp_path)["scale"] == "none"

    @pytest.mark.parametrize("rule", ["sgd", "natural", "sem"])
    def test_every_rule_learns_raw_data(self, rule: str, tmp_path: Path) -> None:
        rows = np.array([1e-3, 1.0, 1e5]) * RNG.normal(5, 1, (3000, 3))
        np.save(tmp_path / "x.npy", rows)
        assert train("x.npy", "--rule", rule, "--out", "run", folder=tmp_path)["scale"] == "auto"
        mixture = load_model(tmp_path / "run" / MODEL).trainer.mixture
        mean = mixture.weights @ mixture.means
        variance = mixture.weights @ (mixture.covariances + (mixture.means - mean) ** 2)
        np.testing.assert_allclose(mean, rows.mean(0), rtol=0.02)
        np.testing.assert_allclose(variance, rows.var(0), rtol=0.15)

    def test_a_scaled_run_of_before_answers_in_the_units_of_the_rows(self, tmp_path: Path) -> None:
        saved = load_model(FORMAT2 / "run-scaled.safetensors")
        assert saved.scaling is not None
        rows = np.loadtxt(FORMAT2 / "raw.csv", delimiter=",", skiprows=1)
        rows = rows[~np.isnan(rows).any(1)]
        np.save(tmp_path / "x.npy", rows)
        done = streamgmm("score", FORMAT2 / "run-scaled.safetensors", "x.npy", "--json", folder=tmp_path)
        scaled = saved.scaling.apply(rows, saved.trainer.dtype)
        expected = saved.trainer.mixture.log_prob(scaled) + np.log(saved.scaling.factor).sum()
        found = [json.loads(line)["log_likelihood"] for line in done.stdout.splitlines()]
        np.testing.assert_allclose(found, expected, rtol=1e-5)
