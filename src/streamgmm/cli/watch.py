"""``streamgmm watch``"""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
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
    SourceName,
    check_folder,
    run_source,
    say_unused,
    served_metrics,
)
from streamgmm.cli.resumption import Resumed, resumed_options

if TYPE_CHECKING:
    from streamgmm.runs.train import TrainingRun
    from streamgmm.runs.watch import WatchState
    from streamgmm.sources import Source
    from streamgmm.storage.run_folder import RunRecord

DRAIN_SECONDS = 10.0  # for alerts that wait when the source ends


def watch(
    context: typer.Context,
    source: SourceName,
    out: Annotated[Path, typer.Option(help="Folder of the run: model.safetensors, events.jsonl, alerts.ndjson.")],
    alert_to: Annotated[
        list[str] | None,
        typer.Option(
            help="Where alerts go: '-' for standard output, a file, https://host/path, kafka://host:port/topic or "
            "mqtt://host:port/topic. Repeat it for more targets. [default: -]"
        ),
    ] = None,
    contamination: Annotated[
        float, typer.Option(min=1e-6, max=0.5, help="Share of typical rows that may be flagged.")
    ] = 0.01,
    max_p: Annotated[
        float | None, typer.Option(min=1e-12, max=0.5, help="Flag rows with at most this p-value, not a fixed share.")
    ] = None,
    fdr: Annotated[
        float | None,
        typer.Option(min=1e-4, max=0.5, help="Flag rows so that about this share of alarms is false."),
    ] = None,
    only_anomalies: Annotated[
        bool,
        typer.Option(
            "--only-anomalies",
            help="Send a message for every anomalous row, instead of one when a burst begins and one when it ends.",
        ),
    ] = False,
    explain: Annotated[int, typer.Option(min=0, help="Name this many features that make a row strange, and why.")] = 3,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", help="Wait for more when the source ends.")] = True,
    components: Annotated[int, typer.Option(min=1, help="Number of components.")] = 16,
    samples: Annotated[int | None, typer.Option(min=1, help="Stop after about this many samples.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random start.")] = 0,
    half_life: Annotated[
        float | None, typer.Option(help="Half-life of past data, in samples; inf forgets nothing. [default: inf]")
    ] = None,
    reheat: Annotated[bool, typer.Option("--reheat/--no-reheat", help="Widen the annealing again on drift.")] = False,
    missing: Annotated[
        Missing, typer.Option(help="Missing values: judge and learn the other features, skip the row, or stop.")
    ] = Missing.learn,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Samples between two checkpoints.")] = 100_000,
    keep: Keep = 0,
    no_rows: NoRows = False,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Continue from the last checkpoint in the folder, even one that train wrote."),
    ] = False,
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.skip,
    dashboard: LivePage = False,
    port: Port = 5006,
    metrics_port: MetricsPort = None,
    config: ConfigFile = None,
) -> None:
    """Send alerts about strange rows of a source, and learn from it.

    Each row is judged before it is learned. Alerts are lines of JSON: one when a burst of anomalies begins and one when
    it ends, with the same id. A target that is down gets them later; after a crash, some may be sent again. A new model
    sends no alerts until annealing has finished: train one on past data first, and continue it with --resume.

    Examples:

      streamgmm watch sensors.csv --id time --out run

      streamgmm train past.csv --id time --missing learn --out run

      streamgmm watch today.csv --id time --out run --resume

      streamgmm watch kafka://broker:9092/readings --out run --alert-to kafka://broker:9092/alerts --fdr 0.05

      streamgmm watch mqtt://broker/plant/# --out run --alert-to https://example.com/hook --metrics-port 9108
    """
    from streamgmm.cli.live_page import LIVE_SECONDS, live_page
    from streamgmm.core.rules.natural import ANOMALY_RULE
    from streamgmm.core.settings import Settings
    from streamgmm.engines import Serial
    from streamgmm.progress import live_line
    from streamgmm.runs.metrics import figures_of
    from streamgmm.runs.options import RunOptions
    from streamgmm.runs.train import TrainingRun
    from streamgmm.runs.watch import Watcher, WatchOptions
    from streamgmm.sinks.alerts import Outbox, open_target
    from streamgmm.storage.run_folder import latest_checkpoint, locked

    check_folder(out, resume)
    if max_p is not None and fdr is not None:
        raise CommandError("--max-p and --fdr both choose what is flagged; give one of them.")
    chosen = "--max-p" if max_p is not None else None if fdr is None else "--fdr"
    say_unused(
        context,
        contamination=None if chosen is None else f"with {chosen}, which chooses what is flagged",
        port=None if dashboard else NO_PAGE,
    )
    alert_to = alert_to or ["-"]
    targets = [open_target(text, sys.stdout) for text in alert_to]
    with console.user_input():
        settings = Settings(
            components,
            rule=ANOMALY_RULE,
            half_life=None if half_life == inf else half_life,
            reheat=reheat,
            allow_nan=missing is Missing.learn,
        )
        settings.check()
    with ExitStack() as stack:
        stack.enter_context(locked(out))
        with console.warnings_as_lines():
            known = latest_checkpoint(out) if resume else None
        kept = Resumed({}, {}, [])
        if known is not None:
            kept = resumed_options(context, *known)
            kept.apply(known[0].trainer)
            missing, seed = Missing(kept.values["missing"]), kept.values["seed"]
        with console.sigterm_as_interrupt():  # a pipe may be silent for long
            opened = run_source(
                source,
                out,
                columns=columns,
                id_column=id_column,
                bad_rows=bad_rows,
                missing=missing,
                follow=follow,
                seed=seed,
            )()
        stack.enter_context(closing(opened))
        say_unused(context, follow=None if opened.grows or not follow else f"on {opened.name}, which cannot grow")
        options = RunOptions(
            passes=None if follow and opened.grows else 1,
            checkpoint_every=checkpoint_every,
            checkpoint_seconds=LIVE_SECONDS if dashboard else RunOptions.checkpoint_seconds,
            missing=missing.value,
            seed=seed,
            keep=keep,
            rows=not no_rows,
        )
        state = _state(None if known is None else known[1])
        outbox = stack.enter_context(Outbox(out, targets, console.say, length=_length(state, opened, resume)))
        watcher = Watcher(outbox, WatchOptions(contamination, max_p, fdr, explain, only_anomalies), state)
        stack.enter_context(live_page(out, port, dashboard))
        note_figures = stack.enter_context(served_metrics(metrics_port))
        stopped = stack.enter_context(console.stop_on_signals())
        run = TrainingRun(out, opened, settings, Serial(), options, watcher=watcher)

        def stop() -> bool:
            note_figures(lambda: figures_of(run, watcher.state.flagged))
            enough = samples is not None and run.progress.samples >= samples and run.trainer is not None
            return stopped() or enough

        run.stop = stop
        if known is not None:
            _resume(run, kept, *known)
        learned_before = run.progress.samples
        said = known is not None and known[0].trainer.annealed
        with (
            live_line("watch", lambda: samples or run.expected_samples, console.shows_progress()) as show,
            console.warnings_as_lines(),
        ):
            first = True
            for status in run.go():
                if first:
                    write_settings(out, context, {"alert_to": alert_to, **kept.values})
                    first = False
                if not said and watcher.state.judged:
                    said = True
                    before = run.progress.samples - watcher.state.judged
                    console.say(f"annealing has finished: rows are judged from row {before:,} on")
                show(status.samples, status.check)
        if not outbox.drain(0.0 if stopped() else DRAIN_SECONDS):
            for name, waiting in outbox.waiting:
                if waiting:
                    console.say(f"{waiting:,} alerts wait for {name}; they are sent when the run is resumed")
        _say_result(run, watcher.state, learned_before)


