"""``streamgmm compare``"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from streamgmm.cli import INTERRUPTED, console
from streamgmm.cli.console import CommandError

if TYPE_CHECKING:
    from streamgmm.comparison.plan import Plan

Names = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FILE",
        help="A .csv, .npy or .npz file; or the name of a data set, 'overlap' or 'drift'. [default: all bundled ones]",
    ),
]


def compare(
    names: Names = None,
    components: Annotated[list[int] | None, typer.Option(min=1, help="Number of components. [default: 4, 16]")] = None,
    splits: Annotated[int, typer.Option(min=1, help="Random splits into training and test rows.")] = 5,
    seeds: Annotated[int, typer.Option(min=1, help="Seeds of the models for each split.")] = 3,
    label: Annotated[str | None, typer.Option(help="Column that holds classes, for anomaly ranking.")] = None,
    rows: Annotated[
        int | None, typer.Option(min=40, help="Largest number of rows. [default: all; 5000 of the paper's data sets]")
    ] = None,
    images: Annotated[bool, typer.Option("--images", help="Add the seven data sets of the paper (hours).")] = False,
    jobs: Annotated[int | None, typer.Option(min=1, help="Number of processes. [default: all cores]")] = None,
    out: Annotated[Path | None, typer.Option(help="A .md or .json file to write as results arrive.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Compare the defaults with scikit-learn's mixture.

    The tables are your own, or bundled ones. Both mixtures are judged by the exact log-likelihood of test rows, in the
    same units. Ours learns raw rows with its defaults; scikit-learn's gets standardised rows and a validated reg_covar.

    Examples:

      streamgmm compare table.csv

      streamgmm compare table.csv --label species --components 4 --components 16 --out table.md

      streamgmm compare iris wine --splits 2 --seeds 1
    """
    from streamgmm import datasets
    from streamgmm.comparison.bundled import BUNDLED
    from streamgmm.comparison.origins import find_origin
    from streamgmm.comparison.plan import STREAMS, Plan
    from streamgmm.engines import thread_count

    if out is not None and out.suffix not in (".md", ".json"):
        raise CommandError(f"{out} has an unsupported extension; expected .md or .json.")
    if out is not None and not out.parent.is_dir():
        raise CommandError(f"{out.parent} is not a folder; expected one that exists.")
    wanted = names or [*BUNDLED, *STREAMS]
    found = _images_here() if images else []
    origins = [find_origin(name, label, rows) for name in dict.fromkeys([*wanted, *found]) if name not in STREAMS]
    if label is not None and not any(origin.label for origin in origins):
        raise CommandError(f"--label is {label!r}, but there is no file; expected a file with such a column.")
    if images and not found:
        places = ", ".join(map(str, datasets.folders()))
        raise CommandError(
            f"none of the paper's sets is in {places}. Set STREAMGMM_DATA to the folder that holds them."
        )
    streams = tuple(name for name in STREAMS if name in wanted)
    plan = Plan(origins, sorted(set(components or [4, 16])), splits, seeds, streams)
    _run(plan, jobs or thread_count(-1), out, as_json)


def _images_here() -> list[str]:
    """Return the paper's sets that are on this machine; say which are not."""
    from streamgmm import datasets

    here = [
        name
        for name, file in datasets.FILES.items()
        if any((folder / file).exists() or (folder / name).exists() for folder in datasets.folders())
    ]
    if missing := [name for name in datasets.FILES if name not in here]:
        console.say(f"not found, left out: {', '.join(missing)}")
    return here


def _run(plan: Plan, jobs: int, out: Path | None, as_json: bool) -> None:
    """Measure, write as results arrive, and print; Ctrl-C prints what is done."""
    from streamgmm.comparison.plan import measure_all
    from streamgmm.comparison.report import Report, count_measurements
    from streamgmm.progress import live_line
    from streamgmm.storage.atomic import write_atomically

    report = Report(plan, {origin: plan.describe(origin) for origin in plan.origins})
    tasks = plan.tasks(report.known)
    if not tasks:
        raise CommandError(f"there is nothing to compare. {' '.join(report.notes())}")
    console.say(count_measurements(len(tasks)))
    cells = [(task.block, task.subject, task.components) for task in tasks]

    def write() -> None:
        if out is not None:
            text = report.json(len(tasks)) if out.suffix == ".json" else report.markdown(len(tasks))
            write_atomically(out, text.encode())

    try:
        with (
            console.sigterm_as_interrupt(),
            console.warnings_as_lines(),
            live_line("compare", len(tasks), enabled=False if console.quiet else None) as show,
        ):
            for task, result in measure_all(tasks, jobs):
                report.results[task] = result
                show(len(report.results), None)
                cells.remove(cell := (task.block, task.subject, task.components))
                if cell not in cells:  # a row of a table is complete
                    write()
    except KeyboardInterrupt:
        console.complain(f"interrupted after {len(report.results):,} of {count_measurements(len(tasks))}")
        raise typer.Exit(INTERRUPTED) from None
    finally:
        if report.results:
            write()
            typer.echo(report.json(len(tasks)) if as_json else report.markdown(len(tasks)))
    if out is not None:
        console.say(f"report in {out}")
