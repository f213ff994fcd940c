"""``streamgmm train``"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.cluster import (
    ClusterAddress,
    EngineOption,
    RoundSamples,
    WorkerCount,
    absolute,
    cluster_engine,
    require_same_engine,
    say_start,
    worker_lines,
    worker_rates,
)
from streamgmm.cli.config import ConfigFile, write_settings
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import (
    NO_PAGE,
    BadRows,
    ColumnNames,
    IdColumn,
    Keep,
    LivePage,
    MetricsPort,
    Missing,
    NoRows,
    OnBadRows,
    Port,
    Scale,
    Shuffle,
    SourceName,
    check_folder,
    check_passes,
    number_of_passes,
    run_source,
    say_unused,
    served_metrics,
)
from streamgmm.cli.resumption import Resumed, resumed_options

if TYPE_CHECKING:
    from streamgmm.core.settings import Settings
    from streamgmm.runs.train import TrainingRun

MOST_NAMES = 8
DEPRECATED = (Scale.minmax, Scale.standard)


def train(
    context: typer.Context,
    source: SourceName,
    out: Annotated[Path, typer.Option(help="Folder of the run: model.safetensors, events.jsonl.")],
    rule: Annotated[str, typer.Option(help="Update rule: natural, sgd or sem.")] = "natural",
    components: Annotated[int, typer.Option(min=1, help="Number of components.")] = 64,
    covariance: Annotated[
        str,
        typer.Option(help="Covariances: diag, full for tens of correlated features, low_rank for hundreds of them."),
    ] = "diag",
    rank: Annotated[int, typer.Option(min=1, help="Factors of each component, with --covariance low_rank.")] = 8,
    passes: Annotated[
        str | None,
        typer.Option(
            metavar="auto|N",
            callback=check_passes,
            help="Passes over the source. auto: as many as a file needs, and batch EM at the end if it is small. "
            "[default: auto]",
        ),
    ] = None,
    shuffle: Annotated[
        Shuffle | None,
        typer.Option(
            help="Learn rows in random order, through up to 256 MB of memory. auto: if the source is a file that can "
            "be read in any order, without --follow, --half-life and --reheat. [default: auto]"
        ),
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more when the source ends.")] = False,
    samples: Annotated[int | None, typer.Option(min=1, help="Stop after about this many samples.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random start.")] = 0,
    precision_max: Annotated[
        float | None, typer.Option(help="Largest precision of a feature. [default: no limit; 20 with --scale none]")
    ] = None,
    half_life: Annotated[
        float | None, typer.Option(help="Half-life of past data, in samples; inf forgets nothing. [default: inf]")
    ] = None,
    reheat: Annotated[bool, typer.Option("--reheat/--no-reheat", help="Widen the annealing again on drift.")] = False,
    scale: Annotated[
        Scale | None,
        typer.Option(
            metavar="auto|none",
            help="auto: learn data in any units. none: learn numbers as they are, which suits features in [0, 1]. "
            "[default: auto; none for rules that require it]",
        ),
    ] = None,
    missing: Annotated[
        Missing, typer.Option(help="Missing values: raise an error, learn from the other features, or skip the row.")
    ] = Missing.error,
    jobs: Annotated[int, typer.Option(help="Number of threads; -1 uses all cores.")] = 1,
    engine: EngineOption = None,
    workers: WorkerCount = None,
    address: ClusterAddress = None,
    round_samples: RoundSamples = None,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Samples between two checkpoints.")] = 100_000,
    keep: Keep = 0,
    no_rows: NoRows = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the last checkpoint in the folder, with the settings of the run."),
    ] = False,
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    dashboard: LivePage = False,
    port: Port = 5006,
    metrics_port: MetricsPort = None,
    config: ConfigFile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Learn from a source. Interrupt at any time; continue with --resume.

    A resumed run applies a new --half-life, --reheat or --passes, and all options that do not affect what it has
    learned. It refuses other options that differ from those of the run.

    Examples:

      streamgmm train readings.csv --id time --out run

      streamgmm train readings.csv --id time --out run --resume

      tail -f sensors.ndjson | streamgmm train - --follow --half-life 100000 --out run

      streamgmm train mqtt://broker/plant/# --follow --missing learn --out run

      streamgmm train --config run.toml --out run --keep 20 --metrics-port 9108

      streamgmm train s3://bucket/table --engine ray --workers 16 --address ray-head:6379 --out run
    """
    from streamgmm.cli.live_page import LIVE_SECONDS, live_page
    from streamgmm.core.settings import Settings
    from streamgmm.engines import engine_for, thread_count
    from streamgmm.progress import live_line
    from streamgmm.runs.cluster_run import ClusterRun
    from streamgmm.runs.metrics import figures_of
    from streamgmm.runs.options import RunOptions
    from streamgmm.runs.train import TrainingRun
    from streamgmm.storage.run_folder import latest_checkpoint, locked

    check_folder(out, resume)
    say_unused(
        context,
        rank=None if covariance == "low_rank" else "without --covariance low_rank",
        passes="with --follow, which reads rows as they arrive" if follow else None,
        port=None if dashboard else NO_PAGE,
    )
    if source == "-" and passes not in (None, "auto", "1"):
        raise CommandError(f"standard input can be read only once; --passes {passes} needs a file.")
    with console.user_input():
        settings = Settings(
            components,
            covariance_type=covariance,
            rank=rank,
            rule=rule,
            precision_max=precision_max,
            half_life=None if half_life == inf else half_life,
            reheat=reheat,
            allow_nan=missing is Missing.learn,
            scale="none",
        )
        settings.check()
        settings = _with_scale(settings, scale)
        settings.check()
        threads = engine_for(thread_count(jobs))
    cluster = cluster_engine(engine, workers, address, round_samples, jobs)
    with locked(out):
        with console.warnings_as_lines():
            known = latest_checkpoint(out) if resume else None
        count, kept = number_of_passes(passes), Resumed({}, {}, [])
        if known is not None:
            kept = resumed_options(context, *known)
            kept.apply(known[0].trainer)
            missing, count = Missing(kept.values["missing"]), count or known[1].passes or 1
            seed = kept.values["seed"]
            require_same_engine(known[1], cluster)
        with console.sigterm_as_interrupt():  # a pipe may be silent for long
            open_again = run_source(
                source if cluster is None else absolute(source),
                out,
                columns=columns,
                id_column=id_column,
                bad_rows=bad_rows,
                missing=missing,
                follow=follow,
                seed=seed,
            )
            opened = open_again()
        if passes not in (None, "auto", "1") and not follow and not opened.rereadable:
            raise CommandError(f"{opened.name} can be read only once; --passes {passes} needs a file.")
        if follow and not opened.grows:
            console.say(f"{opened.name} cannot grow: --follow will wait until it is interrupted.")
        options = RunOptions(
            passes=None if follow else count or "auto",
            checkpoint_every=checkpoint_every,
            checkpoint_seconds=LIVE_SECONDS if dashboard else RunOptions.checkpoint_seconds,
            scale=scale.value if scale in DEPRECATED else "none",
            missing=missing.value,
            seed=seed,
            shuffle="auto" if known is not None or shuffle is None else shuffle.value,
            keep=keep,
            rows=not no_rows,
        )
        with (
            live_page(out, port, dashboard),
            served_metrics(metrics_port) as note_figures,
            closing(opened),
            console.stop_on_signals() as stopped,
        ):
            if cluster is None:
                run = TrainingRun(out, opened, settings, threads, options)
            else:
                run = ClusterRun(out, open_again, settings, cluster, options)

            def stop() -> bool:
                note_figures(lambda: figures_of(run))
                enough = samples is not None and run.progress.samples >= samples and run.trainer is not None
                return stopped() or enough

            run.stop = stop
            if known is not None:
                with console.warnings_as_lines():
                    _resume(run, *known)
                for line in kept.lines:
                    console.say(line)
            learned_before = run.progress.samples
            if cluster is not None:
                say_start(cluster)
            in_effect = {"passes": count or "auto", "shuffle": shuffle or "auto", **kept.values}
            said = False
            with (
                live_line(
                    "train",
                    lambda: samples or run.expected_samples,
                    console.shows_progress(),
                    lambda: worker_rates(run),
                ) as show,
                console.warnings_as_lines(),
            ):
                for status in run.go():
                    if not said:
                        said = _say_order(run, known is not None)
                        write_settings(out, context, {**in_effect, "scale": run.scale})
                    if status.refining:
                        rows = "all rows" if status.refining == run.progress.pass_rows else "a sample of the rows"
                        console.say(f"refining the model by batch EM on {rows} ({status.refining:,}) …")
                    show(status.samples, status.check)
                if kept.changed and not said:  # nothing was new, but what follows is learned otherwise
                    run.save(log_event=False)
                    write_settings(out, context, in_effect)
    if run.trainer is None:
        raise CommandError("stopped before anything was learned; nothing is saved. Start again.")
    if as_json:
        typer.echo(json.dumps(_result(run)))
    else:
        _say_result(run, learned_before)
        for line in worker_lines(run) if isinstance(run, ClusterRun) else ():
            console.say(line)


