"""What a new user meets: files of spreadsheets, columns that count rows, few rows, runs with nothing left to read."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamgmm.storage import load_model
from tests.commands.command_line import COMMAND, streamgmm

FEW = ["--components", "2"]


def rows(count: int) -> np.ndarray:
    return np.random.default_rng(0).normal([10.0, 1000.0], [1.0, 50.0], (count, 2)).round(3)


def write(path: Path, count: int, heading: str = "at,a,b,note") -> Path:
    lines = [heading, *(f"{i},{a},{b},fine" for i, (a, b) in enumerate(rows(count)))]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("steps")
    write(place / "x.csv", 600)
    streamgmm("train", "x.csv", "--id", "at", *FEW, "--out", "run", folder=place)
    return place


def test_a_file_with_semicolons_and_decimal_commas_gives_the_same_model(folder: Path) -> None:
    text = (folder / "x.csv").read_text().replace(",", ";").replace(".", ",")
    (folder / "euro.csv").write_text(text)
    done = streamgmm("train", "euro.csv", "--id", "at", *FEW, "--out", "euro", folder=folder)
    assert "commas in numbers of euro.csv are read as decimal points" in done.words
    means = [load_model(folder / run / "model.safetensors").mixture.means for run in ("run", "euro")]
    np.testing.assert_array_equal(*means)
    plain, euro = (streamgmm("score", "run", f, "--id", "at", folder=folder) for f in ("x.csv", "euro.csv"))
    assert plain.stdout == euro.stdout


def test_a_column_that_grows_is_named(folder: Path) -> None:
    for more in ([], ["--shuffle", "no"]):
        done = streamgmm("train", "x.csv", *FEW, "--out", f"counted{len(more)}", *more, folder=folder)
        assert "'at' of x.csv grows from row to row. If it is a row number or a time" in done.words
        assert "with --id" in done.words
    named = streamgmm("train", "x.csv", "--id", "at", *FEW, "--out", "named", folder=folder)
    assert "grows" not in named.words


def test_names_with_commas_can_be_chosen(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", 200, 'at,"a, inside",b,note')
    (tmp_path / "run.toml").write_text('columns = ["b", "a, inside"]\n')
    for name, choice in (("typed", ["--columns", 'b, "a, inside"']), ("listed", ["--config", "run.toml"])):
        streamgmm("train", "x.csv", *choice, *FEW, "--out", name, folder=tmp_path)
        assert load_model(tmp_path / name / "model.safetensors").feature_names == ["b", "a, inside"]


def test_a_folder_without_tables_or_images_is_told(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    for more in ([], ["--id", "at"]):
        done = streamgmm("train", "folder", *more, "--out", "run", folder=tmp_path, fails=True)
        assert "folder contains no tables or images; expected files ending in .parquet, .csv" in done.words


def test_few_rows_are_told(tmp_path: Path) -> None:
    write(tmp_path / "x.csv", 3)
    done = streamgmm("train", "x.csv", "--id", "at", "--components", "4", "--out", "run", folder=tmp_path)
    assert "only 3 rows for 4 components" in done.words
    scored = streamgmm("score", "run", "x.csv", "--id", "at", folder=tmp_path)
    assert "no p-values and no anomalies: the model has seen too few rows" in scored.words


def test_words_for_missing_values_have_their_remedy(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\nNA,3\n")
    done = streamgmm("train", "x.csv", "--out", "run", folder=tmp_path, fails=True)
    assert "row 1 of x.csv has no number in column a. Learn from the other features with --missing learn." in done.words


@pytest.mark.parametrize("command", ["train", "watch"])
def test_a_source_without_new_rows_is_told(folder: Path, command: str) -> None:
    more = ["--no-follow"] if command == "watch" else []
    streamgmm("train", "x.csv", "--id", "at", *FEW, "--out", command, folder=folder)
    done = streamgmm(command, "x.csv", "--id", "at", "--out", command, "--resume", *more, folder=folder)
    assert "this run had already" in done.words
    assert "annealing" not in done.words


def test_imputation_of_a_complete_file_changes_nothing(folder: Path) -> None:
    done = streamgmm("impute", "run", "x.csv", "--id", "at", "--out", "full.csv", folder=folder)
    assert "left out" not in done.words
    assert (folder / "full.csv").read_text() == (folder / "x.csv").read_text()


def test_samples_are_printed_or_drawn_as_a_table(folder: Path) -> None:
    done = streamgmm("sample", "run", "-n", "3", folder=folder)
    assert done.stdout.startswith("a,b,component\n")
    assert len(done.stdout.splitlines()) == 4
    streamgmm("sample", "run", "-n", "3", "--out", "table.png", folder=folder)
    streamgmm("sample", "run", "-n", "3", "--shape", "lines", "--out", "lines.png", folder=folder)
    assert (folder / "table.png").read_bytes() != (folder / "lines.png").read_bytes()


def test_components_of_a_refined_model_are_live(folder: Path) -> None:
    trainer = load_model(folder / "run" / "model.safetensors").trainer
    assert trainer.live == 2
    np.testing.assert_allclose(trainer.usage, trainer.mixture.weights)


def test_closed_standard_output(folder: Path) -> None:
    words = [*COMMAND, "score", "run", "x.csv", "--id", "at"]
    code = (
        f"import os, subprocess; os.close(1); raise SystemExit(subprocess.run({words!r}, close_fds=False).returncode)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "left out, not features of the model: note\n")


def test_an_interrupted_command_says_so(folder: Path) -> None:
    with subprocess.Popen(
        [*COMMAND, "score", "run", "-", "--id", "at", "--out", "scores.csv"],
        cwd=folder, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        process.stdin.write((folder / "x.csv").read_text())
        process.stdin.flush()
        until = time.monotonic() + 60
        while not list(folder.glob("*scores.csv*")) and time.monotonic() < until:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert errors == "streamgmm: interrupted\n"
    assert not (folder / "scores.csv").exists()
