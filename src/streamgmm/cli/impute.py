"""``streamgmm impute``"""

from __future__ import annotations

import sys
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
    formulas: Annotated[
        bool,
        typer.Option("--formulas", help="Write text to CSV unchanged, even if a spreadsheet would compute it."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write NDJSON instead of CSV to standard output.")] = False,
) -> None:
    """Fill in missing values, from the rest of each row.

    All values that are present are kept, and so are ids and columns that the model does not know, such as text and
    dates. CSV and NDJSON keep their form, too (12, true); in other formats, features become numbers.

    Examples:

      streamgmm impute run readings.csv --id time --out complete.csv

      cat today.ndjson | streamgmm impute run - --json
    """
    from streamgmm.progress import live_line
    from streamgmm.runs.impute import impute_rows, unknown_features
    from streamgmm.sinks import open_sink
    from streamgmm.sources import BadRow, ReadOptions, open_with
    from streamgmm.storage import load_model
    from streamgmm.storage.run_folder import model_path

    saved = load_model(model_path(model))
    options = ReadOptions(id_column=id_column, skip_bad=bad_rows is BadRows.skip, missing=True, others=True)
    opened = open_with(source, options)
    path = None if out is None or str(out) == "-" else out
    form = ("ndjson" if as_json else "csv") if path is None else path.suffix.lower().removeprefix(".")
    say_unused(
        context,
        as_json=None if path is None else "with --out, whose extension decides",
        formulas=None if form == "csv" else f"on {form} output",
    )
    check_out(path, source)
    done = skipped = 0
    names: set[str] = set()
    first_bad: list[BadRow] = []

    def report(bad: tuple[BadRow, ...]) -> None:
        nonlocal skipped
        skipped += len(bad)
        first_bad.extend(bad[: MOST_BAD - len(first_bad)])

    with (
        console.sigterm_as_interrupt(),
        closing(opened),
        open_sink(path, sys.stdout, form, opened.id_type, formulas, opened.column_types) as write,
        live_line("impute", opened.n_rows, enabled=False if console.quiet else None) as show,
        console.warnings_as_lines(),
    ):
        for found in impute_rows(saved, opened, report, numbers=form not in ("csv", "ndjson")):
            if id_column is not None and id_column not in found and "id" in found:
                found = {id_column if name == "id" else name: values for name, values in found.items()}
            write(found)
            names |= found.keys()
            done += len(next(iter(found.values())))
            show(done, None)
    if path is not None:
        console.say(f"{console.count(done, 'row')} completed into {path}.")
    for name in unknown_features(saved):
        console.say(f"no value of {name!r} was learned, so its gaps stay.")
    console.say_left_out([name for name in opened.left_out if name not in names], saved.feature_names)
    console.say_bad_rows(first_bad, skipped)