def _with_scale(settings: Settings, scale: Scale | None) -> Settings:
    """Choose how to scale: raw data are learned unless something else is asked for."""
    if scale in DEPRECATED:
        console.say(
            f"--scale {scale} is deprecated and will be removed: --scale auto, the default, learns data in any units "
            "and answers in their units."
        )
        return settings
    return settings if scale is Scale.none else replace(settings, scale="auto")


def _resume(run: TrainingRun, *known: Any) -> None:
    same_source = run.resume(*known)
    console.say(f"resuming after {console.count(run.progress.samples, 'sample')}, with the settings of the run")
    if not same_source:
        console.say(f"{run.source.name} is new to this run: learning it from its beginning")
    elif run.source.name == "standard input" and run.progress.position is not None:
        console.say(f"the first {run.progress.position['row']:,} rows of standard input are skipped: already processed")


def _say_order(run: TrainingRun, resumed: bool) -> bool:
    hint = " (--shuffle no keeps their order)" if run.order.shuffled and not resumed else ""
    console.say(f"{run.order}{hint}")
    return True


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
        "shuffled": run.order.shuffled,
        "passes": progress.epoch + 1,
        "refined": run.refined,
        "burst_rows": run.bursts,
        "left_out": run.record.left_out,
        "finished": progress.finished,
        "max_component": None if now.max_component != now.max_component else now.max_component,
        "sigma": trainer.sigma,
        "live": trainer.live,
    }


