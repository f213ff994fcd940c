"""Options that several commands share."""

from __future__ import annotations

import csv
import inspect
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from streamgmm.cli import INTERRUPTED, console, exit_at_once
from streamgmm.cli.console import CommandError

if TYPE_CHECKING:
    from streamgmm.runs.metrics import Figures
    from streamgmm.sources import Source


class BadRows(StrEnum):
    """What to do with rows that cannot be used."""

    stop = "stop"
    skip = "skip"


class Scale(StrEnum):
    """How to scale features; minmax and standard are deprecated."""

    auto = "auto"
    none = "none"
    minmax = "minmax"
    standard = "standard"


class Shuffle(StrEnum):
    """Whether to learn rows in random order."""

    auto = "auto"
    yes = "yes"
    no = "no"


class Missing(StrEnum):
    """What to do with missing values."""

    error = "error"
    learn = "learn"
    skip = "skip"


SourceName = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="A file, a folder of images, '-' for standard input, kafka://host:port/topic, redis://host:port/stream, "
        "mqtt://host:port/topic/#, or glyphs:A-E,F-J.",
    ),
]
ModelPath = Annotated[Path, typer.Argument(metavar="MODEL", help="A model file, or the folder of a run.")]
ColumnNames = Annotated[
    str | None,
    typer.Option("--columns", help="Features, separated by commas; quote names that contain one. [default: all]"),
]
IdColumn = Annotated[str | None, typer.Option("--id", help="Column that identifies rows; not a feature.")]
OnBadRows = Annotated[BadRows, typer.Option("--bad-rows", help="What to do with rows that cannot be read.")]
Shape = Annotated[str | None, typer.Option(help="Shape of a sample: 28x28, 32x32x3, or lines. [default: guessed]")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port of the dashboard; 0 picks a free one.")]
MetricsPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        help="Serve Prometheus metrics and /healthz to this machine on this port; 0 picks a free one.",
    ),
]
Keep = Annotated[
    int,
    typer.Option(
        min=0, help="Keep this many dated versions of the model, each about twice as old as the next; see rollback."
    ),
]
LivePage = Annotated[bool, typer.Option("--dashboard", help="Serve the dashboard during the run.")]
NO_PAGE = "without --dashboard"  # of --port


NoRows = Annotated[
    bool,
    typer.Option(
        "--no-rows",
        help="Keep no rows of the source in the model file. By default it holds a sample of at most 2000.",
    ),
]


def check_folder(out: Path, resume: bool) -> None:
    """Raise unless --out is a folder to start or to resume a run in."""
    if out.exists() and not out.is_dir():
        raise CommandError(f"{out} is a file; --out expects a folder.")
    if out.exists() and any(out.iterdir()) and not resume:
        raise CommandError(f"{out} is not empty. Continue with --resume, or choose another folder.")


def say_unused(context: typer.Context, **reasons: str | None) -> None:
    """Say which options of the command line have no effect, and why; None for those that have one."""
    for parameter in context.command.params:
        reason, source = reasons.get(parameter.name or ""), context.get_parameter_source(parameter.name or "")
        if reason is not None and source is not None and source.name == "COMMANDLINE":
            console.say(f"{parameter.opts[0]} has no effect {reason}")


def column_names(columns: str | None) -> list[str] | None:
    """Split the value of --columns."""
    fields = [] if columns is None else next(csv.reader([columns], skipinitialspace=True), [])
    names = None if columns is None else [c.strip() for c in fields if c.strip()]
    if names is not None and (not names or len(set(names)) < len(names)):
        raise CommandError(f"--columns is {columns!r}; expected distinct names, separated by commas.")
    return names


def check_passes(text: str | None) -> str | None:
    """Check the value of --passes."""
    if text is not None and text != "auto" and not (text.isdecimal() and int(text) >= 1):
        raise typer.BadParameter(f"{text!r} is neither 'auto' nor a number of at least 1.")
    return text


def number_of_passes(text: str | None) -> int | str | None:
    """Interpret the value of --passes."""
    return text if text is None or text == "auto" else int(text)


def sample_shape(text: str | None, n_features: int) -> tuple[int, ...] | None:
    """Interpret the value of --shape."""
    if text is None:
        return None
    if text == "lines":
        return (n_features,)
    parts = text.lower().split("x")
    shape = tuple(int(p) for p in parts if p.isdigit())
    total = 1
    for side in shape:
        total *= side
    if len(shape) != len(parts) or len(shape) not in (2, 3) or total != n_features:
        raise CommandError(
            f"--shape {text!r} does not fit {n_features} features; expected rows x columns, rows x columns x 3 for "
            "colours, or lines."
        )
    return shape


def run_source(
    text: str,
    out: Path,
    *,
    columns: str | None,
    id_column: str | None,
    bad_rows: BadRows,
    missing: Missing,
    follow: bool,
    seed: int,
) -> Callable[[], Source]:
    """Return what opens the source that a run in a folder learns from."""
    from streamgmm.sources import open_source
    from streamgmm.storage.run_folder import reader_name

    return partial(
        open_source,
        text,
        columns=column_names(columns),
        id_column=id_column,
        skip_bad=bad_rows is BadRows.skip,
        missing=missing is not Missing.error,
        follow=follow,
        seed=seed,
        reader=reader_name(out),
    )


@contextmanager
def served_metrics(port: int | None) -> Iterator[Callable[[Callable[[], Figures]], None]]:
    """Serve metrics during the block, if a port is given; give a function that notes figures."""
    if port is None:
        yield lambda figures: None
        return
    from streamgmm.runs.metrics import RunMetrics, metrics_server

    metrics = RunMetrics()
    with metrics_server(metrics, port) as address:
        console.say(f"metrics: {address}/metrics")
        yield metrics.update


Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show tracebacks.")]
LogJson = Annotated[bool, typer.Option("--log-json", help="Print messages as lines of JSON.")]


def _load() -> None:
    """Load what nearly every command needs; from then on, Ctrl-C raises KeyboardInterrupt."""
    import rich.progress  # noqa: F401

    import streamgmm.storage.run_folder  # noqa: F401

    if signal.getsignal(signal.SIGINT) is exit_at_once:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --quiet, --debug and --log-json to a command."""

    @wraps(command)
    def run(*args: Any, quiet: bool = False, debug: bool = False, log_json: bool = False, **kwargs: Any) -> Any:
        console.quiet, console.debug, console.log_json = quiet, debug, log_json
        _load()
        try:
            with console.warnings_as_lines():
                return command(*args, **kwargs)
        except KeyboardInterrupt:  # some versions of Typer say nothing
            console.complain("interrupted")
            raise typer.Exit(INTERRUPTED) from None

    signature = inspect.signature(command, eval_str=True)
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=kind)
        for name, kind in (("quiet", Quiet), ("debug", Debug), ("log_json", LogJson))
    ]
    parameters = [*signature.parameters.values(), *more]
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run
