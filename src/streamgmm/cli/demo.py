"""``streamgmm demo``"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from streamgmm.cli import console
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import NO_PAGE, LivePage, Port, say_unused

if TYPE_CHECKING:
    from streamgmm.core.trainer import Trainer

SOURCE, OLD_SOURCE = "demo glyphs", "glyphs:A-J"
TEST_IMAGES = 5000
RUNS: dict[str, dict[str, Any]] = {
    "natural": {"rule": "natural"},
    "sgd": {"rule": "sgd"},
    "sgd, not annealed": {"rule": "sgd", "annealing": False},
}


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="Folder for the run and its pictures.")] = Path("runs/demo"),
    samples: Annotated[int, typer.Option(min=1, help="Images to learn from.")] = 100_000,
    components: Annotated[int, typer.Option(min=1, help="Number of components.")] = 64,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the start and of the stream.")] = 0,
    dashboard: LivePage = False,
    port: Port = 5006,
    as_json: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON.")] = False,
) -> None:
    """Learn letters from a built-in stream, and draw the result.

    The default rule is compared with SGD, and with SGD without annealing.

    Examples:

      streamgmm demo

      streamgmm demo --samples 300000 --dashboard
    """
    from streamgmm import plots
    from streamgmm.cli.live_page import LIVE_SECONDS, live_page
    from streamgmm.storage import events
    from streamgmm.storage.run_folder import EVENTS, locked

    say_unused(context, port=None if dashboard else NO_PAGE)
    with locked(out):
        _clear(out)
        results = []
        histories: dict[str, list[dict[str, Any]]] = {}
        with live_page(out, port, dashboard), TemporaryDirectory() as elsewhere:
            for number, (label, settings) in enumerate(RUNS.items()):
                folder = out if number == 0 else Path(elsewhere) / str(number)  # the first is the one that is kept
                folder.mkdir(exist_ok=True)
                seconds = LIVE_SECONDS / 8 if dashboard and number == 0 else 60.0
                task = _Task(folder, label, samples, seed, seconds)
                trainer, result = _learn(task, {"n_components": components, "scale": "none", **settings})
                results.append(result)
                histories[label] = list(events.read(folder / EVENTS))
                if number == 0:
                    plots.centroids(trainer.mixture, trainer.grid).savefig(out / "centroids.png", dpi=110)
        first, *others = histories
        compared = {f"max-component, {label}": histories[label] for label in others}
        plots.curve(histories[first], compared).savefig(out / "curve.png", dpi=110)
    if as_json:
        typer.echo(json.dumps({"out": str(out), "runs": results}))
    else:
        _say_results(results, samples, components, out)


class _Task(NamedTuple):
    """One of the runs of the demo."""

    folder: Path
    label: str
    samples: int
    seed: int
    checkpoint_seconds: float


def _clear(out: Path) -> None:
    """Remove an earlier demo; refuse to touch any other run."""
    from streamgmm.storage import events
    from streamgmm.storage.model_file import read_model_file
    from streamgmm.storage.run_folder import EVENTS, MODEL, PREVIOUS

    source = None
    if (out / MODEL).exists():
        header, _ = read_model_file(out / MODEL)
        source = (header.get("run") or {}).get("source")
    if source is None and (out / EVENTS).exists():  # demos of 0.1 have no record of their run
        source = next((event.get("source") for event in events.read(out / EVENTS)), None)
    if source not in (SOURCE, OLD_SOURCE) and any((out / name).exists() for name in (MODEL, EVENTS)):
        raise CommandError(f"{out} holds the model of a training. Choose another folder for the demo.")
    for name in (MODEL, PREVIOUS, EVENTS):
        (out / name).unlink(missing_ok=True)


def _learn(task: _Task, settings: dict[str, Any]) -> tuple[Trainer, dict[str, Any]]:
    """Learn one pass over the glyphs by the same run as ``streamgmm train``."""
    import numpy as np

    from streamgmm.core.settings import Settings
    from streamgmm.engines import Serial
    from streamgmm.progress import live_line
    from streamgmm.runs.options import RunOptions
    from streamgmm.runs.train import TrainingRun
    from streamgmm.sources.synthetic.glyphs import FiniteGlyphs, Glyphs

    source = FiniteGlyphs(task.samples, seed=task.seed, name=SOURCE)
    options = RunOptions(checkpoint_seconds=task.checkpoint_seconds, seed=task.seed)
    run = TrainingRun(task.folder, source, Settings(**settings), Serial(), options)
    begin = time.perf_counter()
    with live_line(task.label, task.samples, enabled=console.shows_progress()) as show:
        for status in run.go():
            show(status.samples, status.check)
    seconds = time.perf_counter() - begin
    assert run.trainer is not None
    test, _ = Glyphs(seed=task.seed + 1).take(0, TEST_IMAGES)
    likelihood, best, winner = run.trainer.mixture.scores(test)
    return run.trainer, {
        "run": task.label,
        "log_likelihood": round(float(likelihood.mean()), 2),
        "max_component": round(float(best.mean()), 2),
        "live": len(np.unique(winner)),
        "components": run.trainer.n_components,
        "samples_per_second": round(task.samples / seconds),
    }


def _say_results(results: list[dict[str, Any]], samples: int, components: int, out: Path) -> None:
    from rich.table import Table

    table = Table(title=f"{samples:,} glyphs, one pass, {components} components; {TEST_IMAGES:,} held-out images")
    for heading in ("", "log-likelihood", "components in use", "samples/s"):
        table.add_column(heading, justify="left" if not heading else "right")
    for r in results:
        in_use = f"{r['live']} of {components}"
        table.add_row(r["run"], f"{r['log_likelihood']:.1f}", in_use, f"{r['samples_per_second']:,}")
    console.print_table(table)
    console.say(f"Wrote model.safetensors, events.jsonl, centroids.png and curve.png to {out}.")
