"""Clustering: Davies-Bouldin score and Dunn index of SGD, and of stochastic EM from k-means, on 1000 test samples."""

from __future__ import annotations

from typing import Any, NamedTuple

from streamgmm.paper.comparison import last, shown, verdict
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import DRAWS, index_key
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import CLUSTERING
from streamgmm.paper.runs import Results, Run
from streamgmm.paper.streaming import best_of, grid, grid_runs, method_runs, tenth

INDICES = {"davies_bouldin": False, "dunn": True}  # whether more is better
TITLES = {"davies_bouldin": "Davies-Bouldin score (less is better)", "dunn": "Dunn index (more is better)"}
SEM: dict[str, Any] = {"step_init": 0.01, "step_decay": 0.25, "step_min": 0.0001}
SAMPLES = 1000
FEW = 3  # seeds of the settings that are best for one index
COUNTS = (500, SAMPLES, 2000, 10_000)


class Outcome(NamedTuple):
    """Runs and what they measured.

    Parameters
    ----------
    runs : dict
        Runs by data set and method: "own" for the rule of the plan, "sem", and the index that sEM was chosen for.
    results : dict
        Results by record name.
    """

    runs: dict[tuple[str, str], list[Run]]
    results: Results


def _names(plan: Plan) -> list[str]:
    return [n for n in plan.names if n in CLUSTERING or plan.own is not None]


def _start(plan: Plan, name: str) -> dict[str, Any]:
    """Return settings for k-means on the first tenth of a pass, over which the paper lets sEM accumulate."""
    return {"start_from": "kmeans", "accumulate": max(2 * plan.components, tenth(plan, name))}


def _counts(plan: Plan, name: str) -> list[int]:
    """Return the numbers of test samples to compute indices on; the last one is all, up to 10 000."""
    tested = min(plan.sizes(name)[1], 1500 if plan.quick else COUNTS[-1])
    return sorted({min(tested, count) for count in COUNTS})


def samples_of(plan: Plan, name: str) -> int:
    """Return the number of test samples that the tables use: 1000, or all if there are fewer.

    Parameters
    ----------
    plan : Plan
        What to measure.
    name : str
        The data set.
    """
    return min(SAMPLES, _counts(plan, name)[-1])


def _sem_runs(plan: Plan, name: str, settings: dict[str, Any]) -> list[Run]:
    given = {"sem": {**_start(plan, name), **settings}}
    return method_runs(plan, name, "sem", given, clusters=_counts(plan, name))


def _own_runs(plan: Plan, name: str) -> list[Run]:
    return method_runs(plan, name, plan.rule, {}, clusters=_counts(plan, name))


def _tried(plan: Plan, name: str) -> list[Run]:
    return grid_runs(plan, name, {"clusters": [samples_of(plan, name)]}, _start(plan, name))


def expected(plan: Plan) -> list[Run]:
    """Return about the runs that the tables need; which settings of sEM are best is not known yet.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    runs: list[Run] = []
    for name in _names(plan):
        runs += _tried(plan, name) + _own_runs(plan, name) + _sem_runs(plan, name, SEM)
        for settings in grid(plan)[:2]:
            runs += _sem_runs(plan, name, settings)[:FEW]
    return runs


def run(plan: Plan) -> Outcome:
    """Find the best settings of sEM for each index, then measure all.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    tried = {name: _tried(plan, name) for name in _names(plan)}
    found = plan.run([r for group in tried.values() for r in group], "clustering, grid of sEM")
    wanted: dict[tuple[str, str], list[Run]] = {}
    for name in _names(plan):
        wanted[name, "own"] = _own_runs(plan, name)
        wanted[name, "sem"] = _sem_runs(plan, name, SEM)
        for index, more in INDICES.items():
            best = grid(plan)[best_of(found, tried[name], index_key(index, samples_of(plan, name)), more)]
            wanted[name, index] = _sem_runs(plan, name, best)[:FEW]
    return Outcome(wanted, plan.run([r for group in wanted.values() for r in group], "clustering"))


def make(plan: Plan) -> list[Table]:
    """Make one table per index, and one of how both depend on the number of samples.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    outcome = run(plan)
    if not outcome.runs:
        return []
    return [*(_index_table(plan, outcome, index) for index in INDICES), _dependence(plan, outcome)]


def _index_table(plan: Plan, outcome: Outcome, index: str) -> Table:
    more, first = INDICES[index], plan.method
    table = Table(
        f"Clustering, {TITLES[index]}",
        f"{plan.size}; {SAMPLES} test samples (or all if there are fewer), labelled by their best component; mean over "
        f"{DRAWS} draws, the same for all runs, then mean ± std over seeds. {first} starts from random means. sEM "
        f"starts from k-means on the first tenth of a pass, with step_init {SEM['step_init']}, step_decay "
        f"{SEM['step_decay']}, step_min {SEM['step_min']}; 'sEM, best for the index': the best of {len(grid(plan))} "
        f"settings for this index, found after one pass with seed 0, at most {FEW} seeds, with components that win a "
        f"test sample in parentheses. The verdicts compare {first} with the first sEM. The Dunn index is exact, over "
        "all pairs.",
        ["data", f"{first} (paper)", f"{first} (ours)", "sEM (paper)", "sEM (ours)", "verdict (paper)",
         "verdict (ours)", "sEM, best for the index"],
    )  # fmt: skip
    for name in _names(plan):
        published = plan.published(CLUSTERING, name)
        place = 2 * list(INDICES).index(index)
        pair = published[place : place + 2] if published else (None, None)
        key, names = index_key(index, samples_of(plan, name)), (first, "sEM")
        own, sem, best = (last(outcome.results, outcome.runs[name, m], key) for m in ("own", "sem", index))
        live = last(outcome.results, outcome.runs[name, index], "live").mean
        who = verdict(own, sem, names, more)
        theirs = verdict(pair[0], pair[1], names, more) if pair[0] and pair[1] else "–"
        table.rows.append(
            [plan.title(name), shown(pair[0], 2), shown(own, 3, who == first), shown(pair[1], 2),
             shown(sem, 3, who == "sEM"), theirs, who, f"{shown(best, 3)} ({live:.0f})"]
        )  # fmt: skip
    return table


def _dependence(plan: Plan, outcome: Outcome) -> Table:
    table = Table(
        "Clustering, by number of test samples",
        "The same models, evaluated on more or fewer samples: Davies-Bouldin score / Dunn index, mean over seeds. The "
        "first rises and the second falls with the number, so values are comparable only at the same number.",
        ["data", "method", *(f"{count:,} samples" for count in COUNTS[:-1]), "all, up to 10,000"],
    )
    for name in _names(plan):
        for method, key in ((plan.method, "own"), ("sEM", "sem")):
            cells, counts = [], _counts(plan, name)
            for count in (*COUNTS[:-1], counts[-1]):
                if count not in counts:
                    cells.append("–")
                    continue
                values = [last(outcome.results, outcome.runs[name, key], index_key(i, count)).mean for i in INDICES]
                cells.append(f"{values[0]:.2f} / {values[1]:.3f}")
            table.rows.append([plan.title(name), method, *cells])
    return table
