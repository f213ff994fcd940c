"""Options of commands that run on a cluster."""

from __future__ import annotations

from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.console import (
    CommandError,
    count,
    say,
    say_bad_rows,
    sigterm_as_interrupt,
    user_input,
    warnings_as_lines,
)

if TYPE_CHECKING:
    from streamgmm.engines.ray import RayEngine
    from streamgmm.runs.cluster_run import ClusterRun
    from streamgmm.storage.run_folder import RunRecord


MOST_RATES = 4  # workers whose rates fit on the live line
MUCH = 0.3  # of the time, for sending and merging


class EngineName(StrEnum):
    """Where a command runs, other than on this machine alone."""

    ray = "ray"


EngineOption = Annotated[
    EngineName | None, typer.Option("--engine", help="ray: read and compute on the workers of a Ray cluster.")
]
WorkerCount = Annotated[
    int | None, typer.Option("--workers", min=1, help="Number of workers of --engine ray; the result depends on it.")
]
ClusterAddress = Annotated[
    str | None,
    typer.Option("--address", help="Address of a running Ray cluster. [default: one that is started on this machine]"),
]
RoundSamples = Annotated[
    int | None,
    typer.Option(
        "--round", min=1, help="Samples of a worker between two merges. [default: so that merging takes little time]"
    ),
]


def cluster_engine(
    engine: EngineName | None,
    workers: int | None,
    address: str | None,
    round_samples: int | None = None,
    jobs: int = 1,
) -> RayEngine | None:
    """Return the engine of the options of a command; None if it runs on this machine alone."""
    given = {"--workers": workers, "--address": address, "--round": round_samples}
    if engine is None:
        if alone := next((name for name, value in given.items() if value is not None), None):
            raise CommandError(f"{alone} needs --engine ray.")
        return None
    if jobs != 1:
        raise CommandError("--jobs does not combine with --engine ray; choose the number of --workers.")
    if workers is None:
        raise CommandError("--engine ray needs the number of --workers.")
    from streamgmm.engines.ray import RayEngine

    with user_input():
        found = RayEngine(workers, address, round_samples)
    found.require_reachable()
    return found


def absolute(source: str) -> str:
    """Return a source as workers find it, which may run in another folder."""
    return str(Path(source).absolute()) if Path(source).exists() else source


def require_same_engine(record: RunRecord, engine: RayEngine | None) -> None:
    """Raise if a run is resumed on a cluster that was not trained on one, or the other way round."""
    if record.cluster is not None and engine is None:
        workers = record.cluster["workers"]
        raise CommandError(f"this run was trained on a cluster; resume it with --engine ray --workers {workers}.")
    if record.cluster is None and engine is not None:
        raise CommandError("this run was trained on one machine; resume it without --engine ray.")


def say_start(engine: RayEngine) -> None:
    """Say what happens while nothing is learned yet: Ray takes its time."""
    workers = count(engine.workers, "worker")
    if engine.address is None:
        say(f"starting a Ray cluster with {workers} on this machine …")
    else:
        say(f"starting {workers} on the Ray cluster at {engine.address} …")


def worker_rates(run: object) -> str:
    """Return the rates of workers for the live line; nothing for a run on this machine alone."""
    from streamgmm.runs.cluster_run import ClusterRun

    if not isinstance(run, ClusterRun) or not run.totals.rounds:
        return ""
    rates = run.totals.rates()
    more = f" … {len(rates)} workers" if len(rates) > MOST_RATES else ""
    return "  workers " + " ".join(f"{rate:,.0f}/s" for rate in rates[:MOST_RATES]) + more


def worker_lines(run: ClusterRun) -> list[str]:
    """Return what to say about the workers of a run that has ended."""
    totals = run.totals
    if not totals.rounds:
        return []
    rates = ", ".join(f"{rate:,.0f}" for rate in totals.rates())
    lines = [
        f"{count(totals.rounds, 'round')} on {count(len(totals.samples), 'worker')}, {rates} samples/s each; "
        f"{100 * totals.waiting():.0f} % of the time went into sending and merging"
    ]
    if totals.waiting() > MUCH:
        lines.append(
            "that is a large share: training on one machine, without --engine ray, may be as fast for so few samples "
            "of a model of this size"
        )
    if run.replaced:
        were = "was" if run.replaced == 1 else "were"
        lines.append(f"{count(run.replaced, 'worker')} failed and {were} replaced; every row was learned exactly once")
    return lines


def score_on_cluster(
    model: Path,
    source: str,
    out: Path | None,
    engine: RayEngine,
    scoring: tuple[float, int],
    reading: dict[str, Any],
) -> None:
    """Score a source on a cluster, and say what was found; ``scoring`` is contamination and features to explain."""
    from streamgmm.progress import live_line
    from streamgmm.runs.cluster_score import ScoreJob, score_parts
    from streamgmm.sources import BadRow, open_source

    if out is None or out.suffix or out.is_file():
        raise CommandError("--engine ray writes a folder of Parquet files; name one with --out.")
    contamination, explain = scoring
    open_again = partial(open_source, absolute(source), **reading)
    job = ScoreJob(model.read_bytes(), open_again, out.absolute(), contamination, explain, reading)
    rows = anomalies = bad = parts = 0
    before = sum(1 for _ in out.glob("part-*.parquet")) if out.is_dir() else 0
    say_start(engine)
    first_bad: list[BadRow] = []
    with (
        sigterm_as_interrupt(),
        live_line("score", None, enabled=False if console.quiet else None) as show,
        warnings_as_lines(),
    ):
        for part in score_parts(job, engine):
            rows, anomalies, bad = rows + part["rows"], anomalies + part["anomalies"], bad + part["bad"]
            parts += 1
            first_bad += [BadRow(**row) for row in part["first_bad"]]
            show(rows, None)
    if not parts:
        say(f"nothing to do: all {count(before, 'part')} of {out} were scored before.")
        return
    kept = f" {count(before, 'part')} of {before + parts:,} had been scored before." if before else ""
    say(f"{count(rows, 'row')} scored into {out}; {anomalies:,} of them are anomalies.{kept}")
    say_bad_rows(first_bad, bad)
