"""``streamgmm plot``"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.options import Shape, sample_shape

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure

    from streamgmm.storage import SavedModel

EVENTS_DRAWN = 4000  # more points than a picture has columns


def plot(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a model file.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures. [default: that of the run]")] = None,
    shape: Shape = None,
    contamination: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Share below the anomaly threshold.")] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names of the pictures as JSON.")] = False,
) -> None:
    """Draw what a run has learned, and how: means, deviations, samples, curves, scores.

    Examples:

      streamgmm plot run

      streamgmm plot run --shape 28x28 --out pictures
    """
    from streamgmm.storage import events, load_model
    from streamgmm.storage.run_folder import EVENTS, MODEL

    folder, path = (run, run / MODEL) if run.is_dir() else (run.parent, run)
    saved = load_model(path)
    history = list(events.read(folder / EVENTS)) if (folder / EVENTS).exists() else []
    place = out or folder
    place.mkdir(parents=True, exist_ok=True)
    written = []
    chosen = sample_shape(shape, saved.trainer.n_features)
    for name, figure in _pictures(saved, history, chosen, contamination).items():
        figure.savefig(place / f"{name}.png", dpi=100)
        written.append(str(place / f"{name}.png"))
    if as_json:
        typer.echo(json.dumps(written))
    else:
        console.say(f"{len(written)} pictures in {place}: {', '.join(Path(w).name for w in written)}.")


def _pictures(
    saved: SavedModel, history: list[dict[str, Any]], shape: tuple[int, ...] | None, contamination: float
) -> dict[str, Figure]:
    import numpy as np

    from streamgmm import plots
    from streamgmm.runs.score import typical_scores

    trainer, mixture = saved.trainer, saved.trainer.mixture
    widths = (trainer.grid.widest, trainer.grid.widest / 3, max(trainer.sigma, 0.25))
    drawn = {
        "centroids": plots.centroids(mixture, trainer.grid, shape),
        "deviations": plots.deviations(mixture, trainer.grid, shape),
        "filters": plots.filters(trainer.grid, widths),
        "samples": plots.samples(mixture, 64, shape=shape),
        "usage": plots.usage(mixture.weights, trainer.usage),
    }
    if mixture.covariance_type in ("full", "low_rank"):
        drawn["directions"] = plots.directions(mixture, shape=shape)
    if history:
        step = max(1, len(history) // EVENTS_DRAWN)
        drawn["curve"] = plots.curve([e for i, e in enumerate(history) if i % step == 0 or e.get("kind") != "check"])
    scores = typical_scores(saved)
    if scores.known:
        values = np.interp((np.arange(2000) + 0.5) / 2000, scores.shares, scores.scores)
        drawn["scores"] = plots.scores(values, scores.threshold(contamination))
    if mixture.n_features >= 2:
        chosen = _widest_features(mixture.means)
        drawn["density"] = plots.density(mixture, *chosen, names=_names(saved, chosen))
    return drawn


def _widest_features(means: np.ndarray) -> tuple[int, int]:
    """Return the two features in which components differ the most."""
    first, second = (-means.var(axis=0)).argsort(kind="stable")[:2]
    return int(first), int(second)


def _names(saved: SavedModel, features: tuple[int, int]) -> list[str]:
    names, scaled = saved.feature_names, "" if saved.scaling is None else " (scaled)"
    return [(f"feature {i}" if names is None else names[i]) + scaled for i in features]
