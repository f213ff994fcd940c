"""The figures of the paper, and curves of the claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgmm import plots
from streamgmm.core.control import Check
from streamgmm.core.grid import torus
from streamgmm.paper import claims, drift
from streamgmm.paper.comparison import last
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import data_of, feed, trainer_of
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Run, measure_all
from streamgmm.storage.model_file import SavedModel, load_model, save_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEM = {"step_init": 0.05, "step_decay": 0.25, "step_min": 0.001}
WIDEST = ("svhn", "fruits360")
RESOLUTION = {"centroids-fruits360": 55, "centroids": 60, "sem": 40}  # dots per inch: noisy images compress badly
CURVE_POINTS = 400


def runs(plan: Plan) -> dict[str, Run]:
    """Return the runs by name of the picture.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted: dict[str, Run] = {}
    folder = str(plan.folder / "models")
    for name in plan.names:
        part = plan.part(name, model=folder)
        if name != "isolet":
            wanted[f"centroids-{name}"] = Run(name, "sgd", 0, plan.passes, {"rule": "sgd"}, part)
        if name in WIDEST:
            wanted[f"sem-{name}"] = Run(name, "sem", 0, plan.passes, {"rule": "sem", "sem": SEM}, part)
    if "mnist" in plan.names:
        settings = {"rule": "sgd", "annealing": False}
        wanted["sparse"] = Run("mnist", "sgd", 0, plan.passes, settings, plan.part("mnist", model=folder))
    return wanted


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the figures need, including those of the claims and of drift.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [*runs(plan).values(), *claims.expected(plan), *drift.expected(plan)]


def measure(run: Run) -> dict[str, Any]:
    """Train a model and save it next to the records.

    Parameters
    ----------
    run : Run
        The run.
    """
    data, order = data_of(run), np.random.default_rng([run.seed, 1])
    trainer = trainer_of(run, data.n_features)
    checks: list[Check] = []
    for _ in range(run.passes):
        checks += feed(trainer, data.x_train, order.permutation(len(data.x_train)))
    path = _model_path(run)
    path.parent.mkdir(parents=True, exist_ok=True)
    save_model(path, SavedModel(trainer))
    events = [check._asdict() for check in checks]
    return {"events": events[:: max(1, len(events) // CURVE_POINTS)], "shape": list(data.shape or ())}


def make(plan: Plan) -> list[Table]:
    """Draw all figures, and return a table of their names.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    table = Table("Figures", f"Written to {plan.folder / 'pictures'}.", ["picture"])
    table.rows = [[path.name] for path in draw(plan)]
    return [table]


def draw(plan: Plan) -> list[Path]:
    """Draw all figures into the folder ``pictures`` next to the records; return their paths.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted = runs(plan)
    for run in wanted.values():
        if not _model_path(run).exists():
            (plan.folder / run.file).unlink(missing_ok=True)  # a record without its model is useless
    found = measure_all(wanted.values(), measure, plan.folder, plan.jobs, "figures")
    place = plan.folder / "pictures"
    place.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Figure] = {"filters": plots.filters(torus(64), (2.0, 0.8, 0.3))}
    for name, run in wanted.items():
        trainer = load_model(_model_path(run)).trainer
        drawn[name] = plots.centroids(trainer.mixture, trainer.grid, found[run.file]["shape"])
        if name == "centroids-mnist":
            drawn["curve-mnist"] = plots.curve(found[run.file]["events"])
    drawn.update(_claim_curves(plan))
    if trade_off := drift.curves(plan):
        drawn["half-life"] = plots.trade_off(trade_off)
    paths = []
    for name, figure in drawn.items():
        paths.append(place / f"{name}.png")
        figure.savefig(paths[-1], dpi=next((d for start, d in RESOLUTION.items() if name.startswith(start)), 90))
    return paths


def _model_path(run: Run) -> Path:
    return Path(run.data["model"]) / f"{Path(run.file).stem}.safetensors"


def _claim_curves(plan: Plan) -> dict[str, Figure]:
    """Draw one figure per parameter: log-likelihood relative to the best value, for each data set."""
    chosen, results, drawn = claims.names(plan), claims.results(plan), {}
    for sweep in claims.SWEEPS:
        if sweep.parameter == "grid" or not chosen:
            continue
        lines = {}
        for name in chosen:
            groups = claims.sweep_runs(plan, sweep, name)
            lines[NAMES[name]] = {float(v): last(results, g, "max_component") for v, g in groups.items()}
        title = f"{sweep.symbol}, {sweep.rule}"
        drawn[f"effect-{sweep.parameter}-{sweep.rule}"] = plots.effects(lines, title)
    return drawn
