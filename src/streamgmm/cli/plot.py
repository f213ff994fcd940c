"""``streamgmm plot``"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import console
from streamgmm.cli.options import Shape, sample_shape
from streamgmm.cli.stacks import stack_pictures

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streamgmm.core.explanation import Reason
    from streamgmm.core.mixture import Mixture
    from streamgmm.storage import SavedModel

REASONS = 3  # features named for each of the strangest rows
SAMPLES_LISTED, DIRECTIONS_LISTED = 24, 3  # of a table, and of each of its components
EVENTS_DRAWN = 4000  # more points than a picture has columns


def plot(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a run, or a model file.")],
    out: Annotated[Path | None, typer.Option(help="Folder for the pictures. [default: that of the run]")] = None,
    shape: Shape = None,
    contamination: Annotated[float, typer.Option(min=1e-6, max=0.5, help="Share below the anomaly threshold.")] = 0.01,
    as_json: Annotated[bool, typer.Option("--json", help="Print the names of the pictures as JSON.")] = False,
) -> None:
    """Draw what a run has learned, and how.

    Pictures show means, deviations, samples, curves, scores, and why rows are strange. Values are in the units of the
    source, under the names of its columns. Of a stack of layers, it draws what the components of each layer expect to
    see, and samples.

    Examples:

      streamgmm plot run

      streamgmm plot run --shape 28x28 --out pictures
    """
    from streamgmm.storage import events, load_model
    from streamgmm.storage.run_folder import EVENTS, MODEL
    from streamgmm.storage.stack_file import holds_stack

    folder, path = (run, run / MODEL) if run.is_dir() else (run.parent, run)
    if holds_stack(path):
        drawn = stack_pictures(path)
    else:
        saved = load_model(path)
        history = list(events.read(folder / EVENTS)) if (folder / EVENTS).exists() else []
        drawn = _pictures(saved, history, sample_shape(shape, saved.trainer.n_features), contamination)
    place = out or folder
    place.mkdir(parents=True, exist_ok=True)
    written = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from font")  # names in scripts that it does not have
        for name, figure in drawn.items():
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

    trainer, mixture = saved.trainer, saved.mixture
    widths = (trainer.grid.widest, trainer.grid.widest / 3, max(trainer.sigma, 0.25))
    is_table = shape is None and plots.image_shape(mixture.n_features, saved.feature_names) is None
    names = saved.feature_names if is_table else None
    drawn = {
        "centroids": plots.centroids(mixture, trainer.grid, shape, names),
        "deviations": plots.deviations(mixture, trainer.grid, shape, names),
        "filters": plots.filters(trainer.grid, widths),
        "samples": plots.samples(mixture, 64 if names is None else SAMPLES_LISTED, shape=shape, names=names),
        "usage": plots.usage(mixture.weights, trainer.usage),
    }
    if mixture.covariance_type in ("full", "low_rank"):
        most = 6 if names is None else DIRECTIONS_LISTED
        drawn["directions"] = plots.directions(mixture, n_directions=most, shape=shape, names=names)
    if history:
        step = max(1, len(history) // EVENTS_DRAWN)
        drawn["curve"] = plots.curve([e for i, e in enumerate(history) if i % step == 0 or e.get("kind") != "check"])
    scores = typical_scores(saved)
    if scores.known:
        volume = 0.0 if saved.scaling is None else float(np.log(saved.scaling.factor).sum())
        values = np.interp((np.arange(2000) + 0.5) / 2000, scores.shares, scores.scores)
        drawn["scores"] = plots.scores(values + volume, scores.threshold(contamination) + volume)
    if mixture.n_features >= 2:
        chosen = _widest_features(mixture)
        drawn["density"] = plots.density(mixture, *chosen, names=[_name(saved, i) for i in chosen])
    if is_table and (strange := _reasons(saved)):
        drawn["strangest"] = plots.explanations(strange)
    return drawn


def _widest_features(mixture: Mixture) -> tuple[int, int]:
    """Return the two features in which components differ the most, compared with their deviations."""
    import numpy as np

    ratios = mixture.means.var(axis=0) / np.maximum(mixture.variances.mean(axis=0), np.finfo(np.float64).tiny)
    first, second = (-ratios).argsort(kind="stable")[:2]
    return int(first), int(second)


def _name(saved: SavedModel, feature: int) -> str:
    return f"feature {feature}" if saved.feature_names is None else saved.feature_names[feature]


def _reasons(saved: SavedModel) -> dict[str, list[Reason]]:
    """Return why the strangest rows are strange, by their names; none if the model cannot tell."""
    from streamgmm.plots.labels import row_name

    if saved.monitor is None or not len(saved.monitor.strangest.rows):
        return {}
    strangest = saved.monitor.strangest
    rows = strangest.rows if saved.scaling is None else saved.scaling.invert(strangest.rows)
    numbers = strangest.numbers.tolist()
    names = list(map(row_name, strangest.ids, numbers))
    if len(set(names)) < len(names):  # ids need not be unique
        names = [f"{name}, row {number:,}" for name, number in zip(names, numbers, strict=True)]
    return dict(zip(names, saved.mixture.explain(rows, saved.feature_names, REASONS), strict=True))
