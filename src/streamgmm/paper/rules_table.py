"""The rules side by side, with batch EM from k-means as the reference; runs are shared with the streaming table."""

from __future__ import annotations

from streamgmm.paper import streaming
from streamgmm.paper.comparison import shown, summary
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.plan import Plan
from streamgmm.paper.runs import Results, Run

BATCH_SEEDS = 3  # batch EM takes longer than everything else together
ITERATIONS = 30


def _batch_runs(plan: Plan, name: str) -> list[Run]:
    """Return runs of batch EM, where a pass is one iteration."""
    iterations = 3 if plan.quick else ITERATIONS
    return [
        Run(name, "batch", s, iterations, plan.settings("sem"), plan.part(name))
        for s in plan.seeds_of(name)[:BATCH_SEEDS]
    ]


def expected(plan: Plan) -> list[Run]:
    """Return about the runs that the table needs.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    return [*streaming.expected(plan), *(run for name in plan.names for run in _batch_runs(plan, name))]


def make(plan: Plan) -> list[Table]:
    """Make the table.

    Parameters
    ----------
    plan : Plan
        What to measure.
    """
    outcome = streaming.run(plan)
    batches = {name: _batch_runs(plan, name) for name in plan.names}
    results = outcome.results | plan.run([run for group in batches.values() for run in group], "batch EM")
    passes = "1 pass" if plan.passes == 1 else f"{plan.passes} passes"
    table = Table(
        "Rules and batch EM",
        f"K = {plan.components}, random initial means; batch EM starts from MiniBatchKMeans and does "
        f"{3 if plan.quick else ITERATIONS} iterations with the same limit on precisions ({BATCH_SEEDS} seeds). Test "
        "max-component log-likelihood, mean ± std over seeds. In parentheses: components that win a test sample, "
        "in the worst seed, and seconds of training on one core, including k-means, with two runs at a time.",
        [
            "data",
            f"{plan.method}, {passes}",
            f"sEM, best of {len(streaming.grid(plan))} settings, {passes}",
            "natural, 1 pass",
            f"natural, {passes}",
            "batch EM",
        ],
    )
    for name in plan.names:
        sgd, sem, natural = (outcome.runs[name, rule] for rule in (plan.rule, streaming.OURS, "natural"))
        columns = ((sgd, -1), (sem, -1), (natural, 0), (natural, -1), (batches[name], -1))
        table.rows.append([plan.title(name), *(_cell(results, runs, after) for runs, after in columns)])
    return [table]


def _cell(results: Results, runs: list[Run], after: int) -> str:
    found = [results[run.file]["passes"][after] for run in runs]
    value, seconds = summary([f["max_component"] for f in found]), summary([f["seconds"] for f in found])
    return f"{shown(value)} ({min(f['live'] for f in found)}; {seconds.mean:.1f} s)"
