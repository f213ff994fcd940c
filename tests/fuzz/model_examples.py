"""Model files of all rules, covariance kinds, engines and stages of a training, and checkpoints of runs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from streamgmm import Natural, StochasticEM, StreamingAnomalyDetector, StreamingGaussianMixture

OLD = Path(__file__).parents[1] / "data" / "format2"
TABLE = "x.csv"


@cache
def rows() -> np.ndarray:
    """Return what examples have learned."""
    return np.random.default_rng(0).normal(0.5, 0.2, (700, 3))


@cache
def table() -> str:
    """Return the table that runs have read: ids, features, a constant column, and strange rows at the end."""
    x = np.vstack([rows(), rows() + 9.0]).round(4)
    lines = (f"n{i},{','.join(map(str, row))},7" for i, row in enumerate(x.tolist()))
    return "\n".join(["id,a,b,c,d", *lines]) + "\n"


@cache
def examples() -> list[bytes]:
    """Return files of this format and of the one before."""
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "model.safetensors"
        made = [_saved(path, model.partial_fit(x)) for model, x in _models(rows())]
        detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0)).fit(rows())
        detector.save(path)
        made += [path.read_bytes(), *run_examples()]
    old = ("natural", "sem-accumulating", "threads-in-a-round", "detector", "run-scaled")
    return made + [(OLD / f"{name}.safetensors").read_bytes() for name in old]


@cache
def run_examples() -> list[bytes]:
    """Return checkpoints of runs: trained, watching, and on a cluster."""
    with tempfile.TemporaryDirectory() as place:
        (Path(place) / TABLE).write_text(table())
        return [run(Path(place)) for run in (_trained, _watched, _on_a_cluster)]


@cache
def coupled_examples() -> list[bytes]:
    """Return a model with full covariances, and one with covariances of low rank."""
    models = [
        StreamingGaussianMixture(4, covariance_type=kind, rank=2, random_state=0) for kind in ("full", "low_rank")
    ]
    with tempfile.TemporaryDirectory() as place:
        return [_saved(Path(place) / "model.safetensors", model.partial_fit(rows())) for model in models]


def _models(x: np.ndarray) -> list[tuple[StreamingGaussianMixture, np.ndarray]]:
    with_gaps = np.where(np.random.default_rng(1).random(x.shape) < 0.1, np.nan, x)
    start = {"means_init": x[:4], "weights_init": [0.25] * 4}
    model = partial(StreamingGaussianMixture, 4, random_state=0)
    full, low_rank = partial(model, covariance_type="full"), partial(model, covariance_type="low_rank", rank=2)
    return [
        (model(batch_size=2), x[:701:1]),
        (model(rule="sgd", scale="none"), x.astype(np.float32)),
        (model(rule="sem"), x[:301]),
        (model(rule="sem"), x),
        (model(rule=StochasticEM(start_from="kmeans")), x[:320]),
        (model(n_jobs=2, rule=Natural(half_life=500)), x[:633]),
        (model(allow_nan=True, reheat=True), with_gaps),
        (model(allow_nan=True, **start), with_gaps[:50]),
        (full(), x),
        (full(n_jobs=2), x[:633].astype(np.float32)),
        (full(rule="sgd", scale="none"), x[:400]),
        (full(rule="sem", allow_nan=True), with_gaps[:400]),
        (low_rank(), x.astype(np.float32)),
        (low_rank(rule="sem"), x[:400]),
    ]


def _saved(path: Path, model: StreamingGaussianMixture) -> bytes:
    model.save(path)
    return path.read_bytes()


def _command(folder: Path, *options: str) -> bytes:
    from typer.testing import CliRunner

    from streamgmm.cli.app import app

    out = folder / options[0]
    command = [options[0], str(folder / TABLE), "--out", str(out), "--id", "id", "--components", "4", *options[1:]]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return (out / "model.safetensors").read_bytes()


def _trained(folder: Path) -> bytes:
    return _command(folder, "train", "--samples", "1000")


def _watched(folder: Path) -> bytes:
    """Return a checkpoint of a run that watches its source, in the middle of a burst."""
    from streamgmm.monitoring import Burst
    from streamgmm.runs.watch import WatchState
    from streamgmm.storage import load_model, save_model

    _command(folder, "watch", "--no-follow", "--samples", "690")
    saved = load_model(folder / "watch" / "model.safetensors")
    burst = Burst("run:7", 2, 7, 9, "a", 3, 0.001)
    saved.run = {**(saved.run or {}), "watch": WatchState(burst, judged=900, flagged=9).facts()}
    save_model(folder / "watched.safetensors", saved)
    return (folder / "watched.safetensors").read_bytes()


@contextmanager
def watcher_in(folder: Path, state: Any) -> Iterator[Any]:
    """Give what judges the rows of a run in a folder, and sends alerts to nobody."""
    from streamgmm.runs.watch import Watcher, WatchOptions
    from streamgmm.sinks.alerts import Outbox

    (folder / "run").mkdir(exist_ok=True)
    with Outbox(folder / "run", [], lambda text: None, length=state.alerts) as outbox:
        yield Watcher(outbox, WatchOptions(fdr=0.05), state)


def _on_a_cluster(folder: Path) -> bytes:
    run = run_in(folder, cluster=True)
    for _ in run.go():
        run.stop = lambda: run.progress.samples > 900
    return (run.folder / "model.safetensors").read_bytes()


def run_in(folder: Path, *, cluster: bool, watcher: Any = None) -> Any:
    """Return a run on the table in a folder that nothing has happened in."""
    from streamgmm.core.settings import Settings
    from streamgmm.engines import Serial
    from streamgmm.engines.workers import LocalCluster
    from streamgmm.runs.cluster_run import ClusterRun
    from streamgmm.runs.options import RunOptions
    from streamgmm.runs.train import TrainingRun
    from streamgmm.sources import open_source

    (folder / "run").mkdir(exist_ok=True)
    opened = partial(open_source, str(folder / TABLE), id_column="id", missing=True)
    settings, options = Settings(4), RunOptions(passes=2, shuffle="auto")
    if watcher is not None:
        order = RunOptions(passes=1, shuffle="no")
        return TrainingRun(folder / "run", opened(), settings, Serial(), order, watcher=watcher)
    if cluster:
        return ClusterRun(folder / "run", opened, settings, LocalCluster(2, round_samples=100), options)
    return TrainingRun(folder / "run", opened(), settings, Serial(), options)
