"""The figures of the paper, and curves of the claims."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from streamgmm import plots
from streamgmm.core.control import Check
from streamgmm.core.grid import torus
from streamgmm.core.mixture import Mixture
from streamgmm.paper import claims, drift, outliers, sweeps
from streamgmm.paper.comparison import last
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import feed, trainer_of
from streamgmm.paper.plan import Plan
from streamgmm.paper.run_data import data_of, floats
from streamgmm.paper.runs import Run, measure_all
from streamgmm.storage.model_file import SavedModel, load_model, save_model

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SEM = {"step_init": 0.05, "step_decay": 0.25, "step_min": 0.001}
WIDEST = ("svhn", "fruits360")
SAMPLED = ("mnist", "fashionmnist")
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
    for name in plan.names if plan.own is None else ():
        part = plan.part(name, model=folder)
        if name != "isolet":
            wanted[f"centroids-{name}"] = Run(name, "sgd", 0, plan.passes, plan.settings("sgd"), part)
        if name in WIDEST:
            wanted[f"sem-{name}"] = Run(name, "sem", 0, plan.passes, plan.settings("sem", sem=SEM), part)
    if "mnist" in plan.names:
        settings = plan.settings("sgd", annealing=False)
        wanted["sparse"] = Run("mnist", "sgd", 0, plan.passes, settings, plan.part("mnist", model=folder))
    return wanted


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the figures need, including those of the claims and of drift.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    if plan.own is not None:
        return []
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
    return {
        "events": events[:: max(1, len(events) // CURVE_POINTS)],
        "shape": list(data.shape or ()),
        "sampling": _sampling(trainer.mixture, floats(data.x_test), run.seed),
    }


def _sampling(mixture: Mixture, test: npt.NDArray[np.float32], seed: int) -> dict[str, float]:
    """Compare samples of a mixture with test data: their log-likelihoods, and how well these tell them apart."""
    from sklearn.metrics import roc_auc_score

    drawn = mixture.sample(len(test), seed)[0]
    values = [mixture.max_component(x) for x in (drawn, test)]
    is_drawn = np.repeat([True, False], [len(v) for v in values])
    area = float(roc_auc_score(is_drawn, np.concatenate(values)))
    return {"drawn": float(values[0].mean()), "test": float(values[1].mean()), "auc": area}


def make(plan: Plan) -> list[Table]:
    """Draw all figures, and return a table of their names.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    if plan.own is not None:
        return []
    table = Table("Figures", f"Written to {plan.folder / 'pictures'}.", ["picture"])
    table.rows = [[path.name] for path in draw(plan)]
    wanted = {name: run for name, run in runs(plan).items() if run.dataset in SAMPLED and name != "sparse"}
    return [table, *([_sampling_table(plan, wanted)] if wanted else [])]


def _sampling_table(plan: Plan, wanted: dict[str, Run]) -> Table:
    found = measure_all(wanted.values(), measure, plan.folder, plan.jobs, "figures")
    table = Table(
        "Sampling",
        "As many samples drawn from the model as there are test samples: mean max-component log-likelihood of both, "
        "and the area under the ROC curve, in percent, if drawn samples are told from test samples by it (50: alike). "
        "Pixels of a component are independent, so drawn samples are noisy and lack atypical images.",
        ["data", "drawn", "test", "area"],
    )
    for run in wanted.values():
        values = found[run.file]["sampling"]
        table.rows.append(
            [plan.title(run.dataset), f"{values['drawn']:.1f}", f"{values['test']:.1f}", f"{100 * values['auc']:.1f}"]
        )
    return table


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
        if run.dataset in SAMPLED and name != "sparse":
            drawn[f"samples-{run.dataset}"] = plots.samples(trainer.mixture, shape=found[run.file]["shape"])
        if name == "centroids-mnist":
            drawn["curve-mnist"] = plots.curve(found[run.file]["events"])
    drawn.update(_claim_curves(plan))
    if areas := outliers.areas(plan):
        titles = [f"{plan.title(name)}, " for name in outliers.names(plan)]
        drawn["outliers"] = plots.areas(
            {t[:-2]: {label.removeprefix(t): a for label, a in areas.items() if label.startswith(t)} for t in titles}
        )
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
    chosen, results, drawn = sweeps.names(plan), claims.results(plan), {}
    for sweep in sweeps.SWEEPS:
        if not sweep.has_curve or not chosen:
            continue
        lines = {}
        for name in chosen:
            groups = sweeps.sweep_runs(plan, sweep, name)
            lines[plan.title(name)] = {float(v): last(results, g, "max_component") for v, g in groups.items()}
        title = f"{sweep.symbol}, {sweep.rule}"
        drawn[sweep.name] = plots.effects(lines, title)
    return drawn
