"""Commands. Data go to standard output, words for people to standard error."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import streamgmm
from streamgmm import checkpoint, commands, datasets, events, inputs, keeping, looking, plots, training
from streamgmm.estimator import StreamingGaussianMixture
from streamgmm.paper import tables
from streamgmm.paper.plan import Plan
from streamgmm.progress import live_line
from streamgmm.streams.glyphs import Glyphs

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
people = Console(stderr=True)
CORES = inputs.threads(-1)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(streamgmm.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Show it.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Gaussian mixtures that learn from streams."""


class _Run(NamedTuple):
    model: StreamingGaussianMixture
    records: list[dict[str, Any]]
    result: dict[str, Any]


def _train_on_glyphs(
    label: str, samples: int, model: StreamingGaussianMixture, seed: int, test: Any, live: Path | None = None
) -> _Run:
    """One pass over the glyph stream, with a live line; ``test`` is held out, ``live`` is a folder that is watched."""
    components, rule = model.n_components, str(model.rule)
    stream = Glyphs(seed=seed).chunks(1000)
    model._start(test)
    start = training.current(model._training)
    records = [events.record("start", start, 0.0, source="glyphs:A-J", components=components, rule=rule)]
    begin, done, shown = time.perf_counter(), 0, 0.0
    with live_line(label, samples) as show:
        while done < samples:
            chunk = next(stream)[: samples - done]
            checks = model._learn(chunk)
            done += len(chunk)
            records += [events.record("check", c, time.perf_counter() - begin) for c in checks]
            if live is not None and time.perf_counter() - shown > looking.LIVE_SECONDS / 8:
                _leave(live, model, records)
                shown = time.perf_counter()
            show(done, training.current(model._training))
    seconds = time.perf_counter() - begin
    records.append(events.record("end", training.current(model._training), seconds))
    result = {
        "run": label,
        "log_likelihood": round(float(model.score_samples(test).mean()), 2),
        "max_component": round(float(model.max_component_score_samples(test).mean()), 2),
        "live": len(np.unique(model.predict(test))),
        "components": components,
        "samples_per_second": round(samples / seconds),
    }
    return _Run(model, records, result)


def _leave(folder: Path, model: StreamingGaussianMixture, records: list[dict[str, Any]]) -> None:
    """Writes a run as far as it has come."""
    model.save(folder / "model.safetensors")
    checkpoint.write_atomically(folder / "events.jsonl", events.lines(records).encode())


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder for the run.")] = Path("runs/demo"),
    samples: Annotated[int, typer.Option(min=1, help="Images to learn from.")] = 100_000,
    components: Annotated[int, typer.Option(min=1, help="Number of Gaussians.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the start and of the stream.")] = 0,
    dashboard: Annotated[bool, typer.Option("--dashboard", help="Serve a live page meanwhile.")] = False,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the live page.")] = 5006,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Learns letters from the built-in glyph stream, by three rules, and draws what came out."""
    if (out / keeping.MODEL).exists() and "run" in keeping.open_model(out / keeping.MODEL).facts:
        raise ValueError(f"{out} holds the model of a training. Choose another folder for the demo.")
    out.mkdir(parents=True, exist_ok=True)
    with looking.page_beside(out, port, dashboard):
        _demo(out, samples, components, seed, as_json, dashboard)


def _demo(out: Path, samples: int, components: int, seed: int, as_json: bool, watched: bool) -> None:
    test, _ = Glyphs(seed=seed + 1).take(0, 5000)
    kinds: dict[str, dict[str, Any]] = {
        "natural": {"rule": "natural"},
        "sgd": {"rule": "sgd"},
        "sgd, not annealed": {"rule": "sgd", "annealing": False},
    }
    runs: list[_Run] = []
    for label, settings in kinds.items():
        model = StreamingGaussianMixture(components, random_state=seed, **settings)
        live = out if watched and not runs else None  # the first is the one that is kept
        runs.append(_train_on_glyphs(label, samples, model, seed, test, live))

    best, *others = runs
    _leave(out, best.model, best.records)
    plots.centroids(best.model.mixture_, best.model._training.grid).savefig(out / "centroids.png", dpi=110)
    compared = {f"max-component, {r.result['run']}": r.records for r in others}
    plots.curve(best.records, compared).savefig(out / "curve.png", dpi=110)

    results = [r.result for r in runs]
    if as_json:
        typer.echo(json.dumps({"out": str(out), "runs": results}))
        return
    table = Table(title=f"{samples:,} glyphs, one pass, {components} components; 5,000 held-out images")
    for heading in ("", "log-likelihood", "components in use", "samples/s"):
        table.add_column(heading, justify="left" if not heading else "right")
    for r in results:
        in_use = f"{r['live']} of {components}"
        table.add_row(r["run"], f"{r['log_likelihood']:.1f}", in_use, f"{r['samples_per_second']:,}")
    people.print(table)
    people.print(
        f"Wrote model.safetensors, events.jsonl, centroids.png and curve.png to [bold]{escape(str(out))}[/bold]."
    )


