"""`streamgmm train` and `streamgmm score`."""

from __future__ import annotations

import json
import signal
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from streamgmm import keeping, running, scoring
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.looking import LIVE_SECONDS, page_beside
from streamgmm.progress import live_line
from streamgmm.rules import RULES
from streamgmm.streams import Bad, open_source

people = Console(stderr=True)
TOLD = 5  # rows left out that people hear of; events tell more


class BadRows(StrEnum):
    stop = "stop"
    skip = "skip"


class Scale(StrEnum):
    none = "none"
    minmax = "minmax"
    standard = "standard"


class Missing(StrEnum):
    error = "error"
    learn = "learn"
    skip = "skip"


SourceName = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE", help="A file, a folder of images, '-', kafka://host:port/topic, or glyphs:A-E,F-J."
    ),
]
ColumnNames = Annotated[str | None, typer.Option("--columns", help="Features, separated by commas; all if not given.")]
IdColumn = Annotated[str | None, typer.Option("--id", help="A column to keep beside the scores, not a feature.")]
OnBadRows = Annotated[BadRows, typer.Option("--bad-rows", help="What to do with rows that cannot be read.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")]


def train(
    source: SourceName,
    out: Annotated[Path, typer.Option(help="Folder of the run: model.safetensors, events.jsonl.")],
    rule: Annotated[str, typer.Option(help="natural, sgd or sem.")] = "natural",
    components: Annotated[int, typer.Option(min=1, help="Number of Gaussians.")] = 64,
    passes: Annotated[int, typer.Option(min=1, help="Passes over the source.")] = 1,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more when the source ends.")] = False,
    samples: Annotated[int | None, typer.Option(min=1, help="Stop after about so many samples.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the start.")] = 0,
    precision_max: Annotated[float, typer.Option(help="Largest precision of a feature.")] = 20.0,
    half_life: Annotated[
        float | None, typer.Option(help="In samples: what was learned so long ago counts half.")
    ] = None,
    reheat: Annotated[bool, typer.Option("--reheat", help="Anneal again when the stream has changed.")] = False,
    scale: Annotated[Scale, typer.Option(help="Scale features by what the first 1000 rows show.")] = Scale.none,
    missing: Annotated[
        Missing, typer.Option(help="Numbers that are missing: learn from the others, or skip the row.")
    ] = Missing.error,
    jobs: Annotated[int, typer.Option(help="Threads.")] = 1,
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Samples between two checkpoints.")] = 100_000,
    resume: Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the folder.")] = False,
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Serve a live page meanwhile.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the live page.")] = 5006,
    as_json: AsJson = False,
) -> None:
    """Learns from a source; a stop at any moment loses nothing: --resume goes on."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file; --out wants a folder.")
    if out.exists() and any(out.iterdir()) and not resume:
        raise ValueError(f"{out} is not empty. Go on with --resume, or choose another folder.")
    if rule not in RULES:
        raise ValueError(f"--rule is {rule!r}; expected {', '.join(RULES)}.")
    if jobs == 0:
        raise ValueError("--jobs is 0; expected a number of threads, or -1 for all cores.")
    settings: dict[str, Any] = {"rule": rule, "precision_max": precision_max, "half_life": half_life, "n_jobs": jobs}
    settings |= {"reheat": reheat, "allow_nan": missing is Missing.learn}
    model = StreamingGaussianMixture(components, random_state=seed, **settings)
    model._validate_params()
    if source == "-" and passes > 1:
        raise ValueError(f"standard input can be read only once; --passes {passes} needs a file.")
    with keeping.alone(out):
        with _warnings_for_commands():
            known = keeping.resume(out) if resume else None
        kept_missing = missing if known is None else _kept_missing(known[0], missing)
        with _ended_by_sigterm():  # a pipe may be silent for long
            opened = open_source(
                source,
                columns=_names(columns),
                id_column=id_column,
                skip_bad=bad_rows is BadRows.skip,
                missing=kept_missing is not Missing.error,
                follow=follow,
                seed=seed,
            )
        if follow and not opened.grows:
            people.print(f"{escape(opened.name)} cannot grow: --follow will wait for nothing until it is stopped")
        with page_beside(out, port, dashboard), _signals() as stopped:
            journey = running.Journey(out, opened, model, None if follow else passes, checkpoint_every)
            journey.scale, journey.missing = scale.value, kept_missing.value
            if dashboard:
                journey.checkpoint_seconds = LIVE_SECONDS
            if known is not None:
                kept, journey.place = known
                journey.model, journey.scaling, journey.recent = kept.model, kept.scaling, kept.recent
                journey.scale = kept.facts["scale"]
                people.print(f"going on after {journey.place.samples:,} samples, with the settings of the run")
                if not keeping.same_source(kept.facts, opened):
                    journey.place.epoch, journey.place.position = 0, None
                    journey.recent.forget_rows()
                    people.print(f"{escape(opened.name)} is new to this run: it is learned from its beginning")
                elif source == "-" and journey.place.position is not None:
                    rows = journey.place.position["row"]
                    people.print(f"the first {rows:,} rows of standard input are passed over: they were learned before")
            journey.stop = lambda: (
                stopped() or (samples is not None and journey.place.samples >= samples and journey.started)
            )
            total = samples or (None if follow or opened.n_rows is None else opened.n_rows * passes)
            with live_line("train", total) as show, _warnings_for_commands():
                for word in journey.go():
                    show(word.samples, word.check)
    place = journey.place
    if not journey.model.__sklearn_is_fitted__():
        raise ValueError("stopped before anything was learned; nothing is kept. Start again.")
    final = journey.model._training
    outcome = {
        "out": str(out),
        "samples": final.n_samples,
        "bad_rows": place.bad,
        "first_bad": [b._asdict() for b in journey.bad],
        "missing_rows": place.missing + final.skipped,
        "scale": journey.scale,
        "finished": place.finished,
        "max_component": final.annealing.max_component,
        "sigma": final.annealing.sigma,
        "live": final.live,
    }
    if as_json:
        typer.echo(json.dumps(outcome))
        return
    skipped = f", {place.bad:,} bad rows left out" if place.bad else ""
    if place.missing + final.skipped:
        skipped += f", {place.missing + final.skipped:,} rows with missing numbers left out"
    if journey.scale != "none":
        skipped += f"; parameters and likelihoods refer to data scaled by '{journey.scale}'"
    ending = "" if place.finished else " Stopped before the end: go on with --resume."
    people.print(
        f"{final.n_samples:,} samples learned{skipped}; the model is {escape(str(out / keeping.MODEL))}.{ending}"
    )
    _tell_bad(journey.bad, place.bad)
    names = keeping.feature_names(journey.model)
    if names is not None:
        shown = ", ".join(names[:8]) + (" …" if len(names) > 8 else "")
        people.print(escape(f"features: {shown}"))
    if final.annealing.sigma > final.schedule.sigma_min:
        people.print(
            f"annealing is not over (σ {final.annealing.sigma:.3g}): the model is still coarse. Give it more samples, "
            "or more --passes."
        )


def score(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of a run.")],
    source: SourceName,
    out: Annotated[
        Path | None, typer.Option(help="A .csv, .ndjson or .parquet file; standard output if not given.")
    ] = None,
    contamination: Annotated[
        float | None,
        typer.Option(
            min=1e-6,
            max=0.5,
            help="Share of usual data that may be flagged; 0.01 unless a saved detector knows better.",
        ),
    ] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Stop after so many rows.")] = None,
    columns: ColumnNames = None,
    id_column: IdColumn = None,
    bad_rows: OnBadRows = BadRows.stop,
    as_json: Annotated[bool, typer.Option("--json", help="Lines of JSON instead of CSV on standard output.")] = False,
) -> None:
    """Scores every row of a source: log-likelihood, best component, p-value, and whether it is an anomaly."""
    kept = keeping.open_model(model / keeping.MODEL if model.is_dir() else model)
    contamination = contamination or float((kept.facts.get("detector") or {}).get("contamination", 0.01))
    opened = open_source(
        source,
        columns=_names(columns),
        id_column=id_column,
        skip_bad=bad_rows is BadRows.skip,
        missing=scoring.takes_gaps(kept),
    )
    if out is not None and not out.parent.is_dir():
        raise ValueError(f"the folder {out.parent} does not exist; make it, or choose another for {out.name}.")
    if out is not None and Path(source).exists() and out.exists() and out.samefile(source):
        raise ValueError(f"{out} is what is to be scored; choose another file for the scores.")
    if kept.scaling is not None:
        people.print(f"rows are scaled by '{kept.scaling.kind}', as in training; likelihoods refer to scaled data")
    if len(kept.recent.scores) < 1 / contamination:
        people.print(
            "no p-values and no anomalies: the model has not seen enough of its stream since annealing ended "
            f"({len(kept.recent.scores):,} samples; --contamination {contamination:g} wants {1 / contamination:,.0f})"
        )
    with (
        _ended_by_sigterm(),
        scoring.writer(out, sys.stdout, "ndjson" if as_json else "csv", opened.id_type) as write,
        live_line("score", opened.n_rows) as show,
    ):
        done = flagged = left_out = 0
        first_bad: list[Bad] = []

        def report(bad: tuple[Bad, ...]) -> None:
            nonlocal left_out
            left_out += len(bad)
            first_bad.extend(bad[: TOLD - len(first_bad)])

        for found in scoring.scored(kept, opened, contamination, report):
            if samples is not None:
                found = {name: values[: samples - done] for name, values in found.items()}
            write(found)
            done += len(found["row"])
            flagged += int(found["anomaly"].sum()) if "anomaly" in found else 0
            show(done, None)
            if done == samples:
                break
    if out is not None:
        people.print(f"{done:,} rows scored into {escape(str(out))}; {flagged:,} of them are anomalies.")
    _tell_bad(first_bad, left_out)


def _tell_bad(first: Sequence[Bad], count: int) -> None:
    """Which rows were left out, and why; the first few."""
    for row, reason in first[:TOLD]:
        people.print(escape(f"left out: row {row} {reason}"))
    if count > TOLD:
        people.print(f"left out: {count - TOLD:,} more")


def _kept_missing(kept: keeping.Kept, missing: Missing) -> Missing:
    """What a run does about missing numbers; one that stopped for them may go on without such rows."""
    before = Missing(kept.facts["missing"])
    if missing is Missing.learn and before is not Missing.learn:
        raise ValueError("this run has not learned from rows with missing numbers; go on with --missing skip.")
    return missing if before is Missing.error else before


@contextmanager
def _warnings_for_commands() -> Iterator[None]:
    """Warnings as lines for people, who know options and not Python."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        text = str(message).replace(
            "Scale the data with sklearn.preprocessing.StandardScaler, or choose precision_max",
            "Scale the data with --scale standard, or choose --precision-max",
        )
        people.print(escape(text))

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


def _names(columns: str | None) -> list[str] | None:
    names = None if columns is None else [c.strip() for c in columns.split(",") if c.strip()]
    if names is not None and (not names or len(set(names)) < len(names)):
        raise ValueError(f"--columns is {columns!r}; expected names, separated by commas, each of them once.")
    return names


@contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Lets SIGTERM end what goes on as Ctrl-C does, so that it cleans up behind itself."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _signals() -> Iterator[Any]:
    """Ctrl-C and SIGTERM end a run after the chunk at hand, with a last checkpoint; a second one ends it at once."""
    caught: list[int] = []

    def note(number: int, frame: object) -> None:
        caught.append(number)
        if len(caught) > 1:
            raise KeyboardInterrupt
        people.print("stopping after a last checkpoint …")

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
