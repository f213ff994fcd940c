"""The mean maximum responsibility, and other ways to compute it that might give the published values."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import feed, trainer_of
from streamgmm.paper.numerics import scores
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import STREAMING
from streamgmm.paper.run_data import data_of, floats
from streamgmm.paper.runs import Run, measure_all

ROWS = 5000
WAYS = ("test data", "training data", "without weights", "without ½", "distances only")


def runs(plan: Plan) -> list[Run]:
    """Return one run of SGD for each set.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    settings = plan.settings("sgd")
    return [Run(name, "sgd", 0, plan.passes, settings, plan.part(name, responsibilities=True)) for name in plan.names]


def measure(run: Run) -> dict[str, Any]:
    """Train, and compute the mean maximum responsibility in every way.

    Parameters
    ----------
    run : Run
        The run.
    """
    data, order = data_of(run), np.random.default_rng([run.seed, 1])
    trainer = trainer_of(run, data.n_features)
    for _ in range(run.passes):
        feed(trainer, data.x_train, order.permutation(len(data.x_train)))
    mixture = trainer.mixture
    exact = scores(mixture, floats(data.x_test[:ROWS]))
    log_weights, log_dets = np.log(mixture.weights), -0.5 * np.log(2 * np.pi * mixture.variances).sum(1)
    distances = exact - log_weights - log_dets  # minus one half of them
    values = (
        exact,
        scores(mixture, floats(data.x_train[:ROWS])),
        exact - log_weights,
        log_weights + log_dets + 2 * distances,
        distances,
    )
    return {way: largest_share(value) for way, value in zip(WAYS, values, strict=True)}


def largest_share(of: npt.NDArray[np.float64]) -> float:
    """Return the mean over rows of the largest share, after a softmax.

    Parameters
    ----------
    of : array of shape (N, K)
        Scores.

    Examples
    --------
    >>> largest_share(np.zeros((2, 4)))
    0.25
    """
    return float((1 / np.exp(of - of.max(1, keepdims=True)).sum(1)).mean())


def make(plan: Plan) -> list[Table]:
    """Make the table.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted = runs(plan)
    found = measure_all(wanted, measure, plan.folder, plan.jobs, "responsibilities")
    known = {r.dataset: (plan.published(STREAMING, r.dataset), found[r.file]) for r in wanted}
    near = {way: sum(bool(p) and abs(value[way] - p[0]) < 0.0005 for p, value in known.values() if p) for way in WAYS}
    best = max(WAYS, key=lambda way: near[way])
    compared = sum(p is not None for p, _ in known.values())
    explained = near[best] == compared > 0
    table = Table(
        "Mean maximum responsibility",
        f"SGD, {plan.size}, seed 0, at most {ROWS} samples: of test data, of training data, with equal weights, with "
        "the factor ½ of the distance left out, and with neither weights nor determinants. Within 0.0005 of the "
        f"published values: {', '.join(f'{way} {count} of {compared}' for way, count in near.items())}. "
        + (f"So the paper computed it in the way '{best}'." if explained else "The difference remains unexplained."),
        ["data", "paper", *WAYS],
    )
    for name, (published, values) in known.items():
        cells = [f"{values[way]:.4f}" for way in WAYS]
        table.rows.append([plan.title(name), f"{published[0]:.4f}" if published else "–", *cells])
    return [table]