app.command()(commands.train)
app.command()(commands.score)
app.command()(looking.plot)
app.command()(looking.sample)
app.command()(looking.dashboard)

paper = typer.Typer(no_args_is_help=True, help="Tables of measured results, each made by one command.")
app.add_typer(paper, name="paper")

Names = Annotated[list[str] | None, typer.Option("--dataset", help="Only these data sets.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds per data set (Fruits: at most 3).")]
Jobs = Annotated[int, typer.Option(min=1, help="Processes.")]
Records = Annotated[Path, typer.Option("--out", help="Folder for records of runs; what is there is not run again.")]
Quick = Annotated[bool, typer.Option("--quick", help="Few rows, one pass, one seed: to see that it works.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")]


def _known(chosen: list[str] | None) -> list[str]:
    if unknown := set(chosen or []) - set(datasets.FILES):
        raise ValueError(f"data set {sorted(unknown)[0]!r} is unknown; expected one of {', '.join(datasets.FILES)}.")
    return chosen or list(datasets.FILES)


def _make_tables(wanted: list[str], plan: Plan, as_json: bool) -> None:
    datasets.ensure(plan.names)
    people.print(
        f"{', '.join(wanted)}: about {tables.seconds(wanted, plan) / 60:.0f} minutes; records in {plan.folder}"
    )
    made = {name: tables.make(name, plan) for name in wanted}
    if as_json:
        typer.echo(json.dumps({name: [asdict(t) for t in group] for name, group in made.items()}))
    else:
        typer.echo("\n".join(t.markdown() for group in made.values() for t in group))


def _paper_command(name: str, wanted: list[str], words: str) -> None:
    @paper.command(name, help=words)
    def command(
        dataset: Names = None,
        seeds: Seeds = 10,
        jobs: Jobs = CORES,
        out: Records = Path("runs/paper"),
        quick: Quick = False,
        as_json: AsJson = False,
    ) -> None:
        folder = out / "quick" if quick else out
        _make_tables(wanted, Plan(_known(dataset), seeds, jobs, folder, quick), as_json)


for _name, _words in {
    "initialisation": "Robustness to the start, and what annealing adds.",
    "clustering": "Davies-Bouldin score and Dunn index, SGD against stochastic EM.",
    "streaming": "SGD, stochastic EM and the natural rule on the seven data sets.",
    "drift": "MNIST classes 1-8, then 0, then 9.",
    "claims": "What the paper says in passing, and the effect of every parameter.",
    "figures": "Centroids, filters, curves.",
    "rules": "SGD, stochastic EM, the natural rule and batch EM from k-means.",
}.items():
    _paper_command(_name, [_name], _words)
_paper_command("all", tables.OF_THE_PAPER, "All of them but rules.")


def main() -> None:
    """Runs a command; what goes wrong is said in one line unless --debug asks for the traceback."""
    try:
        app()
    except BrokenProcessPool:
        people.print("[red]streamgmm:[/red] a process was killed, perhaps for want of memory. Try fewer with --jobs.")
        sys.exit(1)
    except (ValueError, OSError, ImportError) as problem:
        if "--debug" in sys.argv:
            raise
        people.print(f"[red]streamgmm:[/red] {escape(str(problem))}", highlight=False)
        sys.exit(1)


if __name__ == "__main__":
    main()
