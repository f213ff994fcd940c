"""``streamgmm paper``"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.options import common_options

paper = typer.Typer(no_args_is_help=True, help="Tables of measured results, each made by one command.")

Names = Annotated[list[str] | None, typer.Option("--dataset", help="Use only these data sets.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds per data set (Fruits: at most 3).")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Number of processes. [default: all cores]")]
Records = Annotated[Path, typer.Option("--out", help="Folder for records of runs; existing ones are reused.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smoke test: few rows, one pass, one seed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")]

TABLES = {
    "initialisation": "Robustness to the start, and what annealing adds.",
    "clustering": "Davies-Bouldin score and Dunn index, SGD against stochastic EM.",
    "streaming": "SGD, stochastic EM and the natural rule on the seven data sets.",
    "drift": "MNIST classes 1-8, then 0, then 9.",
    "claims": "Claims that the paper makes in passing, and the effect of every parameter.",
    "figures": "Centroids, filters, curves.",
    "rules": "SGD, stochastic EM, the natural rule and batch EM from k-means.",
    "layers": "Flat mixtures against two and three layers: outliers, halves of images filled in.",
    "all": "All tables of the paper: all but rules and layers.",
}


def _add_command(name: str, words: str) -> None:
    def command(
        dataset: Names = None,
        seeds: Seeds = 10,
        jobs: Jobs = None,
        out: Records = Path("runs/paper"),
        quick: Quick = False,
        as_json: AsJson = False,
    ) -> None:
        from streamgmm import datasets
        from streamgmm.engines import thread_count
        from streamgmm.paper import tables
        from streamgmm.paper.plan import Plan

        with console.user_input():
            names = datasets.check_names(dataset)
        plan = Plan(names, seeds, jobs or thread_count(-1), out / "quick" if quick else out, quick)
        wanted = tables.OF_THE_PAPER if name == "all" else [name]
        datasets.ensure(plan.names)
        minutes = tables.seconds(wanted, plan) / 60
        console.say(f"{', '.join(wanted)}: about {minutes:.0f} minutes; records in {plan.folder}")
        made = {table: tables.make(table, plan) for table in wanted}
        if as_json:
            typer.echo(json.dumps({table: [asdict(t) for t in group] for table, group in made.items()}))
        else:
            typer.echo("\n".join(t.markdown() for group in made.values() for t in group))

    examples = f"Examples:\n\n  streamgmm paper {name} --quick\n\n  streamgmm paper {name} --dataset mnist --seeds 3"
    paper.command(name, help=f"{words}\n\n{examples}")(common_options(command))


for _name, _words in TABLES.items():
    _add_command(_name, _words)
