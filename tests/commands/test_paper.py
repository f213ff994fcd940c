from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from streamgmm.paper.runs import Run, measure_all


def count(run: Run) -> dict:
    """A measurement that leaves a trace of having been made."""
    trace = Path(run.settings["trace"]) / f"{run.seed}.txt"
    trace.write_text(trace.read_text() + "x" if trace.exists() else "x")
    if run.seed == run.settings.get("broken"):
        raise RuntimeError("broken on purpose")
    return {"square": run.seed**2}


def test_interrupted_tables_go_on(tmp_path: Path) -> None:
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


def test_the_rules_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = np.clip(rng.normal(rng.integers(2, size=(700, 1)) - 0.5, 0.4, (700, 12)), -1, 1).astype(np.float32)
    labels = np.ones(700, np.uint8)
    np.savez(tmp_path / "isolet.npz", x_train=x[:600], y_train=labels[:600], x_test=x[600:], y_test=labels[600:])
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    command = [sys.executable, "-m", "streamgmm.cli", "paper", "rules", "--quick", "--dataset", "isolet"]
    done = subprocess.run([*command, "--json"], cwd=tmp_path, capture_output=True, text=True, check=True)
    table = json.loads(done.stdout)["rules"][0]
    assert table["columns"][-1] == "batch EM"
    natural, batch = (float(cell.split(" ±")[0]) for cell in table["rows"][0][-2:])
    assert abs(natural - batch) < 2  # the same data at the same scale
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert table["rows"][0][-1] in again.stdout
    records = list((tmp_path / "runs" / "paper" / "quick").glob("*.json"))
    assert len(records) == 3 + 3  # the grid of sEM, its best among them; SGD, natural, batch EM


@pytest.fixture
def few_digits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder whose MNIST is small and easy."""
    rng = np.random.default_rng(0)
    labels = np.arange(2000) % 10
    centres = rng.integers(256, size=(10, 28, 28))
    x = np.clip(centres[labels] + rng.normal(0, 20, (2000, 28, 28)), 0, 255).astype(np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x[:1500], y_train=labels[:1500], x_test=x[1500:], y_test=labels[1500:])
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    return tmp_path


def paper(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streamgmm.cli", "paper", *arguments, "--quick", "--dataset", "mnist"]


@pytest.mark.parametrize("table", ["initialisation", "clustering", "drift", "figures"])
def test_tables(few_digits: Path, table: str) -> None:
    done = subprocess.run([*paper(table), "--json"], cwd=few_digits, capture_output=True, text=True, check=True)
    assert "minutes" in done.stderr
    made = json.loads(done.stdout)[table]
    assert made[0]["rows"]
    written = (few_digits / "runs" / "paper" / "quick" / f"{table}-mnist.md").read_text(encoding="utf8")
    assert made[0]["title"] in written
    if table == "figures":
        pictures = few_digits / "runs" / "paper" / "quick" / "pictures"
        assert {"sparse.png", "filters.png", "centroids-mnist.png"} <= {p.name for p in pictures.iterdir()}
    if table == "initialisation":
        row = made[0]["rows"][0]
        assert row[0] == "MNIST"
        assert row[1] == "205.5 ± 1.1"  # published, beside ours
        assert len(row) == len(made[0]["columns"])


def _left(group: int) -> list[str]:
    """Processes of a group that are still there, where one can ask."""
    if shutil.which("ps") is None:
        return []
    found = subprocess.run(["ps", "-eo", "pgid,stat,args"], capture_output=True, text=True, check=True).stdout
    return [
        line for line in found.splitlines()[1:] if line.split()[0] == str(group) and not line.split()[1].startswith("Z")
    ]


def test_a_killed_run_gives_the_same_tables(few_digits: Path) -> None:
    command = paper("streaming")
    whole = subprocess.run([*command, "--out", "whole"], cwd=few_digits, capture_output=True, text=True, check=True)
    records = few_digits / "cut" / "quick"
    running = subprocess.Popen(
        [*command, "--out", "cut"], cwd=few_digits, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while running.poll() is None and not list(records.glob("mnist-*.json")):
        pass
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


def test_an_unknown_data_set_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "streamgmm.cli", "paper", "drift", "--dataset", "cifar"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "data set 'cifar' is unknown" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_table_without_anything_to_say_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.zeros((20, 5), np.float32)
    np.savez(tmp_path / "isolet.npz", x_train=x, y_train=np.ones(20), x_test=x, y_test=np.ones(20))
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    command = [sys.executable, "-m", "streamgmm.cli", "paper", "clustering", "--quick", "--dataset", "isolet"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "clustering has nothing to say about isolet" in " ".join(done.stderr.split())


def test_all_missing_data_are_named_beforehand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    command = [
        sys.executable,
        "-m",
        "streamgmm.cli",
        "paper",
        "streaming",
        "--dataset",
        "svhn",
        "--dataset",
        "notmnist",
    ]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "svhn.npz was not found" in " ".join(done.stderr.split())
    assert "notmnist.npz was not found" in " ".join(done.stderr.split())
