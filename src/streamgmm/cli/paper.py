"""``streamgmm paper``"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.console import CommandError
from streamgmm.cli.options import common_options

if TYPE_CHECKING:
    from streamgmm.paper.own_data import OwnData

paper = typer.Typer(no_args_is_help=True, help="Tables of measured results, each made by one command.")

Names = Annotated[list[str] | None, typer.Option("--dataset", help="Use only these data sets.")]
Own = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Your own data: .npz with x_train, x_test and, if labelled, y_train, y_test; or .csv of numbers.",
    ),
]
Label = Annotated[str | None, typer.Option(help="Column of a .csv file that holds the classes.")]
Components = Annotated[int, typer.Option(min=1, help="Number of components.")]
RuleName = Annotated[str, typer.Option("--rule", help="Rule in place of SGD: sgd or natural.")]
Seeds = Annotated[int, typer.Option(min=1, help="Seeds per data set (Fruits: at most 3).")]
Jobs = Annotated[int | None, typer.Option(min=1, help="Number of processes. [default: all cores]")]
Records = Annotated[Path, typer.Option("--out", help="Folder for records of runs; existing ones are reused.")]
Quick = Annotated[bool, typer.Option("--quick", help="Smoke test: few rows, one pass, one seed.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")]

RULES = ("sgd", "natural")
OF_THE_PAPER_ALONE = ("readings", "drift", "figures", "differences")  # tables that a set of one's own cannot have
TABLES = {
    "initialisation": "Robustness to the start, and what annealing adds.",
    "clustering": "Davies-Bouldin score and Dunn index, SGD against stochastic EM.",
    "streaming": "SGD, stochastic EM and the natural rule on the seven data sets.",
    "readings": "NotMNIST by steps, Devanagari by classes, ISOLET in three readings.",
    "drift": "MNIST classes 1-8, then 0, then 9.",
    "claims": "Claims that the paper makes in passing, and the effect of every parameter.",
    "figures": "Centroids, filters, curves, samples.",
    "differences": "Every published value that differs from ours, and a verdict on every claim.",
    "rules": "SGD, stochastic EM, the natural rule and batch EM from k-means.",
    "layers": "Flat mixtures against two and three layers: outliers, halves of images filled in.",
    "all": "All tables of the paper (all but rules and layers), or all that your own data can have.",
}


def _own_data(data: Path | None, label: str | None, dataset: list[str] | None) -> OwnData | None:
    from streamgmm.paper.own_data import inspect_file

    if data is None:
        if label is not None:
            raise CommandError(f"--label is {label!r}, but there is no file; add --data FILE.")
        return None
    if dataset:
        raise CommandError("--data and --dataset exclude each other; expected one of them.")
    if not data.is_file():
        raise CommandError(f"{data} does not exist; expected a .npz or .csv file.")
    own = inspect_file(data, label)
    train, test, features = own.size
    classes = f"{own.classes} classes" if own.classes else "no classes"
    console.say(f"{data.name}: {train:,} training and {test:,} test samples of {features:,} features, {classes}")
    return own


def _add_command(name: str, words: str) -> None:
    def command(
        dataset: Names = None,
        data: Own = None,
        label: Label = None,
        components: Components = 64,
        rule: RuleName = "sgd",
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

        if rule not in RULES:
            raise CommandError(f"--rule is {rule!r}; expected sgd or natural. Stochastic EM is in every table.")
        own = _own_data(data, label, dataset)
        with console.user_input():
            names = datasets.check_names(dataset) if own is None else [own.name]
        folder = out / "quick" if quick else out
        plan = Plan(names, seeds, jobs or thread_count(-1), folder, quick, own, components, rule)
        wanted = [name] if name != "all" else tables.OF_THE_PAPER if own is None else tables.OF_ANY_DATA
        if own is None:
            datasets.ensure(plan.names)
        minutes = tables.seconds(wanted, plan) / 60
        console.say(f"{', '.join(wanted)}: about {minutes:.0f} minutes; records in {plan.folder}")
        made = {table: tables.make(table, plan) for table in wanted}
        if as_json:
            typer.echo(json.dumps({table: [asdict(t) for t in group] for table, group in made.items()}))
        else:
            typer.echo("\n".join(t.markdown() for group in made.values() for t in group))

    examples = (
        f"Examples:\n\n  streamgmm paper {name} --quick\n\n  streamgmm paper {name} --dataset mnist --seeds 3\n\n"
        f"  streamgmm paper {name} --data my.csv --label species --components 16"
    )
    if name in OF_THE_PAPER_ALONE:
        examples = examples.rpartition("\n\n")[0]
    paper.command(name, help=f"{words}\n\n{examples}")(common_options(command))


for _name, _words in TABLES.items():
    _add_command(_name, _words)
