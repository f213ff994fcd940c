"""``streamgmm impute``"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.console import MOST_BAD
from streamgmm.cli.options import BadRows, IdColumn, ModelPath, OnBadRows, SourceName, say_unused
from streamgmm.cli.score import check_out


def impute(
    context: typer.Context,
    model: ModelPath,
    source: SourceName,
    out: Annotated[
        Path | None,
        typer.Option(help="A .csv, .ndjson or .parquet file; '-' is standard output. [default: standard output]"),
    ] = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    as_json: Annotated[bool, typer.Option("--json", help="Write NDJSON instead of CSV to standard output.")] = False,
) -> None:
    """Fill in missing values, from the rest of each row.

    Ids and all values that are present are kept. Columns of text other than the ids are left out, with a message.

    Examples:

      streamgmm impute run readings.csv --id time --out complete.csv

      cat today.ndjson | streamgmm impute run - --json
    """
    from streamgmm.progress import live_line
    from streamgmm.runs.impute import impute_rows, other_columns
    from streamgmm.sinks import open_sink
    from streamgmm.sources import BadRow, Source, open_source
    from streamgmm.storage import load_model
    from streamgmm.storage.run_folder import model_path

    saved = load_model(model_path(model))

    def opened_source() -> Source:
        return open_source(source, id_column=id_column, skip_bad=bad_rows is BadRows.skip, missing=True)

    others: Sequence[str] = ()
    left_out: Sequence[str] = ()
    if Path(source).is_file():  # which can be read twice
        with closing(opened_source()) as first:
            others = other_columns(saved, first)
            left_out = first.left_out
    opened = opened_source()
    path = None if out is None or str(out) == "-" else out
    say_unused(context, as_json=None if path is None else "with --out, whose extension decides")
    check_out(path, source)
    done = skipped = 0
    first_bad: list[BadRow] = []

    def report(bad: tuple[BadRow, ...]) -> None:
        nonlocal skipped
        skipped += len(bad)
        first_bad.extend(bad[: MOST_BAD - len(first_bad)])

    with (
        console.sigterm_as_interrupt(),
        closing(opened),
        open_sink(path, sys.stdout, "ndjson" if as_json else "csv", opened.id_type) as write,
        live_line("impute", opened.n_rows, enabled=False if console.quiet else None) as show,
        console.warnings_as_lines(),
    ):
        for found in impute_rows(saved, opened, report, others):
            if id_column is not None and "id" in found:
                found = {id_column if name == "id" else name: values for name, values in found.items()}
            write(found)
            done += len(next(iter(found.values())))
            show(done, None)
    if path is not None:
        console.say(f"{done:,} rows completed into {path}.")
    if left_out := left_out or opened.left_out:
        console.say(f"left out, without numbers: {', '.join(left_out)}")
    console.say_bad_rows(first_bad, skipped)
