"""Every block of code on a page: Python runs, commands parse, and those of the first page run, too."""

from __future__ import annotations

import csv
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.main import get_command

from streamgmm.cli.app import app
from tests.commands.command_line import streamgmm
from tests.docs.pages import DOCS, ROOT, blocks, pages

pytestmark = pytest.mark.source
ELSEWHERE = ("import mlflow", "TaskContext.get()")  # need MLflow, or a Spark cluster
RECIPE = "ProcessPoolExecutor"  # starts processes that import it; tests/cluster/test_recipe.py runs it as a script
LANGUAGES = {"python", "sh", "text", "toml", "json", "", "{eval-rst}", "{toctree}", "{include}"}


def python_of(path: Path) -> list[str]:
    skipped = (*ELSEWHERE, RECIPE)
    return [code for code in blocks(path, "python") if not any(mark in code for mark in skipped)]


def command_lines(path: Path) -> list[str]:
    """Lines that call us, without what stands before a pipe, in comments or in redirections."""
    found = []
    for line in "".join(blocks(path, "sh")).splitlines():
        for part in line.partition(" #")[0].split(" | "):
            if part.strip().startswith("streamgmm "):
                found.append(part.strip())
    return found


def learn_plain_run() -> None:
    """What deploy.md supposes to be there: the folder of a run."""
    np.savetxt("x.csv", np.random.default_rng(0).normal(0, 1, (1000, 2)), delimiter=",")
    streamgmm("train", "x.csv", "--components", "2", "--out", "run")


def names_of_readme() -> dict[str, Any]:
    x = np.random.default_rng(0).normal([300.0, 1e5, 2e-3], [40.0, 2e4, 5e-4], (4000, 3))
    return {"stream": np.array_split(x, 10), "x": x}


def check_readme(names: dict[str, Any]) -> None:
    model, x = names["model"], names["x"]
    assert model.n_samples_seen_ == 4000
    np.testing.assert_allclose(model.weights_ @ model.means_, x.mean(0), rtol=0.05)


def check_start(names: dict[str, Any]) -> None:
    assert names["model"].n_samples_seen_ == 31_000
    assert names["model"].score(names["x"]) > 200
    assert Path("centroids.png").exists()


def check_clusters(names: dict[str, Any]) -> None:
    assert names["best"] == 3
    found = names["model"].means_[names["model"].means_[:, 0].argsort()]
    np.testing.assert_allclose(found, names["centres"], rtol=0.05)


def check_density(names: dict[str, Any]) -> None:
    assert names["pair"].score(names["x"]) > names["model"].score(names["x"])
    assert names["pair"].impute(names["asked"])[0, 1] == pytest.approx(50, abs=0.3)
    np.testing.assert_allclose(np.quantile(names["drawn"], [0.05, 0.95]), [49.2, 50.8], atol=0.3)


def check_anomalies(names: dict[str, Any]) -> None:
    assert names["detector"].explain([[300.0, 1e5, 9.0]])[0][0].feature == 2
    alerts = Path("watched/alerts.ndjson").read_text().splitlines()[1:]
    assert [json.loads(alert)["state"] for alert in alerts] == ["open", "close"]


def check_drift(names: dict[str, Any]) -> None:
    assert names["model"].score(names["after"]) > names["model"].score(names["before"]) + 1


def check_missing(names: dict[str, Any]) -> None:
    model, x = names["model"], names["x"]
    assert model.n_rows_skipped_ > 0
    known = np.isfinite(x[:, 0]) & np.isnan(x[:, 1])
    np.testing.assert_allclose(model.impute(x)[known, 1], 2 * x[known, 0], atol=1.5)


def check_images(names: dict[str, Any]) -> None:
    assert np.isfinite(names["filled"]).all()
    assert names["new"].shape == (16, 784)
    assert [type(layer).__name__ for layer in names["stack"].layers[:2]] == ["Fold", "StreamingGaussianMixture"]


def check_training(names: dict[str, Any]) -> None:
    assert names["model"].n_samples_seen_ == 31_000
    assert names["model"].sigma_ < 0.3


def check_plots(names: dict[str, Any]) -> None:
    assert Path("centroids.png").exists()


def check_streams(names: dict[str, Any]) -> None:
    assert names["chunk"].rows.shape[1] == 784


def check_deploy(names: dict[str, Any]) -> None:
    assert Path("detector.onnx").stat().st_size > 500


