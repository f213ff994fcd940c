"""Figures of a run for those who watch over it: Prometheus metrics and a health check, for this machine only."""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

from streamgmm.errors import MissingExtraError, Remedy, StreamGMMError

if TYPE_CHECKING:
    from streamgmm.runs.train import TrainingRun

HOST = "127.0.0.1"
RATE_SECONDS = 60.0  # over which the rate is averaged
UPDATE_SECONDS = 0.2  # between two updates: a stream may bring thousands of chunks in a second
STALLED_SECONDS = 120.0  # without a sign of life; refinement on all rows may take half of that


class Figures(NamedTuple):
    """What is known of a run at one moment; None where it does not apply."""

    samples: int
    bad_rows: int
    missing_rows: int
    drifts: int
    checkpoint_age: float
    lag: int | None = None
    anomalies: int | None = None
    loss: float | None = None
    max_component: float | None = None
    sigma: float | None = None
    live: int | None = None
    components: int | None = None


def figures_of(run: TrainingRun, anomalies: int | None = None) -> Figures:
    """Return the figures of a run.

    Parameters
    ----------
    run : TrainingRun
        The run.
    anomalies : int or None, default=None
        Rows that were flagged; None if rows are not judged.
    """
    progress, trainer = run.progress, run.trainer
    found = Figures(
        samples=progress.samples,
        bad_rows=progress.bad,
        missing_rows=progress.missing,
        drifts=progress.drifts,
        checkpoint_age=run.checkpoint_age,
        lag=run.source.lag(progress.position),
        anomalies=anomalies,
    )
    if trainer is None:
        return found
    now = trainer.current()
    return found._replace(
        loss=now.loss,
        max_component=now.max_component,
        sigma=now.sigma,
        live=now.live,
        components=trainer.n_components,
    )


FAMILIES = (
    ("samples", "counter", "streamgmm_samples", "Samples learned, in all resumes of the run."),
    ("bad_rows", "counter", "streamgmm_bad_rows", "Rows skipped because they could not be read."),
    ("missing_rows", "counter", "streamgmm_missing_rows", "Rows skipped because of missing values."),
    ("anomalies", "counter", "streamgmm_anomalies", "Rows flagged as anomalies."),
    ("drifts", "counter", "streamgmm_drifts", "Drifts detected."),
    ("lag", "gauge", "streamgmm_lag_rows", "Rows that wait in the source."),
    ("loss", "gauge", "streamgmm_loss", "Smoothed annealed objective of recent samples, in nats."),
    ("max_component", "gauge", "streamgmm_max_component", "Smoothed score of the best component, in nats."),
    ("sigma", "gauge", "streamgmm_sigma", "Width of the annealing."),
    ("live", "gauge", "streamgmm_live_components", "Components that win a fair number of recent samples."),
    ("components", "gauge", "streamgmm_components", "Number of components."),
    ("checkpoint_age", "gauge", "streamgmm_checkpoint_age_seconds", "Seconds since the last checkpoint."),
)
"""Field of `Figures`, kind, name and description of each metric."""


class RunMetrics:
    """The latest figures of a run; one thread updates them, and others read them.

    Parameters
    ----------
    clock : callable, default=time.monotonic
        Gives seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, threading.Lock()
        self._figures: Figures | None = None
        self._updated = clock()
        self._counts: deque[tuple[float, int]] = deque()

    def update(self, figures: Callable[[], Figures]) -> None:
        """Ask for the figures, unless that was a moment ago. Call this often: it is the sign of life.

        Parameters
        ----------
        figures : callable
            Returns the figures.
        """
        now = self._clock()
        if self._figures is not None and now - self._updated < UPDATE_SECONDS:
            return
        latest = figures()
        with self._lock:
            self._figures, self._updated = latest, now
            self._counts.append((now, latest.samples))
            while len(self._counts) > 2 and self._counts[1][0] < now - RATE_SECONDS:
                self._counts.popleft()

    @property
    def rate(self) -> float:
        """Samples per second during the last minute."""
        with self._lock:
            if not self._counts:
                return 0.0
            first, count = self._counts[0]
            return (self._counts[-1][1] - count) / max(self._clock() - first, 1e-9)

    def collect(self) -> Iterator[Any]:
        """Yield families of metrics, as a registry of the Prometheus client asks for them."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

        with self._lock:
            figures, updated = self._figures, self._updated
        if figures is None:
            return
        age = figures.checkpoint_age + self._clock() - updated
        for field, kind, name, text in FAMILIES:
            value = age if field == "checkpoint_age" else getattr(figures, field)
            if value is not None:
                yield (CounterMetricFamily if kind == "counter" else GaugeMetricFamily)(name, text, value=value)
        yield GaugeMetricFamily("streamgmm_samples_per_second", "Rate of the last minute.", value=self.rate)

    def health(self) -> dict[str, Any]:
        """Return what the health check answers; ``status`` is "starting", "ok" or "stalled"."""
        with self._lock:
            figures, silent = self._figures, self._clock() - self._updated
        status = "stalled" if silent > STALLED_SECONDS else "ok" if figures is not None else "starting"
        known = {} if figures is None else {"samples": figures.samples}
        return {"status": status, "silent_seconds": round(silent, 1), **known}


@contextmanager
def metrics_server(metrics: RunMetrics, port: int) -> Iterator[str]:
    """Serve ``/metrics`` and ``/healthz`` to this machine during the block; give the address.

    Parameters
    ----------
    metrics : RunMetrics
        The figures.
    port : int
        Port to listen on; 0 takes a free one.
    """
    try:
        from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
    except ImportError as problem:
        raise MissingExtraError("Metrics require prometheus-client", "metrics") from problem
    registry = CollectorRegistry()
    registry.register(metrics)

    class Handler(BaseHTTPRequestHandler):
        """Answer requests; nothing is logged."""

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            if path == "/metrics":
                self._answer(200, CONTENT_TYPE_LATEST, generate_latest(registry))
            elif path == "/healthz":
                health = metrics.health()
                code = 503 if health["status"] == "stalled" else 200
                self._answer(code, "application/json", json.dumps(health).encode())
            else:
                self._answer(404, "text/plain", b"Not found; try /metrics or /healthz.\n")

        def _answer(self, code: int, kind: str, content: bytes) -> None:
            self.send_response(code)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 (as in http.server)
            return

    try:
        server = ThreadingHTTPServer((HOST, port), Handler)
    except OSError as problem:
        reason = f"port {port} cannot be used: {problem.strerror}."
        raise StreamGMMError(reason, Remedy.CHANGE_METRICS_PORT) from problem
    thread = threading.Thread(target=server.serve_forever, name="streamgmm-metrics", daemon=True)
    thread.start()
    try:
        yield f"http://{HOST}:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
