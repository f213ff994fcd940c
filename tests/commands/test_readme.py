"""Examples of the README and the tutorial, as they stand there."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm.sources.synthetic.glyphs import Glyphs

README = Path(__file__).parents[2] / "README.md"
TUTORIAL = README.parent / "docs" / "tutorial.md"


def commands() -> list[str]:
    text = README.read_text(encoding="utf8").partition("## From a CSV to anomalies")[2]
    found = re.search(r"```sh\n(.*?)```", text, re.S)
    assert found is not None
    return found[1].strip().splitlines()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Temperature, pressure and flow of a machine with two states; some fields are empty, today ten rows are odd."""
    place = tmp_path_factory.mktemp("walk")
    rng = np.random.default_rng(0)

    def write(name: str, count: int, odd: int = 0) -> None:
        state = rng.integers(2, size=(count, 1))
        x = np.array([300.0, 1e5, 2.0]) + np.array([40.0, 2e4, 0.5]) * (state + rng.normal(0, 0.15, (count, 3)))
        x[:odd] += [200.0, -5e4, 0.0]
        rows = [[f"{v:.4g}" if rng.random() > 0.02 else "" for v in row] for row in x]
        with (place / name).open("w", newline="") as file:
            lines = csv.writer(file)
            lines.writerow(["time", "temperature", "pressure", "flow"])
            lines.writerows([f"{i // 60:02}:{i % 60:02}", *row] for i, row in enumerate(rows))

    write("yesterday.csv", 8000)
    write("today.csv", 1000, odd=10)
    return place


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )


def examples(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf8"), re.S)


@pytest.mark.source
def test_examples_of_the_readme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).normal([300.0, 1e5, 2e-3], [40.0, 2e4, 5e-4], (4000, 3))
    for code in examples(README):
        if "DeepStreamingMixture" in code:
            continue
        names = {"stream": np.array_split(x, 10), "x": x}
        exec(code, names)
        fitted = names.get("model") or names["detector"].mixture_
        assert fitted.n_samples_seen_ == 4000
        np.testing.assert_allclose(fitted.weights_ @ fitted.means_, x.mean(0), rtol=0.05)


@pytest.mark.source
def test_the_example_of_layers() -> None:
    [code] = [code for code in examples(README) if "DeepStreamingMixture" in code]
    x, _ = Glyphs(seed=0).take(0, 3000)
    hidden = np.where(np.arange(784) % 28 < 14, x[:3], np.nan)
    names: dict[str, Any] = {"images": np.array_split(x, 10), "x": x[:50], "half_hidden": hidden}
    exec(code, names)
    assert names["model"].n_samples_seen_ == 3000


@pytest.mark.source
def test_examples_of_the_tutorial(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table, *others = examples(TUTORIAL)
    names: dict[str, Any] = {}
    exec(table, names)
    model = names["model"]
    np.testing.assert_allclose(model.weights_ @ model.means_, names["table"].mean(0), rtol=0.01)
    for code in others:
        exec(code, names)
    assert names["model"].n_samples_seen_ == 61_000
    assert names["model"].score(names["x"]) > 200
    assert (tmp_path / "centroids.png").exists()
    alerts = (tmp_path / "watched" / "alerts.ndjson").read_text().splitlines()[1:]
    assert [json.loads(alert)["state"] for alert in alerts] == ["open", "close"]


@pytest.mark.source
def test_no_word_about_scaling_before_the_first_example() -> None:
    for path in (README, TUTORIAL):
        before = path.read_text(encoding="utf8").partition("```python")[0]
        assert not re.search(r"scal|standardis|\[0, 1\]", before, re.I)


@pytest.mark.source
def test_there_are_five() -> None:
    assert len(commands()) == 5


@pytest.mark.source
@pytest.mark.parametrize("number", range(5))
def test_each_command(folder: Path, number: int) -> None:
    done = run(commands()[number], folder)
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
