"""Figures for Prometheus, and the health check."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator

import numpy as np
import pytest

from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.errors import StreamGMMError
from streamgmm.runs.metrics import (
    FAMILIES,
    RATE_SECONDS,
    STALLED_SECONDS,
    Figures,
    RunMetrics,
    figures_of,
    metrics_server,
)
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources.numpy_files import ArraySource

parser = pytest.importorskip("prometheus_client.parser", reason="prometheus-client is not installed")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


FIGURES = Figures(samples=500, bad_rows=3, missing_rows=2, drifts=1, checkpoint_age=7.0, lag=40, loss=float("nan"))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> RunMetrics:
    return RunMetrics(clock)


@pytest.fixture
def address(metrics: RunMetrics) -> Iterator[str]:
    with metrics_server(metrics, 0) as address:
        yield address


def get(url: str) -> tuple[int, str, str]:
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as problem:
        with problem:
            return problem.code, problem.headers["Content-Type"], problem.read().decode()


def scraped(address: str) -> dict[str, float]:
    """What a Prometheus server would read."""
    code, kind, text = get(f"{address}/metrics")
    assert code == 200
    assert kind.startswith("text/plain")
    families = parser.text_string_to_metric_families(text)
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_what_a_server_reads(metrics: RunMetrics, address: str, clock: Clock) -> None:
    assert scraped(address) == {}
    metrics.update(lambda: FIGURES)
    clock.now += 5
    found = scraped(address)
    assert found.pop("streamgmm_loss") != 0
    assert found == {
        "streamgmm_samples_total": 500,
        "streamgmm_bad_rows_total": 3,
        "streamgmm_missing_rows_total": 2,
        "streamgmm_drifts_total": 1,
        "streamgmm_lag_rows": 40,
        "streamgmm_checkpoint_age_seconds": 12,
        "streamgmm_samples_per_second": 0,
    }


def test_every_figure_is_a_metric() -> None:
    assert {field for field, *_ in FAMILIES} == set(Figures._fields)


def test_the_rate_is_that_of_the_last_minute(metrics: RunMetrics, clock: Clock) -> None:
    for second in range(200):
        metrics.update(lambda n=second: FIGURES._replace(samples=10 * n if n < 150 else 1490 + 40 * (n - 149)))
        clock.now += 1
    assert 25 < metrics.rate < 40
    clock.now += 10 * RATE_SECONDS
    assert metrics.rate < 4


def test_figures_are_asked_for_only_now_and_then(metrics: RunMetrics, clock: Clock) -> None:
    asked = []

    def figures() -> Figures:
        asked.append(clock.now)
        return FIGURES

    for _ in range(100):
        metrics.update(figures)
        clock.now += 0.05
    assert 20 <= len(asked) <= 26


def test_health(metrics: RunMetrics, address: str, clock: Clock) -> None:
    def health() -> tuple[int, str]:
        code, kind, text = get(f"{address}/healthz")
        assert kind == "application/json"
        return code, json.loads(text)["status"]

    assert health() == (200, "starting")
    metrics.update(lambda: FIGURES)
    assert health() == (200, "ok")
    clock.now += STALLED_SECONDS + 1
    assert health() == (503, "stalled")
    metrics.update(lambda: FIGURES)
    assert health() == (200, "ok")


def test_other_pages_are_not_found(address: str) -> None:
    assert get(f"{address}/")[0] == 404


def test_only_this_machine_can_ask(address: str) -> None:
    assert address.startswith("http://127.0.0.1:")


def test_a_port_in_use_is_told(metrics: RunMetrics) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(StreamGMMError, match=f"port {port} cannot be used"), metrics_server(metrics, port):
            pass


def test_figures_of_a_run(tmp_path_factory: pytest.TempPathFactory) -> None:
    x = np.random.default_rng(0).normal(0, 1, (3000, 2))
    source = ArraySource("x", x)
    run = TrainingRun(tmp_path_factory.mktemp("run"), source, Settings(4), Serial(), RunOptions(checkpoint_every=1000))
    assert figures_of(run)[:4] == (0, 0, 0, 0)
    for _ in run.go():
        pass
    found = figures_of(run, anomalies=5)
    assert (found.samples, found.components, found.anomalies, found.lag) == (3000, 4, 5, None)
    assert run.trainer is not None
    assert found.max_component == run.trainer.current().max_component
    assert 0 < found.checkpoint_age < 60
