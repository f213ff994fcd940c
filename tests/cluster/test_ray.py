"""A real Ray cluster of three nodes, which all tests of this module share."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from streamgmm import RayEngine, StreamingGaussianMixture
from streamgmm.cluster import rounds
from streamgmm.engines.ray import RayWorkers
from streamgmm.engines.workers import LocalCluster
from streamgmm.runs import cluster_run
from streamgmm.runs.cluster_run import FIRST_ROWS, ClusterRun
from streamgmm.runs.cluster_score import ScoreJob, score_parts
from streamgmm.sources import open_source
from streamgmm.storage import load_model
from tests.cluster.runs import assert_same_model, go, start, write_rows

pytestmark = [
    pytest.mark.services,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

N, ROUND, WORKERS = 400_000, 4000, 3


def _patiently(start: Callable[[], Any]) -> Any:
    """Start a node; Ray gives it 30 seconds, which is not enough on a machine that has much else to do."""
    for _ in range(4):
        with suppress(Exception):
            return start()
    return start()


class Machines:
    """A cluster whose nodes are processes of this machine."""

    def __init__(self) -> None:
        os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64, "RAY_USAGE_STATS_ENABLED": "0"}
        self.ray: Any = pytest.importorskip("ray", reason="ray is not installed")
        from ray.cluster_utils import Cluster

        small = {"object_store_memory": 200 << 20}
        head = {"num_cpus": 2, "include_dashboard": False, **small}
        self._cluster = _patiently(lambda: Cluster(initialize_head=True, head_node_args=head, connect=False))
        self._small = small
        self._nodes: list[Any] = []
        self.refill()
        self.address = str(self._cluster.address)
        self.ray.init(address=self.address, log_to_driver=False, logging_level="error")

    def refill(self) -> None:
        """Bring the number of nodes beside the head back to two."""
        while len(self._nodes) < 2:
            self._nodes.append(_patiently(lambda: self._cluster.add_node(num_cpus=2, **self._small)))

    def kill_node(self) -> None:
        """Kill a node and everything on it."""
        self._cluster.remove_node(self._nodes.pop(), allow_graceful=False)

    def close(self) -> None:
        self.ray.shutdown()
        self._cluster.shutdown()


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    found = Machines()
    yield found
    found.close()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("rows") / "x.npy", N)


@pytest.fixture(scope="module")
def undisturbed(rows: Path, tmp_path_factory: pytest.TempPathFactory) -> ClusterRun:
    """The same run, with workers that are simulated."""
    return go(start(tmp_path_factory.mktemp("run"), rows, LocalCluster(WORKERS, ROUND), n_components=64))


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[RayWorkers]:
    """Receives the workers of runs when they are ready."""
    found: list[RayWorkers] = []
    begin = RayWorkers.__init__

    def note(self: RayWorkers, *arguments: Any, **settings: Any) -> None:
        begin(self, *arguments, **settings)
        found.append(self)

    monkeypatch.setattr(RayWorkers, "__init__", note)
    return found


@pytest.fixture
def learned(monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Receives the numbers of all rows that workers have learned."""
    found: list[np.ndarray] = []

    def note(*arguments: Any, **settings: Any) -> rounds.RoundReport:
        report = learn_round(*arguments, **settings)
        found.extend(outcome.numbers for outcome in report.outcomes)
        return report

    learn_round = rounds.learn_round
    monkeypatch.setattr(rounds, "SAMPLED", 1 << 40)  # all rows come back
    monkeypatch.setattr(cluster_run, "learn_round", note)
    return found


def assert_learned_once(learned: list[np.ndarray], run: ClusterRun) -> None:
    """Every row was learned exactly once: the first ones by the driver, all others by a worker."""
    times = np.bincount(np.concatenate(learned), minlength=N)
    assert run.progress.samples == N
    assert times.max() == 1
    assert N - times.sum() == FIRST_ROWS


def disturb(opened: list[RayWorkers], harm: Callable[[], None], seconds: float) -> threading.Thread:
    """Do harm some time after the workers of a run are ready."""

    def wait_and_harm() -> None:
        while not opened:
            time.sleep(0.01)
        time.sleep(seconds)
        harm()

    thread = threading.Thread(target=wait_and_harm, daemon=True)
    thread.start()
    return thread


def moments(count: int) -> list[Any]:
    """Moments at which to do harm: two in CI, all in a soak."""
    rng = np.random.default_rng(1)
    every = [float(s) for s in rng.uniform(0.1, 2.5, count)]
    return [*every[:2], *(pytest.param(s, marks=pytest.mark.soak) for s in every[2:])]


def test_ray_gives_the_bits_of_a_simulation(
    machines: Machines, rows: Path, undisturbed: ClusterRun, tmp_path: Path
) -> None:
    run = go(start(tmp_path / "run", rows, RayEngine(WORKERS, round_samples=ROUND), n_components=64))
    assert run.progress.samples == N
    assert run.replaced == 0
    assert_same_model(run, undisturbed)