def _say_result(run: TrainingRun, learned_before: int) -> None:
    from streamgmm.storage.run_folder import MODEL

    trainer, progress = run.trainer, run.progress
    assert trainer is not None
    notes = f", {console.count(progress.bad, 'bad row')} skipped" if progress.bad else ""
    if run.missing_rows:
        notes += f", {console.count(run.missing_rows, 'row')} with missing values skipped"
    if run.progress.epoch:
        notes += f" in {run.progress.epoch + 1:,} passes"
    if run.refined:
        notes += ", then refined by batch EM on all rows"
    if run.scaling is not None:
        notes += f"; parameters and likelihoods refer to data scaled by '{run.scale}'"
    ending = "" if progress.finished else " Stopped before the end: continue with --resume."
    if learned_before and progress.samples == learned_before:
        console.say(f"nothing new to learn: this run had already finished {run.source.name}.")
    console.say(
        f"{console.count(trainer.n_samples, 'sample')} learned{notes}; the model is {run.folder / MODEL}.{ending}"
    )
    console.say_bad_rows(run.bad, progress.bad)
    if run.bursts:
        what = (
            f"{len(run.bursts):,} rows describe single moments, such as faults, so the model was refined without them"
        )
        first = f"first: row {run.bursts[0]:,}"
        if len(run.bursts) == 1:
            what = "1 row describes a single moment, such as a fault, so the model was refined without it"
            first = f"row {run.bursts[0]:,}"
        console.say(f"{what} ({first}). Use --shuffle yes if the order of rows means nothing.")
    if run.feature_names is not None:
        shown = ", ".join(run.feature_names[:MOST_NAMES])
        console.say(f"features: {shown}{' …' if len(run.feature_names) > MOST_NAMES else ''}")
    rows, components = progress.pass_rows, trainer.n_components
    if 0 < rows < components:
        count = f"only {rows:,} row{'s' if rows > 1 else ''} for {components} components"
        console.say(f"{count}: use fewer --components, or more data.", "warning")
    elif not trainer.annealed:
        console.say(
            f"annealing has not finished (σ {trainer.sigma:.3g}): the model is still coarse. Use more samples or more "
            "--passes."
        )
