"""``streamgmm score``"""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.cluster import ClusterAddress, EngineOption, WorkerCount, cluster_engine, score_on_cluster
from streamgmm.cli.console import MOST_BAD, CommandError
from streamgmm.cli.options import BadRows, ColumnNames, IdColumn, ModelPath, OnBadRows, SourceName, column_names


def score(
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
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    engine: EngineOption = None,
    workers: WorkerCount = None,
    address: ClusterAddress = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write NDJSON instead of CSV to standard output.")] = False,
) -> None:
    """Score every row: log-likelihood, best component, p-value, and whether it is an anomaly.

    Examples:

      streamgmm score run today.csv --id time --out scores.csv

      cat today.ndjson | streamgmm score run - --json --explain 2 | jq 'select(.anomaly)'

      streamgmm score run s3://bucket/table --engine ray --workers 16 --address ray-head:6379 --out scores
    """
    from streamgmm.progress import live_line
    from streamgmm.runs.score import accepts_gaps, score_rows, typical_scores
    from streamgmm.sinks import open_sink
    from streamgmm.sources import BadRow, open_source
    from streamgmm.storage import load_model
    from streamgmm.storage.run_folder import model_path

    saved = load_model(model_path(model))
    contamination = contamination or float((saved.detector or {}).get("contamination", 0.01))
    cluster = cluster_engine(engine, workers, address)
    if cluster is not None:
        if samples is not None or as_json:
            raise CommandError("--engine ray scores all rows into a folder; remove --samples and --json.")
        reading = {"columns": column_names(columns), "id_column": id_column, "skip_bad": bad_rows is BadRows.skip}
        score_on_cluster(model_path(model), source, out, cluster, (contamination, explain), reading)
        return
    opened = open_source(
        source,
        columns=column_names(columns),
        id_column=id_column,
        skip_bad=bad_rows is BadRows.skip,
        missing=accepts_gaps(saved),
    )
    path = None if out is None or str(out) == "-" else out
    _check_out(path, source)
    if saved.scaling is not None:
        console.say(
            f"rows are scaled by '{saved.scaling.kind}', as in training; likelihoods are in the units of the rows"
        )
    known = len(typical_scores(saved))
    if known < 1 / contamination:
        console.say(
            "no p-values and no anomalies: the model has not seen enough of its stream since annealing ended "
            f"({known:,} samples; --contamination {contamination:g} needs {1 / contamination:,.0f})"
        )
    done = flagged = skipped = 0
    first_bad: list[BadRow] = []

    def report(bad: tuple[BadRow, ...]) -> None:
        nonlocal skipped
        skipped += len(bad)
        first_bad.extend(bad[: MOST_BAD - len(first_bad)])

    with (
        console.sigterm_as_interrupt(),
        closing(opened),
        open_sink(path, sys.stdout, "ndjson" if as_json else "csv", opened.id_type) as write,
        live_line("score", opened.n_rows, enabled=False if console.quiet else None) as show,
        console.warnings_as_lines(),
    ):
        for found in score_rows(saved, opened, contamination, report, explain):
            if samples is not None:
                found = {name: values[: samples - done] for name, values in found.items()}
            write(found)
            done += len(found["row"])
            flagged += int(found["anomaly"].sum()) if "anomaly" in found else 0
            show(done, None)
            if done == samples:
                break
    if path is not None:
        console.say(f"{done:,} rows scored into {path}; {flagged:,} of them are anomalies.")
    if opened.left_out:
        console.say(f"left out, without numbers: {', '.join(opened.left_out)}")
    console.say_bad_rows(first_bad, skipped)


def _check_out(path: Path | None, source: str) -> None:
    if path is None:
        return
    if not path.parent.is_dir():
        raise CommandError(f"the folder {path.parent} does not exist; create it, or choose another for {path.name}.")
    if Path(source).exists() and path.exists() and path.samefile(source):
        raise CommandError(f"--out would overwrite the input, {path}; choose another file.")
