"""`streamgmm plot`, `streamgmm sample` and `streamgmm dashboard`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import numpy as np
import typer
from rich.console import Console
from rich.markup import escape

from streamgmm import events, keeping, plots
from streamgmm.keeping import Kept

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_DRAWN = 1024
people = Console(stderr=True)
LIVE_SECONDS = 2.0  # between two checkpoints of a run that somebody watches
EVENTS_DRAWN = 4000  # more points than a picture has columns

Shape = Annotated[str | None, typer.Option(help="Shape of a sample: 28x28, 32x32x3, or lines; guessed if not given.")]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of a run.")]


def plot(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a model file.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures; the run's own if not given.")] = None,
    shape: Shape = None,
    contamination: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Share below the anomaly threshold.")] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names of the pictures as JSON.")] = False,
) -> None:
    """Draws everything that a run has learned, and how."""
    folder, path = (run, run / keeping.MODEL) if run.is_dir() else (run.parent, run)
    kept = keeping.open_model(path)
    history = list(events.read(folder / keeping.EVENTS)) if (folder / keeping.EVENTS).exists() else []
    place = out or folder
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in _pictures(kept, history, _shape(shape, kept), contamination).items():
        figure.savefig(place / f"{name}.png", dpi=100)
        written.append(str(place / f"{name}.png"))
    if as_json:
        typer.echo(json.dumps(written))
    else:
        people.print(f"{len(written)} pictures in {escape(str(place))}: {', '.join(Path(w).name for w in written)}.")


def _pictures(
    kept: Kept, history: list[dict[str, object]], shape: tuple[int, ...] | None, contamination: float
) -> dict[str, Figure]:
    mixture, state = kept.model.mixture_, kept.model._training
    widths = (state.grid.widest, state.grid.widest / 3, max(state.annealing.sigma, 0.25))
    drawn = {
        "centroids": plots.centroids(mixture, state.grid, shape),
        "deviations": plots.deviations(mixture, state.grid, shape),
        "filters": plots.filters(state.grid, widths),
        "samples": plots.samples(mixture, 64, shape=shape),
        "usage": plots.usage(mixture.weights, state.usage),
    }
    if history:
        step = max(1, len(history) // EVENTS_DRAWN)
        some = [e for i, e in enumerate(history) if i % step == 0 or e.get("kind") != "check"]
        drawn["curve"] = plots.curve(some)
    if len(kept.recent.scores) >= 1 / contamination:
        values = np.array([kept.recent.scores.quantile(q) for q in (np.arange(2000) + 0.5) / 2000])
        drawn["scores"] = plots.scores(values, kept.recent.scores.quantile(contamination))
    if mixture.n_features >= 2:
        chosen = _widest_features(mixture.means)
        drawn["density"] = plots.density(mixture, *chosen, names=_names(kept, chosen))
    return drawn


def _widest_features(means: np.ndarray) -> tuple[int, int]:
    """The two features in which components differ the most."""
    first, second = np.argsort(-means.var(axis=0), kind="stable")[:2]
    return int(first), int(second)


def _names(kept: Kept, features: tuple[int, int]) -> list[str]:
    known = keeping.feature_names(kept.model)
    scaled = "" if kept.scaling is None else " (scaled)"
    return [(f"feature {i}" if known is None else known[i]) + scaled for i in features]


def _shape(text: str | None, kept: Kept) -> tuple[int, ...] | None:
    if text is None:
        return None
    if text == "lines":
        return (kept.model.n_features_in_,)
    parts = text.lower().split("x")
    shape = tuple(int(p) for p in parts if p.isdigit())
    if len(shape) != len(parts) or len(shape) not in (2, 3) or int(np.prod(shape)) != kept.model.n_features_in_:
        raise ValueError(
            f"shape {text!r} does not fit {kept.model.n_features_in_} features; "
            "expected rows x columns, rows x columns x 3 for colours, or lines."
        )
    return shape


def sample(
    model: ModelPath,
    out: Annotated[Path, typer.Option(help="A picture (.png), or numbers (.npz).")],
    number: Annotated[int, typer.Option("-n", "--number", min=1, help="Samples to draw.")] = 64,
    seed: Annotated[int, typer.Option(help="Seed of the draw.")] = 0,
    shape: Shape = None,
) -> None:
    """Draws samples from a model; numbers from a scaled run come in the units of its source, pictures as it learned."""
    kept = keeping.open_model(model / keeping.MODEL if model.is_dir() else model)
    if out.suffix == ".png":
        if number > MOST_DRAWN:
            raise ValueError(f"a picture has room for {MOST_DRAWN} samples; {number:,} of them go into a .npz file.")
        plots.samples(kept.model.mixture_, number, seed, _shape(shape, kept)).savefig(out, dpi=100)
    elif out.suffix == ".npz":
        rows, components = kept.model.mixture_.sample(number, seed)
        if kept.scaling is not None:
            rows = rows / kept.scaling.factor + kept.scaling.shift
        np.savez(out, x=rows, components=components)
    else:
        raise ValueError(f"{out} is neither a .png nor a .npz file.")
    people.print(f"{number:,} samples in {escape(str(out))}.")


def dashboard(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run that goes on, has ended, or will begin.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of the page; 0 takes any that is free.")] = 5006,
    address: Annotated[str, typer.Option(help="Only this machine: 127.0.0.1.")] = "127.0.0.1",
    beside: Annotated[bool, typer.Option("--beside", hidden=True)] = False,
) -> None:
    """Serves the live page of a run to this machine, until Ctrl-C."""
    try:
        from streamgmm.dashboard.server import serve
    except ImportError as problem:
        raise ImportError("the live page needs Bokeh: pip install 'streamgmm[dashboard]'") from problem
    if beside:
        threading.Thread(target=_end_with_input, daemon=True).start()
    serve(run, port, address, ready=lambda page: typer.echo(f"{page}  (Ctrl-C ends it)"))


def _end_with_input() -> None:
    """Ends this process when standard input does: whoever has started it is no more, however that came."""
    while os.read(sys.stdin.fileno(), 1):
        pass
    os._exit(0)


@contextmanager
def page_beside(run: Path, port: int, wanted: bool) -> Iterator[None]:
    """The page in a process of its own, for as long as the block lasts; a person at a terminal may look on after it."""
    if not wanted:
        yield
        return
    command = [sys.executable, "-m", "streamgmm.cli", "dashboard", str(run), "--port", str(port), "--beside"]
    pipe = subprocess.PIPE
    page = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert page.stdout is not None
    try:
        said = page.stdout.readline()
        if said:
            people.print(f"live page: [bold]{said.split()[0]}[/bold]")
        else:
            people.print(f"there is no live page; training goes on. Try streamgmm dashboard {escape(str(run))}")
        yield
        if said and sys.stdout.isatty():
            people.print("the run is over; the page stays until Ctrl-C")
            with suppress(KeyboardInterrupt):
                page.wait()
    finally:
        page.terminate()
        page.communicate()
