"""``streamgmm score``"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.cluster import ClusterAddress, EngineOption, WorkerCount, cluster_engine, score_on_cluster
from streamgmm.cli.config import ConfigFile
from streamgmm.cli.console import MOST_BAD, CommandError
from streamgmm.cli.options import (
    BadRows,
    ColumnNames,
    IdColumn,
    ModelPath,
    OnBadRows,
    SourceName,
    column_names,
    say_unused,
)

if TYPE_CHECKING:
    from streamgmm.sinks import Write

FAILED_ON_ANOMALY = 3  # exit code
GROWING = (".csv", ".ndjson", ".jsonl")  # files to which rows can be added


def score(
    context: typer.Context,
    model: ModelPath,
    source: SourceName,
    out: Annotated[
        Path | None,
        typer.Option(
            help="A .csv, .ndjson or .parquet file, or a folder of Parquet files with --engine ray; '-' is standard "
            "output. [default: standard output]"
        ),
    ] = None,
    contamination: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=0.5,
            help="Share of typical rows that may be flagged. [default: that of a saved detector, or 0.01]",
        ),
    ] = None,
    explain: Annotated[
        int, typer.Option(min=0, help="Name this many features of each row that make it strange, and why.")
    ] = 0,
    samples: Annotated[int | None, typer.Option(min=1, help="Stop after this many rows.")] = None,
    follow: Annotated[
        bool,
        typer.Option("--follow", help="Wait for more when the source ends, and reload the model when it is replaced."),
    ] = False,
    fail_on_anomaly: Annotated[
        bool,
        typer.Option("--fail-on-anomaly", help="Exit with 3 if a row is an anomaly; with --follow, at the first one."),
    ] = False,
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    engine: EngineOption = None,
    workers: WorkerCount = None,
    address: ClusterAddress = None,
    formulas: Annotated[
        bool,
        typer.Option("--formulas", help="Write ids to CSV unchanged, even if a spreadsheet would compute them."),
    ] = False,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write NDJSON instead of CSV to standard output.")] = False,
) -> None:
    """Score every row of a source, and flag anomalies.

    For each row, write its log-likelihood, its best component with the responsibility, its p-value, and whether it is
    an anomaly. Text without a heading is assumed to have the columns of the training source.

    Examples:

      streamgmm score run today.csv --id time --out scores.csv

      cat today.ndjson | streamgmm score run - --json --explain 2 | jq 'select(.anomaly)'

      streamgmm score run sensors.csv --follow --json

      streamgmm score run batch.csv --fail-on-anomaly --quiet > /dev/null || echo "look at this batch"

      streamgmm score run s3://bucket/table --engine ray --workers 16 --address ray-head:6379 --out scores
    """
    from streamgmm.monitoring import is_unlikely
    from streamgmm.progress import live_line
    from streamgmm.runs.score import accepts_gaps, score_rows, typical_scores
    from streamgmm.sources import BadRow, open_source
    from streamgmm.storage.latest_model import LatestModel
    from streamgmm.storage.run_folder import model_path

    path = None if out is None or str(out) == "-" else out
    form = ("ndjson" if as_json else "csv") if path is None else path.suffix.lower().removeprefix(".")
    say_unused(
        context,
        as_json=None if path is None else "with --out, whose extension decides",
        formulas=None if form == "csv" else f"on {form or 'parquet'} output",
    )
    if engine is None:
        check_out(path, source, follow)
    latest = LatestModel(model_path(model))
    saved = latest.saved
    contamination = contamination or float((saved.detector or {}).get("contamination", 0.01))
    cluster = cluster_engine(engine, workers, address)
    if cluster is not None:
        if samples is not None or as_json or follow or fail_on_anomaly:
            raise CommandError(
                "--engine ray scores all rows into a folder; remove --samples, --json, --follow and --fail-on-anomaly."
            )
        reading = {"columns": column_names(columns), "id_column": id_column, "skip_bad": bad_rows is BadRows.skip}
        score_on_cluster(model_path(model), source, out, cluster, (contamination, explain), reading)
        return
    with console.sigterm_as_interrupt():  # a pipe may be silent for long
        opened = open_source(
            source,
            columns=column_names(columns),
            id_column=id_column,
            skip_bad=bad_rows is BadRows.skip,
            missing=accepts_gaps(saved),
            follow=follow,
        )
    if saved.scaling is not None:
        console.say(
            f"rows are scaled by '{saved.scaling.kind}', as in training; likelihoods are in the units of the rows"
        )
    if not typical_scores(saved).known:
        unknown = (
            "the model has seen too few rows. Train it on more"
            if saved.trainer.annealed
            else "annealing had not finished when the model was saved. Train it longer"
        )
        if fail_on_anomaly and not follow:
            raise CommandError(f"--fail-on-anomaly cannot tell what is an anomaly: {unknown}.")
        console.say(f"no p-values and no anomalies{' yet' if follow else ''}: {unknown}.")
    done = flagged = skipped = 0
    first_bad: list[BadRow] = []

    def report(bad: tuple[BadRow, ...]) -> None:
        nonlocal skipped
        skipped += len(bad)
        first_bad.extend(bad[: MOST_BAD - len(first_bad)])

    with (
        _ending(follow) as stop,
        closing(opened),
        _sink(path, follow, formulas, "ndjson" if as_json else "csv", opened.id_type) as write,
        live_line("score", opened.n_rows, enabled=console.shows_progress()) as show,
        console.warnings_as_lines(),
    ):
        newer = latest.newer if follow else lambda: None
        for found in score_rows(saved, opened, contamination, report, explain, newer, stop):
            if samples is not None:
                found = {name: values[: samples - done] for name, values in found.items()}
            write(found)
            done += len(found["row"])
            flagged += int(found["anomaly"].sum()) if "anomaly" in found else 0
            show(done, None)
            if done == samples or (follow and fail_on_anomaly and flagged):
                break
    if path is not None:
        console.say(f"{console.count(done, 'row')} scored into {path}; {flagged:,} of them are anomalies.")
    console.say_left_out(opened.left_out, saved.feature_names)
    console.say_bad_rows(first_bad, skipped)
    if is_unlikely(flagged, done, contamination):
        console.say(
            f"{flagged / done:.2%} of the rows were flagged, where --contamination {contamination:g} expects about as "
            "many among typical rows: check columns and units, or whether the stream has changed"
        )
    if fail_on_anomaly and flagged:
        raise typer.Exit(FAILED_ON_ANOMALY)


@contextmanager
def _ending(follow: bool) -> Iterator[Callable[[], bool] | None]:
    """Give a function that tells whether to stop if a source is followed; otherwise let SIGTERM interrupt."""
    if follow:
        with console.stop_on_signals("stopping …") as stopped:
            yield stopped
    else:
        with console.sigterm_as_interrupt():
            yield None


@contextmanager
def _sink(path: Path | None, follow: bool, formulas: bool, form: str, id_type: Any) -> Iterator[Write]:
    """Give a function that writes rows; a file that follows a source grows with it."""
    from streamgmm.sinks import open_sink

    if path is None or not follow:
        with open_sink(path, sys.stdout, form, id_type, formulas) as write:
            yield write
        return
    form = "csv" if path.suffix.lower() == ".csv" else "ndjson"
    with path.open("w", newline="", encoding="utf8") as file, open_sink(None, file, form, formulas=formulas) as write:
        yield write


def check_out(path: Path | None, source: str, follow: bool = False) -> None:
    """Raise CommandError for an output that cannot be written, or would overwrite the input."""
    if path is None:
        return
    if follow and path.suffix.lower() not in GROWING:
        raise CommandError(f"{path.name} cannot grow row by row, as --follow needs it; choose a .csv or .ndjson file.")
    if not path.parent.is_dir():
        raise CommandError(f"the folder {path.parent} does not exist; create it, or choose another for {path.name}.")
    if Path(source).exists() and path.exists() and path.samefile(source):
        raise CommandError(f"--out would overwrite the input, {path}; choose another file.")
