"""The figures of the paper, and curves of the claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from streamgmm import plots
from streamgmm.checkpoint import load
from streamgmm.grid import torus
from streamgmm.mixture import Mixture
from streamgmm.paper import claims, drift
from streamgmm.paper.plan import Plan, Table, last
from streamgmm.paper.published import NAMES
from streamgmm.paper.runs import Run, measure_all
from streamgmm.paper.training_runs import data_of, feed, model_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEM = {"step_init": 0.05, "step_decay": 0.25, "step_min": 0.001}
WIDEST = ("svhn", "fruits360")
SHARPNESS = {"centroids-fruits360": 55, "centroids": 60, "sem": 40}  # dots per inch: pictures of noise hardly compress


def runs(plan: Plan) -> dict[str, Run]:
    """By the name of the picture."""
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
    """Curves are drawn from the runs of the claims and of drift."""
    of_drift = [run for group in drift.runs(plan).values() for run in group]
    return [*runs(plan).values(), *claims.expected(plan), *of_drift]


def measure(run: Run) -> dict[str, Any]:
    """Trains a model and leaves it beside the records."""
    data, model, order = data_of(run), model_of(run), np.random.default_rng([run.seed, 1])
    checks = []
    for _ in range(run.passes):
        checks += feed(model, data.x_train, order.permutation(len(data.x_train)))
    _model(run).parent.mkdir(parents=True, exist_ok=True)
    model.save(_model(run))
    events = [{"samples": c.samples, **c._asdict()} for c in checks]
    return {"events": events[:: max(1, len(events) // 400)], "shape": list(data.shape or ())}


def pictures(plan: Plan) -> list[Table]:
    """Draws them, and gives their names."""
    table = Table("Figures", f"In {plan.folder / 'pictures'}.", ["picture"])
    table.rows = [[path.name] for path in draw(plan)]
    return [table]


def draw(plan: Plan) -> list[Path]:
    """Draws all pictures into the folder ``pictures`` beside the records."""
    wanted = runs(plan)
    for run in wanted.values():
        if not _model(run).exists():
            (plan.folder / run.file).unlink(missing_ok=True)  # a record without its model is no use
    found = measure_all(wanted.values(), measure, plan.folder, plan.jobs, "figures")
    place = plan.folder / "pictures"
    place.mkdir(parents=True, exist_ok=True)
    drawn: dict[str, Figure] = {"filters": plots.filters(torus(64), (2.0, 0.8, 0.3))}
    for name, run in wanted.items():
        state = load(_model(run)).state
        shape = found[run.file]["shape"]
        drawn[name] = plots.centroids(Mixture.view(state.parameters), state.grid, shape)
        if name == "centroids-mnist":
            drawn["curve-mnist"] = plots.curve(found[run.file]["events"])
    drawn.update(_claim_curves(plan))
    if trade_off := drift.curves(plan):
        drawn["half-life"] = plots.trade_off(trade_off)
    paths = []
    for name, figure in drawn.items():
        paths.append(place / f"{name}.png")
        figure.savefig(paths[-1], dpi=next((d for start, d in SHARPNESS.items() if name.startswith(start)), 90))
    return paths


def _model(run: Run) -> Path:
    return Path(run.data["model"]) / f"{Path(run.file).stem}.safetensors"


def _claim_curves(plan: Plan) -> dict[str, Figure]:
    """One picture a parameter: log-likelihood relative to the best, for each data set."""
    chosen, results, drawn = claims.names(plan), claims.results(plan), {}
    for sweep in claims.SWEEPS:
        if sweep.parameter == "grid" or not chosen:
            continue
        lines = {}
        for name in chosen:
            groups = claims.sweep_runs(plan, sweep, name)
            values = {float(v): last(results, g, "max_component") for v, g in groups.items()}
            lines[NAMES[name]] = values
        title = f"{sweep.symbol}, {sweep.rule}"
        drawn[f"effect-{sweep.parameter}-{sweep.rule}"] = plots.effects(lines, title)
    return drawn