KINDS: dict[str, dict[str, Any]] = {
    "low rank": {"covariance_type": "low_rank", "rank": 3},
    "full": {"covariance_type": "full"},
    "sgd": {"rule": "sgd", "scale": "none"},
    "sem": {"rule": "sem", "scale": "none"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_other_covariances_and_rules(machines: Machines, tmp_path: Path, kind: str) -> None:
    rows = write_rows(tmp_path / "x.npy", 30_000)
    engines = [RayEngine(WORKERS, round_samples=1000), LocalCluster(WORKERS, 1000), LocalCluster(WORKERS, 1000, True)]
    ray, turns, threads = (go(start(tmp_path / str(i), rows, e, **KINDS[kind])) for i, e in enumerate(engines))
    assert ray.progress.samples == 30_000
    assert_same_model(ray, turns)
    assert_same_model(ray, threads)


@pytest.mark.parametrize("seconds", moments(10))
def test_a_worker_is_killed(
    machines: Machines,
    rows: Path,
    undisturbed: ClusterRun,
    tmp_path: Path,
    opened: list[RayWorkers],
    learned: list[np.ndarray],
    seconds: float,
) -> None:
    victim = int(seconds * 1000) % WORKERS
    thread = disturb(opened, lambda: os.kill(opened[0].pids[victim], signal.SIGKILL), seconds)
    run = go(start(tmp_path / "run", rows, RayEngine(WORKERS, round_samples=ROUND), n_components=64))
    thread.join()
    assert run.replaced == 1
    assert_learned_once(learned, run)
    assert_same_model(run, undisturbed)


@pytest.mark.parametrize("seconds", moments(10))
def test_a_node_is_killed(
    machines: Machines,
    rows: Path,
    undisturbed: ClusterRun,
    tmp_path: Path,
    opened: list[RayWorkers],
    learned: list[np.ndarray],
    seconds: float,
) -> None:
    machines.refill()
    thread = disturb(opened, machines.kill_node, seconds)
    run = go(start(tmp_path / "run", rows, RayEngine(WORKERS, round_samples=ROUND), n_components=64))
    thread.join()
    assert_learned_once(learned, run)
    assert_same_model(run, undisturbed)


def test_a_worker_that_hangs_is_replaced(
    machines: Machines, rows: Path, undisturbed: ClusterRun, tmp_path: Path, opened: list[RayWorkers]
) -> None:
    machines.refill()
    thread = disturb(opened, lambda: os.kill(opened[0].pids[1], signal.SIGSTOP), 0.3)
    engine = RayEngine(WORKERS, round_samples=ROUND, timeout=3.0)
    run = go(start(tmp_path / "run", rows, engine, n_components=64))
    thread.join()
    assert run.replaced >= 1
    assert_same_model(run, undisturbed)


def test_what_a_worker_complains_about_reaches_the_user(machines: Machines, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("a,b\n" + "".join("oops,1\n" if i == 90_000 else f"{i % 7},{i % 5}\n" for i in range(99_000)))
    with pytest.raises(ValueError, match=r"row 90000 of x\.csv"):
        go(start(tmp_path / "run", path, RayEngine(2), shuffle="no"))


def train(folder: Path, rows: Path, machines: Machines, *more: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "streamgmm", "train", str(rows), "--quiet", "--out", str(folder)]
    command += ["--engine", "ray", "--workers", str(WORKERS), "--round", str(ROUND), "--address", machines.address]
    command += ["--components", "64", "--passes", "1", "--checkpoint-every", "20000", *more]
    return subprocess.Popen(command, start_new_session=True)


@pytest.mark.parametrize("kills", [1, pytest.param(5, marks=pytest.mark.soak)])
def test_the_driver_is_killed(
    machines: Machines, rows: Path, undisturbed: ClusterRun, tmp_path: Path, kills: int
) -> None:
    folder, rng = tmp_path / "run", np.random.default_rng(2)
    machines.refill()
    for _ in range(kills):
        driver = train(folder, rows, machines, *(["--resume"] if folder.exists() else []))
        while not (folder / "model.safetensors").exists() and driver.poll() is None:
            time.sleep(0.05)
        time.sleep(rng.uniform(0.1, 1.0))
        os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()
    assert train(folder, rows, machines, "--resume").wait(timeout=120) == 0
    found = load_model(folder / "model.safetensors").trainer.tensors()
    assert undisturbed.trainer is not None
    for name, value in undisturbed.trainer.tensors().items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_scores_are_those_of_one_machine(
    machines: Machines, rows: Path, undisturbed: ClusterRun, tmp_path: Path
) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    model = undisturbed.folder / "model.safetensors"
    job = ScoreJob(model.read_bytes(), partial(open_source, str(rows)), tmp_path / "scores", 0.01)
    found = list(score_parts(job, RayEngine(2)))
    assert sum(part["rows"] for part in found) == N
    table = pq.read_table(sorted(job.out.glob("*.parquet")))
    expected = load_model(model).trainer.mixture.scores(np.load(rows)).log_likelihood
    np.testing.assert_array_equal(table["log_likelihood"], expected)


def test_an_estimator_on_ray(machines: Machines) -> None:
    x = np.random.default_rng(0).normal([[[0.0]], [[4.0]]], 0.5, (2, 5000, 3)).reshape(-1, 3)
    engines = [RayEngine(2, round_samples=500), LocalCluster(2, 500)]
    here, there = (StreamingGaussianMixture(4, engine=e, random_state=0, n_epochs=1).fit(x) for e in engines)
    np.testing.assert_array_equal(here.means_, there.means_)