def _state(record: RunRecord | None) -> WatchState:
    from streamgmm.errors import ModelFileError
    from streamgmm.runs.watch import WatchState

    if record is None or record.watch is None:
        return WatchState()
    try:
        return WatchState.from_facts(record.watch)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        raise ModelFileError(f"the checkpoint does not say where watching stands ({problem!s:.100}).") from problem


def _length(state: WatchState, source: Source, resume: bool) -> int | None:
    """Return up to where alerts are kept: later ones are found again, unless nothing keeps the rows."""
    if not resume:
        return 0
    return None if source.live else state.alerts


def _resume(run: TrainingRun, kept: Resumed, *known: Any) -> None:
    same_source = run.resume(*known)
    console.say(f"resuming after {console.count(run.progress.samples, 'sample')}, with the settings of the run")
    if not same_source:
        console.say(f"{run.source.name} is new to this run: watching it from its beginning")
    for line in kept.lines:
        console.say(line)


def _say_result(run: TrainingRun, state: WatchState, learned_before: int) -> None:
    if run.trainer is None:
        raise CommandError("stopped before anything was learned; nothing is saved. Start again.")
    ending = "" if run.progress.finished else " Stopped: continue with --resume."
    share = f" ({state.flagged / state.judged:.2%})" if state.judged else ""
    console.say(f"{console.count(state.judged, 'row')} judged, {state.flagged:,} of them anomalies{share}.{ending}")
    if learned_before and run.progress.samples == learned_before:
        console.say(f"this run had already read {run.source.name}, and there are no new rows")
    elif not state.judged:
        learned = console.count(run.progress.samples, "sample")
        console.say(
            f"no row was judged: annealing has not finished after {learned}. Train on past data first, or continue "
            "with --resume."
        )
    console.say_bad_rows(run.bad, run.progress.bad)
