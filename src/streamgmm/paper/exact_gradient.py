"""Claim: gradient ascent on the exact log-likelihood, beside that on the max-component bound, in plain NumPy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.paper.comparison import shown, summary
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import feed, trainer_of
from streamgmm.paper.plan import Plan
from streamgmm.paper.run_data import data_of, floats
from streamgmm.paper.runs import Run, measure_all

SETS = ("mnist", "fashionmnist")
SEEDS = 2
RATE = 0.001
SCALES = (1e-3, 20.0**0.5)
OBJECTIVES = ("max-component", "exact")
STARTS = ("random", "annealed")
NEGLIGIBLE = 1e-7


class Model(NamedTuple):
    """Free parameters of a mixture with diagonal covariances.

    Parameters
    ----------
    logits : array of shape (K,)
        Logarithms of weights, up to a constant.
    means : array of shape (K, D)
        Means.
    scales : array of shape (K, D)
        Square roots of precisions.
    """

    logits: npt.NDArray[np.float64]
    means: npt.NDArray[np.float64]
    scales: npt.NDArray[np.float64]


def ascend(model: Model, rows: npt.NDArray[np.float32], objective: str, rate: float = RATE) -> Model:
    """Take one gradient step per sample, [E7] to [E9] with responsibilities or the winner as shares.

    Parameters
    ----------
    model : Model
        Where to start.
    rows : array of shape (N, D)
        Samples, in their order.
    objective : {"max-component", "exact"}
        What to raise.
    rate : float, default=0.001
        Learning rate.
    """
    logits, means, scales = (a.copy() for a in model)
    log_dets = np.log(scales).sum(1)
    for x in rows.astype(np.float64):
        away = x - means
        largest = logits.max()
        log_weights = logits - largest - np.log(np.exp(logits - largest).sum())
        scores = log_weights + log_dets - 0.5 * np.einsum("kd,kd->k", scales**2, away**2)
        if objective == "exact":
            shares = np.exp(scores - scores.max())
            shares /= shares.sum()
        else:
            shares = np.zeros(len(scores))
            shares[scores.argmax()] = 1.0
        for k in np.flatnonzero(shares > NEGLIGIBLE):
            s, w = scales[k].copy(), shares[k]
            means[k] += np.minimum(rate * w * s**2, 1) * away[k]
            moved = s + rate * w * (1 / s - s * away[k] ** 2)
            scales[k] = np.clip(np.clip(moved, s / 2, 2 * s), *SCALES)
            log_dets[k] = np.log(scales[k]).sum()
        logits += rate * (shares - np.exp(log_weights))
    return Model(logits, means, scales)


def _runs(plan: Plan, name: str, start: str, objective: str) -> list[Run]:
    settings = plan.settings("sgd", start=start, objective=objective)
    return [Run(name, "exact", s, 1, settings, plan.part(name)) for s in plan.few_seeds(name, SEEDS)]


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the table needs.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    chosen = [name for name in plan.names if name in SETS]
    return [
        r
        for name in chosen
        for start in STARTS
        for objective in OBJECTIVES
        for r in _runs(plan, name, start, objective)
    ]


def measure(run: Run) -> dict[str, Any]:
    """Make one pass from the start that the run names, and evaluate on test data.

    Parameters
    ----------
    run : Run
        The run.
    """
    data, order = data_of(run), np.random.default_rng([run.seed, 1])
    settings = {k: v for k, v in run.settings.items() if k not in ("start", "objective")}
    trainer = trainer_of(Run(run.dataset, "sgd", run.seed, 1, settings), data.n_features)
    if run.settings["start"] == "annealed":
        for _ in range(1 if run.data.get("rows") else 3):
            feed(trainer, data.x_train, order.permutation(len(data.x_train)))
    begun = trainer.mixture
    model = Model(np.log(begun.weights), begun.means.astype(np.float64), begun.variances.astype(np.float64) ** -0.5)
    rows, test = floats(data.x_train)[order.permutation(len(data.x_train))], floats(data.x_test)
    after = ascend(model, rows, run.settings["objective"])
    weights = np.exp(after.logits - after.logits.max())
    mixture = Mixture.from_parameters(weights / weights.sum(), after.means, after.scales**2)
    return {
        "before": float(begun.log_prob(test).mean()),
        "exact": float(mixture.log_prob(test).mean()),
        "max_component": float(mixture.max_component(test).mean()),
        "live": len(np.unique(mixture.responsibilities(test).argmax(1))),
        "finite": bool(all(np.isfinite(a).all() for a in after)),
    }


def make(plan: Plan) -> list[Table]:
    """Make the table.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted = expected(plan)
    if not wanted:
        return []
    found = measure_all(wanted, measure, plan.folder, plan.jobs, "exact gradient")
    table = Table(
        "Claim: the exact likelihood is harder to climb",
        "Gradient ascent on the exact log-likelihood (responsibilities by log-sum-exp) and on the max-component bound, "
        f"in double precision, without annealing, constant ε = {RATE}, one pass, at most {SEEDS} seeds: from random "
        "means, and from a model that SGD with annealing has trained. Exact log-likelihood of test data; in "
        "parentheses, components that win a test sample. 'finite': runs without NaN or infinity.",
        ["data", "start", "before", *(f"{o} ascent" for o in OBJECTIVES), "difference", "finite"],
    )
    for name in (n for n in plan.names if n in SETS):
        for start in STARTS:
            groups = [[found[r.file] for r in _runs(plan, name, start, o)] for o in OBJECTIVES]
            values = [summary([f["exact"] for f in group]) for group in groups]
            live = [summary([f["live"] for f in group]).mean for group in groups]
            before = summary([f["before"] for f in groups[0]])
            every = [f["finite"] for group in groups for f in group]
            table.rows.append(
                [plan.title(name), start, shown(before),
                 *(f"{shown(v, 2)} ({n:.0f})" for v, n in zip(values, live, strict=True)),
                 f"{values[1].mean - values[0].mean:+.3f}", f"{sum(every)} of {len(every)}"]
            )  # fmt: skip
    return [table]
