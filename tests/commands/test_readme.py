"""The walk of the README from a CSV to anomalies: each of its commands, as it stands there."""

from __future__ import annotations

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

README = Path(__file__).parents[2] / "README.md"


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
        assert len(list((folder / "run").glob("*.png"))) == 8
    if number == 4:
        flagged = {line.split(",")[1] for line in done.stdout.splitlines()}
        assert len(flagged & {f"00:{i:02}" for i in range(10)}) >= 9
