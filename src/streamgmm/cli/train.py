"""``streamgmm train``"""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import (
    BadRows,
    ColumnNames,
    IdColumn,
    LivePage,
    Missing,
    OnBadRows,
    Port,
    Scale,
    SourceName,
    column_names,
)

if TYPE_CHECKING:
    from streamgmm.runs.train import TrainingRun
    from streamgmm.storage.run_folder import RunRecord

MOST_NAMES = 8


def train(
    source: SourceName,
    out: Annotated[Path, typer.Option(help="Folder of the run: model.safetensors, events.jsonl.")],
    rule: Annotated[str, typer.Option(help="Update rule: natural, sgd or sem.")] = "natural",
    components: Annotated[int, typer.Option(min=1, help="Number of components.")] = 64,
    passes: Annotated[int, typer.Option(min=1, help="Passes over the source.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more when the source ends.")] = False,
    samples: Annotated[int | None, typer.Option(min=1, help="Stop after about this many samples.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random start.")] = 0,
    precision_max: Annotated[
        float | None, typer.Option(help="Largest precision of a feature. [default: 20; no limit with --scale auto]")
    ] = None,
    half_life: Annotated[float | None, typer.Option(help="Half-life of past data, in samples.")] = None,
    reheat: Annotated[bool, typer.Option("--reheat", help="Widen the annealing again on drift.")] = False,
    scale: Annotated[
        Scale, typer.Option(help="auto: learn raw data; minmax, standard: scale by the first 1000 rows.")
    ] = Scale.none,
    missing: Annotated[
        Missing, typer.Option(help="Missing values: raise an error, learn from the other features, or skip the row.")
    ] = Missing.error,
    jobs: Annotated[int, typer.Option(help="Number of threads; -1 uses all cores.")] = 1,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Samples between two checkpoints.")] = 100_000,
    resume: Annotated[bool, typer.Option("--resume", help="Continue from the last checkpoint in the folder.")] = False,
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    dashboard: LivePage = False,
    port: Port = 5006,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn from a source. Interrupt at any time; continue with --resume.

    Examples:

      streamgmm train readings.csv --id time --scale standard --out run

      streamgmm train readings.csv --id time --out run --resume

      tail -f sensors.ndjson | streamgmm train - --follow --half-life 100000 --out run

      streamgmm train mqtt://broker/plant/# --follow --missing learn --out run
    """
    from streamgmm.cli.live_page import LIVE_SECONDS, live_page
    from streamgmm.core.settings import Settings
    from streamgmm.engines import engine_for, thread_count
    from streamgmm.progress import live_line
    from streamgmm.runs.options import RunOptions
    from streamgmm.runs.train import TrainingRun
    from streamgmm.sources import open_source
    from streamgmm.storage.run_folder import latest_checkpoint, locked, reader_name

    _check_folder(out, resume)
    if source == "-" and passes > 1:
        raise CommandError(f"standard input can be read only once; --passes {passes} needs a file.")
    with console.user_input():
        settings = Settings(
            components,
            rule=rule,
            precision_max=precision_max,
            half_life=half_life,
            reheat=reheat,
            allow_nan=missing is Missing.learn,
            scale="auto" if scale is Scale.auto else "none",
        )
        settings.check()
        engine = engine_for(thread_count(jobs))
    with locked(out):
        with console.warnings_as_lines():
            known = latest_checkpoint(out) if resume else None
        if known is not None:
            missing = _kept_missing(known[1], missing)
        with console.sigterm_as_interrupt():  # a pipe may be silent for long
            opened = open_source(
                source,
                columns=column_names(columns),
                id_column=id_column,
                skip_bad=bad_rows is BadRows.skip,
                missing=missing is not Missing.error,
                follow=follow,
                seed=seed,
                reader=reader_name(out),
            )
        if passes > 1 and not follow and not opened.rereadable:
            raise CommandError(f"{opened.name} can be read only once; --passes {passes} needs a file.")
        if follow and not opened.grows:
            console.say(f"{opened.name} cannot grow: --follow will wait until it is interrupted.")
        options = RunOptions(
            passes=None if follow else passes,
            checkpoint_every=checkpoint_every,
            scale="none" if scale is Scale.auto else scale.value,
            missing=missing.value,
            seed=seed,
            **({"checkpoint_seconds": LIVE_SECONDS} if dashboard else {}),
        )
        with live_page(out, port, dashboard), closing(opened), console.stop_on_signals() as stopped:
            run = TrainingRun(out, opened, settings, engine, options)
            run.stop = lambda: (
                stopped() or (samples is not None and run.progress.samples >= samples and run.trainer is not None)
            )
            if known is not None:
                _resume(run, *known)
            total = samples or (None if follow or opened.n_rows is None else opened.n_rows * passes)
            with (
                live_line("train", total, enabled=False if console.quiet else None) as show,
                console.warnings_as_lines(),
            ):
                for status in run.go():
                    show(status.samples, status.check)
    if run.trainer is None:
        raise CommandError("stopped before anything was learned; nothing is saved. Start again.")
    if as_json:
        typer.echo(json.dumps(_result(run)))
    else:
        _say_result(run)


def _check_folder(out: Path, resume: bool) -> None:
    if out.exists() and not out.is_dir():
        raise CommandError(f"{out} is a file; --out expects a folder.")
    if out.exists() and any(out.iterdir()) and not resume:
        raise CommandError(f"{out} is not empty. Continue with --resume, or choose another folder.")


def _kept_missing(record: RunRecord, missing: Missing) -> Missing:
    """Decide what a resumed run does about missing values; one that stopped for them may skip such rows."""
    before = Missing(record.missing)
    if missing is Missing.learn and before is not Missing.learn:
        raise CommandError("this run does not learn from rows with missing values; resume with --missing skip.")
    return missing if before is Missing.error else before


def _resume(run: TrainingRun, *known: Any) -> None:
    same_source = run.resume(*known)
    console.say(f"resuming after {run.progress.samples:,} samples, with the settings of the run")
    if not same_source:
        console.say(f"{run.source.name} is new to this run: learning it from its beginning")
    elif run.source.name == "standard input" and run.progress.position is not None:
        console.say(f"the first {run.progress.position['row']:,} rows of standard input are skipped: already processed")


def _result(run: TrainingRun) -> dict[str, Any]:
    trainer, progress = run.trainer, run.progress
    assert trainer is not None
    now = trainer.current()
    return {
        "out": str(run.folder),
        "samples": trainer.n_samples,
        "bad_rows": progress.bad,
        "first_bad": [row._asdict() for row in run.bad],
        "missing_rows": run.missing_rows,
        "scale": run.scale,
        "finished": progress.finished,
        "max_component": None if now.max_component != now.max_component else now.max_component,
        "sigma": trainer.sigma,
        "live": trainer.live,
    }


def _say_result(run: TrainingRun) -> None:
    from streamgmm.storage.run_folder import MODEL

    trainer, progress = run.trainer, run.progress
    assert trainer is not None
    notes = f", {progress.bad:,} bad rows skipped" if progress.bad else ""
    if run.missing_rows:
        notes += f", {run.missing_rows:,} rows with missing values skipped"
    if run.scaling is not None:
        notes += f"; parameters and likelihoods refer to data scaled by '{run.scale}'"
    ending = "" if progress.finished else " Stopped before the end: continue with --resume."
    console.say(f"{trainer.n_samples:,} samples learned{notes}; the model is {run.folder / MODEL}.{ending}")
    console.say_bad_rows(run.bad, progress.bad)
    if run.feature_names is not None:
        shown = ", ".join(run.feature_names[:MOST_NAMES])
        console.say(f"features: {shown}{' …' if len(run.feature_names) > MOST_NAMES else ''}")
    if not trainer.annealed:
        console.say(
            f"annealing has not finished (σ {trainer.sigma:.3g}): the model is still coarse. Use more samples or more "
            "--passes."
        )
