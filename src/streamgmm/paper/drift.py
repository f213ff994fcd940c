"""Drift: classes 1-8, then 0, then 9; no class comes again."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets
from streamgmm.core.trainer import Trainer
from streamgmm.paper.comparison import shown, summary
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import CHUNK, feed, trainer_of
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import DRIFT
from streamgmm.paper.run_data import data_of
from streamgmm.paper.runs import Results, Run, measure_all

PARTS = (tuple(range(1, 9)), (0,), (9,))
METHODS: dict[str, dict[str, Any]] = {
    "sgd": {"rule": "sgd"},
    "natural": {"rule": "natural"},
    "natural, half-life 5000": {"rule": "natural", "half_life": 5000},
    "natural, half-life 20000": {"rule": "natural", "half_life": 20_000},
    "natural, 18 % recruits": {"rule": "natural", "natural": {"recruits": 0.18}},
    "natural, reheated": {"rule": "natural", "reheat": True},
    "sem": {"rule": "sem", "sem": {"step_init": 0.05, "step_decay": 0.25, "step_min": 0.001}},
}
HALF_LIVES = (2000, 5000, 10_000, 20_000, 50_000, 100_000)
RECRUITS = (0.0, 0.18)  # share of components that are recruited on drift
TESTS = {"1-8": PARTS[0], "0": PARTS[1], "9": PARTS[2], "all": (0, *range(1, 10))}


def runs(plan: Plan) -> dict[str, list[Run]]:
    """Return the runs by method.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    if "mnist" not in plan.names or plan.own is not None:
        return {}
    passes, part = 1 if plan.quick else 2, plan.part("mnist", parts=[list(p) for p in PARTS])
    return {
        method: [Run("mnist", settings["rule"], s, passes, settings, part) for s in plan.seeds_of("mnist")]
        for method, settings in {**METHODS, **_sweep()}.items()
    }


def expected(plan: Plan) -> list[Run]:
    """Return all runs that the tables need.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [run for group in runs(plan).values() for run in group]


def _sweep() -> dict[str, dict[str, Any]]:
    """Return half-lives with and without recruits; those that METHODS has, too, share its records."""
    return {
        _label(h, r): {"rule": "natural", "half_life": h, **({"natural": {"recruits": r}} if r else {})}
        for r in RECRUITS
        for h in HALF_LIVES
    }


def _label(half_life: float, recruits: float) -> str:
    return f"{half_life:,} / {recruits:.0%}"


def measure(run: Run) -> dict[str, Any]:
    """Measure the log-likelihood of each test set after each part of the stream, and several times within it.

    Parameters
    ----------
    run : Run
        The run.
    """
    whole = data_of(run)
    tests = {name: datasets.scaled(whole.x_test[np.isin(whole.y_test, c)]) for name, c in TESTS.items()}
    trainer, order = trainer_of(run, whole.n_features), np.random.default_rng([run.seed, 3])
    after, curve, spent = [], [], 0.0
    for classes in run.data["parts"]:
        rows = np.flatnonzero(np.isin(whole.y_train, classes))
        stream = np.concatenate([order.permutation(rows) for _ in range(run.passes)])
        for start in range(0, len(stream), CHUNK):
            begin = time.perf_counter()
            feed(trainer, whole.x_train, stream[start : start + CHUNK])
            spent += time.perf_counter() - begin
            if start // CHUNK % 4 == 0:
                curve.append([trainer.n_samples, {n: _mean(trainer, x[:1000]) for n, x in tests.items()}])
        after.append({name: _mean(trainer, x) for name, x in tests.items()})
    return {"after": after, "curve": curve, "seconds": spent}


def _mean(trainer: Trainer, x: npt.NDArray[np.float32]) -> float:
    return float(trainer.mixture.max_component(x).mean())


def _results(plan: Plan) -> tuple[dict[str, list[Run]], Results]:
    return runs(plan), measure_all(expected(plan), measure, plan.folder, plan.jobs, "drift")


def make(plan: Plan) -> list[Table]:
    """Make the tables.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted, found = _results(plan)
    table = Table(
        "Drift on MNIST",
        f"Classes 1-8, then 0, then 9, {'one pass' if plan.quick else 'two passes'} over each; no class comes again. "
        "Test max-component log-likelihood after each part, mean ± std over seeds. 'authors': the authors' released "
        "code on the same parts, one seed. sEM: step_init 0.05, step_decay 0.25, step_min 0.001.",
        ["method", "test set", "after 1-8", "after 0", "after 9", "authors: after 1-8", "after 0", "after 9"],
    )
    for method in METHODS if wanted else ():
        group = wanted[method]
        for name in TESTS:
            cells = [summary([found[r.file]["after"][i][name] for r in group]) for i in range(3)]
            theirs = DRIFT.get(method, {}).get(name, (None,) * 3)
            table.rows.append([method, name, *map(shown, cells), *("–" if v is None else f"{v:.1f}" for v in theirs)])
    return [table, _trade_off(wanted, found)] if wanted else []


def _trade_off(wanted: dict[str, list[Run]], found: Results) -> Table:
    table = Table(
        "Drift, what a half-life buys and costs",
        "Natural rule: test max-component log-likelihood of the new class right after its part, and of all classes "
        "at the end, without recruits and with 18 % of the components recruited on drift.",
        ["half-life", *(f"{what}{', recruits' * bool(r)}" for r in RECRUITS for what in ("class 0", "class 9", "all"))],
    )
    for half_life in (*HALF_LIVES, None):
        cells = [
            shown(summary([found[run.file]["after"][at][name] for run in wanted[_method(half_life, r)]]))
            for r in RECRUITS
            for at, name in ((1, "0"), (2, "9"), (2, "all"))
        ]
        table.rows.append([f"{half_life:,}" if half_life else "none", *cells])
    return table


def _method(half_life: float | None, recruits: float) -> str:
    if half_life is not None:
        return _label(half_life, recruits)
    return "natural, 18 % recruits" if recruits else "natural"


def curves(plan: Plan) -> dict[str, dict[float, tuple[float, float]]]:
    """Return the lines of the figure: by half-life, the new classes once learned, and all classes at the end.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    wanted, found = _results(plan)

    def mean(method: str, at: int, name: str) -> float:
        return float(np.mean([found[run.file]["after"][at][name] for run in wanted[method]]))

    return {
        "18 % recruits" if r else "no recruits": {
            h: ((mean(_label(h, r), 1, "0") + mean(_label(h, r), 2, "9")) / 2, mean(_label(h, r), 2, "all"))
            for h in HALF_LIVES
        }
        for r in RECRUITS
        if wanted
    }
