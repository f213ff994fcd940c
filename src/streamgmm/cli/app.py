"""The commands, put together."""

from __future__ import annotations

import errno
import os
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Annotated

import typer

from streamgmm.cli import console
from streamgmm.cli.compare import compare
from streamgmm.cli.dashboard import dashboard
from streamgmm.cli.datasets import datasets
from streamgmm.cli.demo import demo
from streamgmm.cli.impute import impute
from streamgmm.cli.info import info
from streamgmm.cli.options import common_options
from streamgmm.cli.paper import paper
from streamgmm.cli.plot import plot
from streamgmm.cli.rollback import rollback
from streamgmm.cli.sample import sample
from streamgmm.cli.score import score
from streamgmm.cli.train import train
from streamgmm.cli.watch import watch
from streamgmm.errors import MissingExtraError, StreamGMMError

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        import streamgmm

        typer.echo(streamgmm.__version__)
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Gaussian mixture models that learn from streams."""


for _command in (demo, train, watch, score, impute, sample, plot, dashboard, info, rollback, datasets, compare):
    app.command(_command.__name__)(common_options(_command))
app.add_typer(paper, name="paper")


def run() -> int:
    """Run the command line; return the exit code."""
    try:
        app()
    except BrokenProcessPool:
        return _fail("a process was killed, perhaps for lack of memory. Try fewer with --jobs.")
    except MemoryError as problem:
        if console.debug:
            raise
        reason = f" ({problem})" if str(problem) else ""
        return _fail(f"there is not enough memory{reason}. Use fewer --components or features, or a larger machine.")
    except StreamGMMError as problem:
        if console.debug:
            raise
        return _fail(console.with_options(problem))
    except OSError as problem:
        if console.debug:
            raise
        return _fail(_reason(problem))
    except MissingExtraError as problem:
        if console.debug:
            raise
        return _fail(str(problem))
    return 0


def _reason(problem: OSError) -> str:
    """Return what went wrong with which file or folder, and what to do."""
    if problem.filename is None or problem.strerror is None:
        return str(problem)
    path = Path(os.fsdecode(problem.filename))
    path = path.parent if path.name.startswith(".") else path  # of temporary files, whose names mean nothing
    if isinstance(problem, PermissionError):
        return f"no permission for {path}. Choose another place, or change its permissions."
    if problem.errno == errno.ENOSPC:
        return f"there is no space left for {path}. Free some, or choose another place."
    return f"{path}: {problem.strerror.lower()}."


def _fail(message: str) -> int:
    console.complain(message)
    sys.stdout.flush()
    return 1