CHECKS: dict[str, Callable[[dict[str, Any]], None]] = {
    "README.md": check_readme,
    "start.md": check_start,
    "guide/clusters.md": check_clusters,
    "guide/density.md": check_density,
    "guide/anomalies.md": check_anomalies,
    "guide/drift.md": check_drift,
    "guide/missing.md": check_missing,
    "guide/images.md": check_images,
    "guide/training.md": check_training,
    "guide/plots.md": check_plots,
    "guide/streams.md": check_streams,
    "guide/deploy.md": check_deploy,
}


def page_of(name: str) -> Path:
    return (ROOT if name == "README.md" else DOCS) / name


@pytest.mark.parametrize("name", CHECKS)
def test_python_on_a_page_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of a page run one after the other, as a reader would run them, and lead to what the page says."""
    monkeypatch.chdir(tmp_path)
    names = names_of_readme() if name == "README.md" else {}
    if name == "guide/deploy.md":
        pytest.importorskip("onnx", reason="onnx is not installed")
        learn_plain_run()
    for code in python_of(page_of(name)):
        exec(compile(code, name, "exec"), names)
    CHECKS[name](names)


def test_no_page_with_python_is_left_out() -> None:
    found = [path for path in pages() if python_of(path)]
    assert sorted(found) == sorted(page_of(name) for name in CHECKS)


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.stem)
def test_what_cannot_run_here_compiles(path: Path) -> None:
    for code in blocks(path, "python"):
        compile(code, path.name, "exec")
    for text in blocks(path, "toml"):
        tomllib.loads(text)
    marks = re.findall(r"^```(\S*).*?^```\s*$", path.read_text(encoding="utf8"), re.S | re.M)
    assert set(marks) <= LANGUAGES


def test_every_command_parses(tmp_path: Path) -> None:
    """Options and values of every command on every page are ones that we have."""
    config = tmp_path / "run.toml"
    config.write_text('source = "kafka://broker:9092/sensors"\n')
    lines = [line for path in pages() for line in command_lines(path)]
    assert len(lines) >= 30
    for line in lines:
        name, *arguments = shlex.split(line.replace("run.toml", str(config)))[1:]
        command = get_command(app).commands[name]
        if "--help" not in arguments:
            command.make_context(name, arguments)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The two files that the first page writes."""
    place = tmp_path_factory.mktemp("walk")
    code = blocks(DOCS / "start.md", "python")[0]
    subprocess.run([sys.executable, "-c", code], cwd=place, check=True)
    return place


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )


COMMANDS = "".join(blocks(DOCS / "start.md", "sh")).strip().splitlines()


def test_there_are_six() -> None:
    assert len(COMMANDS) == 6


@pytest.mark.parametrize("number", range(6))
def test_each_command_of_the_first_page(folder: Path, number: int) -> None:
    done = run(COMMANDS[number], folder)
    assert done.returncode == 0, done.stderr
    if number == 1:
        assert "24,000 samples learned" in " ".join(done.stderr.split())
    if number == 2:
        with (folder / "scores.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert len(rows) == 1000
        assert sum(row["anomaly"] == "True" for row in rows[10:]) < 40
    if number == 3:
        assert len(list((folder / "run").glob("*.png"))) == 9
    if number == 4:
        flagged = {line.split(",")[1] for line in done.stdout.splitlines()}
        assert len(flagged & {f"00:{i:02}" for i in range(10)}) >= 9
    if number == 5:
        first = json.loads(done.stdout.splitlines()[0])
        assert (first["state"], first["row_id"]) == ("open", "00:00")
        assert first["explain"][0]["feature"] in ("temperature", "pressure")


def test_three_lines_of_the_readme(folder: Path, tmp_path: Path) -> None:
    for name in ("yesterday.csv", "today.csv"):
        (tmp_path / name).symlink_to(folder / name)
    lines = blocks(ROOT / "README.md", "sh")[1].strip().splitlines()
    assert len(lines) == 3
    for line in (*lines[:2], lines[2] + " --no-follow"):
        done = run(line, tmp_path)
        assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[0])["state"] == "open"


def test_no_word_about_scaling_before_the_first_example() -> None:
    for path in (ROOT / "README.md", DOCS / "start.md"):
        before = path.read_text(encoding="utf8").partition("```python")[0]
        assert not re.search(r"scal|standardis|\[0, 1\]", before, re.I)
