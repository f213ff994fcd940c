"""Claim: what really fails in single precision, of the plain sum, log-sum-exp and the max-component bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.core.mixture import Mixture
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import feed, trainer_of
from streamgmm.paper.plan import Plan
from streamgmm.paper.run_data import data_of, floats
from streamgmm.paper.runs import Run, measure_all

PATCHES = (6, 10, 14, 28)
ROWS = 1000  # test samples
MOMENTS = ("start", "end")


def runs(plan: Plan) -> list[Run]:
    """Return the runs: patches of MNIST, and whole images of SVHN.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    sides = PATCHES if "mnist" in plan.names else ()
    wanted = [("mnist", {"patch": side}) for side in sides] + [("svhn", {})] * ("svhn" in plan.names)
    return [
        Run(name, "sgd", 0, 1, plan.settings("sgd"), plan.part(name, numerics=True, **part)) for name, part in wanted
    ]


def measure(run: Run) -> dict[str, Any]:
    """Count what fails before and after training.

    Parameters
    ----------
    run : Run
        The run.
    """
    data = data_of(run)
    trainer, test = trainer_of(run, data.n_features), floats(data.x_test[:ROWS])
    before = failures(scores(trainer.mixture, test))
    feed(trainer, data.x_train, np.random.default_rng([run.seed, 1]).permutation(len(data.x_train)))
    return {"features": data.n_features, "start": before, "end": failures(scores(trainer.mixture, test))}


def scores(mixture: Mixture, rows: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    """Return log π_k N_k(x) in double precision: (N, K).

    Parameters
    ----------
    mixture : Mixture
        A mixture with diagonal covariances.
    rows : array of shape (N, D)
        Samples.
    """
    x, means, precisions = (np.asarray(a, np.float64) for a in (rows, mixture.means, 1 / mixture.variances))
    distances = x**2 @ precisions.T - 2 * x @ (means * precisions).T + (means**2 * precisions).sum(1)
    constant = np.log(mixture.weights) + 0.5 * np.log(precisions / (2 * np.pi)).sum(1)
    return np.asarray(constant - 0.5 * distances)


def failures(of: npt.NDArray[np.float64]) -> dict[str, float]:
    """Return how often each form of the log-likelihood fails in single precision, and by how much it errs.

    Parameters
    ----------
    of : array of shape (N, K)
        Scores.

    Examples
    --------
    >>> found = failures(np.array([[-200.0, -201.0], [100.0, 0.0]]))
    >>> found["sum underflows"], found["sum overflows"], found["no gradient of the sum"], found["log-sum-exp fails"]
    (0.5, 0.5, 1.0, 0.0)
    """
    exact = _log_sum_exp(of)
    single = of.astype(np.float32)
    with np.errstate(all="ignore"):
        densities = np.exp(single)
        total = densities.sum(1)
        shares = densities / total[:, None]
        relative = np.exp(single - single.max(1, keepdims=True))
        stable = _log_sum_exp(single)
    return {
        "sum underflows": float((total == 0).mean()),
        "sum overflows": float(np.isinf(total).mean()),
        "no gradient of the sum": float(np.isnan(shares).any(1).mean()),
        "shares that vanish": float((relative == 0).mean()),
        "log-sum-exp fails": float((~np.isfinite(stable)).mean()),
        "log-sum-exp errs": float(np.abs(stable - exact).max()),
        "max-component is lower": float((exact - of.max(1)).mean()),
    }


def _log_sum_exp(of: npt.NDArray[Any]) -> npt.NDArray[Any]:
    top = of.max(1, keepdims=True)
    return np.asarray(top[:, 0] + np.log(np.exp(of - top).sum(1)))


def make(plan: Plan) -> list[Table]:
    """Make the table.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted = runs(plan)
    if not wanted:
        return []
    found = measure_all(wanted, measure, plan.folder, plan.jobs, "numerics")
    table = Table(
        "Claim: exponentials fail in many dimensions",
        f"SGD, K = {plan.components}, before and after one pass; at most {ROWS} test samples, scores in double "
        "precision, then the log-likelihood in single precision. 'sum': log Σ exp(score) as it is written. "
        "'no gradient': samples whose responsibilities are 0/0 or ∞/∞. 'shares that vanish': exp(score − largest) is "
        "exactly 0, as in the paper's example of e⁻¹⁰⁴; 'log-sum-exp errs': the largest error in nats that this "
        "causes. The last column is the mean gap between the exact value and the max-component bound.",
        ["data", "D", "model", "sum underflows", "sum overflows", "no gradient of the sum", "shares that vanish",
         "log-sum-exp fails", "log-sum-exp errs", "max-component is lower"],
    )  # fmt: skip
    for run in wanted:
        side = run.data.get("patch")
        for moment in MOMENTS:
            record = found[run.file]
            values = record[moment]
            percents = [f"{100 * values[c]:.1f} %" for c in table.columns[3:8]]
            nats = [f"{values[c]:.1g}" for c in table.columns[8:]]
            title = plan.title(run.dataset) + (f", {side}×{side}" if side else "")
            table.rows.append([title, record["features"], moment, *percents, *nats])
    return [table]
