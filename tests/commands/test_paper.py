"""Tables of the paper: records, resuming, and the command."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamGMMError
from streamgmm.paper import tables
from streamgmm.paper.plan import Plan
from streamgmm.paper.runs import Run, measure_all
from tests.commands.command_line import streamgmm


def count(run: Run) -> dict:
    """Measure a run, and count how often that was done."""
    trace = Path(run.settings["trace"]) / f"{run.seed}.txt"
    trace.write_text(trace.read_text() + "x" if trace.exists() else "x")
    if run.seed == run.settings.get("broken"):
        raise RuntimeError("broken on purpose")
    return {"square": run.seed**2}


@pytest.mark.services
def test_interrupted_tables_resume(tmp_path: Path) -> None:
    records, trace = tmp_path / "records", tmp_path / "trace"
    trace.mkdir()
    settings = {"trace": str(trace)}
    measure_all([Run("d", "m", s, 1, settings) for s in range(2)], count, records, 2, "first")
    runs = [Run("d", "m", s, 1, settings) for s in range(4)]
    (records / runs[1].file).write_text('{"half')
    found = measure_all(runs, count, records, 2, "again")
    assert [found[r.file]["square"] for r in runs] == [0, 1, 4, 9]
    assert [(trace / f"{s}.txt").read_text() for s in range(4)] == ["x", "xx", "x", "x"]
    record = json.loads((records / runs[3].file).read_text())
    assert record["run"]["seed"] == 3
    assert "streamgmm" in record["versions"]


def test_a_failing_run_is_not_recorded(tmp_path: Path) -> None:
    runs = [Run("d", "m", s, 1, {"trace": str(tmp_path), "broken": 1}) for s in range(2)]
    with pytest.raises(RuntimeError, match="broken on purpose"):
        measure_all(runs, count, tmp_path / "records", 1, "failing")
    assert not (tmp_path / "records" / runs[1].file).exists()


def save_isolet(folder: Path, x: np.ndarray, n_train: int) -> None:
    labels = np.ones(len(x), np.uint8)
    parts = {"x_train": x[:n_train], "y_train": labels[:n_train], "x_test": x[n_train:], "y_test": labels[n_train:]}
    np.savez(folder / "isolet.npz", **parts)


@pytest.fixture
def few_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small and easy ISOLET."""
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal(rng.integers(2, size=(700, 1)) - 0.5, 0.4, (700, 12)), -1, 1).astype(np.float32)
    save_isolet(tmp_path, x, 600)
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture
def few_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small and easy MNIST."""
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % 10
    centres = rng.integers(256, size=(10, 28, 28))
    x = np.clip(centres[labels] + rng.normal(0, 20, (2000, 28, 28)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x[:1500], y_train=labels[:1500], x_test=x[1500:], y_test=labels[1500:])
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    return tmp_path


def quick_plan(folder: Path, name: str) -> Plan:
    return Plan([name], 1, 2, folder / "records", quick=True)


@pytest.mark.services
def test_the_rules_table(few_letters: Path) -> None:
    plan = quick_plan(few_letters, "isolet")
    [table] = tables.make("rules", plan)
    assert table.columns[-1] == "batch EM"
    natural, batch = (float(cell.split(" ±")[0]) for cell in table.rows[0][-2:])
    assert abs(natural - batch) < 2  # the same data at the same scale
    records = {p.name: p.stat().st_mtime_ns for p in plan.folder.glob("*.json")}
    assert (
        len(records) == 2 * 3 + 4
    )  # two grids of sEM, with the best settings; SGD with two controls, natural, batch EM
    assert tables.make("rules", plan) == [table]
    assert {p.name: p.stat().st_mtime_ns for p in plan.folder.glob("*.json")} == records


@pytest.mark.parametrize(
    "name",
    [
        "initialisation",
        "drift",
        *(pytest.param(n, marks=pytest.mark.soak) for n in ("clustering", "figures", "layers")),
    ],
)
def test_tables(few_digits: Path, name: str) -> None:
    plan = quick_plan(few_digits, "mnist")
    assert tables.seconds([name], plan) > 0
    made = tables.make(name, plan)
    assert made[0].rows
    assert all(len(row) == len(table.columns) for table in made for row in table.rows)
    assert made[0].markdown() in (plan.folder / f"{name}-mnist.md").read_text(encoding="utf8")
    if name == "figures":
        pictures = {p.name for p in (plan.folder / "pictures").iterdir()}
        assert {"sparse.png", "filters.png", "centroids-mnist.png", "curve-mnist.png", "half-life.png"} <= pictures
        assert {"samples-mnist.png", "outliers.png"} <= pictures
        assert "effect-tol-sgd.png" in pictures
        claims = tables.make("claims", plan)  # from the same records
        assert [table.title.split()[0] for table in claims] == ["Effect"] * 18 + ["Claim:"] * 6
        assert all(len(row) == len(table.columns) for table in claims for row in table.rows)
    if name == "initialisation":
        assert made[0].rows[0][:2] == ["MNIST", "205.5 ± 1.1"]  # published, next to ours


@pytest.mark.soak
def test_differences_and_verdicts(few_digits: Path) -> None:
    [differences, verdicts] = tables.make("differences", quick_plan(few_digits, "mnist"))
    assert {row[1] for row in differences.rows} == {"MNIST"}
    assert all(row[-1] for row in differences.rows)  # a cause, or "unexplained"
    assert {row[2] for row in verdicts.rows} <= {"holds", "holds in part", "does not hold"}
    assert "annealing is essential" in {row[0] for row in verdicts.rows}


def test_a_table_without_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_isolet(tmp_path, np.zeros((20, 5), np.float32), 10)
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    with pytest.raises(StreamGMMError, match="clustering has no table for isolet"):
        tables.make("clustering", quick_plan(tmp_path, "isolet"))


def paper(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streamgmm", "paper", *arguments]


@pytest.mark.services
def test_the_command_prints_tables_as_json_or_markdown(few_letters: Path) -> None:
    command = paper("initialisation", "--quick", "--dataset", "isolet")
    done = subprocess.run([*command, "--json"], cwd=few_letters, capture_output=True, text=True, check=True)
    assert "minutes" in done.stderr
    table = json.loads(done.stdout)["initialisation"][0]
    again = streamgmm("paper", "initialisation", "--quick", "--dataset", "isolet", folder=few_letters)
    assert f"### {table['title']}" in again.stdout
    assert " | ".join(map(str, table["rows"][0])) in again.stdout
    assert (few_letters / "runs" / "paper" / "quick" / "initialisation-isolet.md").exists()


@pytest.mark.services
def test_own_data_get_tables_of_their_own(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(3, size=400)
    rows = 40 * labels[:, None] + rng.normal(0, 4, (400, 4))
    lines = [",".join([*(f"{v:.3f}" for v in row), f"kind {label}"]) for row, label in zip(rows, labels, strict=True)]
    (tmp_path / "plants.csv").write_text("\n".join(["a,b,c,d,kind", *lines]) + "\n")
    command = paper("streaming", "--data", "plants.csv", "--label", "kind", "--components", "4", "--quick", "--json")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "320 training and 80 test samples of 4 features, 3 classes" in done.stderr
    table = json.loads(done.stdout)["streaming"][0]
    [row] = table["rows"]
    assert row[0] == "plants"
    assert "SGD (paper)" not in table["columns"]
    assert float(row[-1].split(" ±")[0]) > 0  # densities of features within [0, 1]
    assert "K = 4" in table["words"]
    assert "best of 3 settings" in table["words"]  # not of 27: the quick form tries three


def test_odd_combinations_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    assert "a.txt does not exist" in refused(tmp_path, "streaming", "--data", "a.txt")
    assert "exclude each other" in refused(tmp_path, "streaming", "--data", "a.csv", "--dataset", "mnist")
    assert "--rule is 'sem'; expected sgd or natural" in refused(tmp_path, "streaming", "--rule", "sem")
    assert "add --data FILE" in refused(tmp_path, "streaming", "--label", "kind")


def _left(group: int) -> list[str]:
    """Return the processes of a group that still run, if ``ps`` is available."""
    if shutil.which("ps") is None:
        return []
    found = subprocess.run(["ps", "-eo", "pgid,stat,args"], capture_output=True, text=True, check=True).stdout
    return [
        line for line in found.splitlines()[1:] if line.split()[0] == str(group) and not line.split()[1].startswith("Z")
    ]


@pytest.mark.soak
def test_a_killed_command_resumes_to_the_same_tables(few_digits: Path) -> None:
    command = paper("streaming", "--quick", "--dataset", "mnist")
    whole = subprocess.run([*command, "--out", "whole"], cwd=few_digits, capture_output=True, text=True, check=True)
    records = few_digits / "cut" / "quick"
    running = subprocess.Popen(
        [*command, "--out", "cut"], cwd=few_digits, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while running.poll() is None and not list(records.glob("mnist-*.json")):
        time.sleep(0.01)
    running.kill()
    running.wait()
    deadline = time.monotonic() + 30
    while _left(running.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not _left(running.pid)  # its processes end with it
    before = {p.name: p.stat().st_mtime_ns for p in records.glob("mnist-*.json")}
    again = subprocess.run([*command, "--out", "cut"], cwd=few_digits, capture_output=True, text=True, check=True)
    assert again.stdout == whole.stdout
    assert (records / "streaming-mnist.md").read_text() == (
        few_digits / "whole" / "quick" / "streaming-mnist.md"
    ).read_text()
    assert {n: (records / n).stat().st_mtime_ns for n in before} == before


def refused(folder: Path, *arguments: str) -> str:
    """Return the message of a command that fails without a traceback."""
    return streamgmm("paper", *arguments, folder=folder, fails=True).words


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    assert "data set 'cifar' is unknown" in refused(tmp_path, "drift", "--dataset", "cifar")


def test_all_missing_data_sets_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    message = refused(tmp_path, "streaming", "--dataset", "svhn", "--dataset", "notmnist")
    assert "svhn.npz was not found" in message
    assert "notmnist.npz was not found" in message
