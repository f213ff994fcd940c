"""What commands say to people, on standard error: plain text without control characters, in the words of options."""

from __future__ import annotations

import json
import signal
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from streamgmm.errors import DataWarning, Remedy, SettingError, StreamGMMError

if TYPE_CHECKING:
    from rich.console import Console

    from streamgmm.sources import BadRow

OPTIONS = {
    Remedy.CHOOSE_COLUMNS: "Choose the features with --columns.",
    Remedy.DROP_COLUMNS: "Remove --columns and --id.",
    Remedy.NAME_ID: "Name a column that is not a feature with --id.",
    Remedy.KEEP_INDEX: "Keep it as the id of rows with --id ''.",
    Remedy.SKIP_BAD_ROWS: "Skip such rows with --bad-rows skip.",
    Remedy.ALLOW_MISSING: "Learn from the other features with --missing learn.",
    Remedy.NUMBER_COLUMNS: "Choose columns by number, from 0: --columns 0,2.",
    Remedy.START_NEW_RUN: "Start a new run, or give the file another name, to read it from the beginning.",
    Remedy.LET_IT_WAIT: "Wait for the broker with --follow.",
    Remedy.WRITE_TEXT: "Choose a .csv or .ndjson file for --out.",
    Remedy.RAISE_PRECISION_MAX: "Learn data in any units with --scale auto, or adjust --precision-max.",
    Remedy.KEEP_ORDER: "Learn its rows in their order with --shuffle no.",
    Remedy.USE_ONE_MACHINE: "Learn it on one machine, without --engine ray.",
    Remedy.LOAD_STACK: (
        "The commands plot, sample, info and dashboard show it; for anything else, load it in Python with "
        "streamgmm.DeepStreamingMixture.load."
    ),
    Remedy.CHANGE_PORT: "Choose another port with --port.",
    Remedy.CHANGE_METRICS_PORT: "Choose another port with --metrics-port; 0 takes a free one.",
    Remedy.KEEP_VERSIONS: "Train with --keep 10 to have some.",
}
"""What a remedy is called on the command line; others read the same everywhere."""
SETTINGS = {
    "rule": "--rule",
    "n_components": "--components",
    "n_jobs": "--jobs",
    "half_life": "--half-life",
    "precision_max": "--precision-max",
    "covariance_type": "--covariance",
    "rank": "--rank",
}
"""Options by the name of the setting."""
MOST_COLUMNS = 20  # columns that are named in a message
MOST_BAD = 5  # skipped rows that are named; events name more

quiet = False
debug = False
log_json = False


class CommandError(StreamGMMError):
    """A mistake in the arguments of a command."""


@contextmanager
def user_input() -> Iterator[None]:
    """Report a ValueError about what the user has typed as one line, not as a bug of ours."""
    try:
        yield
    except StreamGMMError:
        raise
    except SettingError as problem:
        name = SETTINGS.get(problem.name, problem.name)
        raise CommandError(f"{name} is {problem.value!r}; expected {problem.expected}.") from problem
    except ValueError as problem:
        raise CommandError(str(problem)) from problem


def with_options(problem: StreamGMMError | DataWarning) -> str:
    """Return the message of a problem with its remedies as options."""
    return " ".join([problem.message, *(OPTIONS.get(remedy, remedy.value) for remedy in problem.remedies)])


def clean(text: str) -> str:
    """Replace control characters, which could be commands to the terminal, and halves of characters.

    >>> clean("name\\x1b[2J")
    'name�[2J'
    """
    return "".join("�" if unicodedata.category(c) in ("Cc", "Cf", "Cs") and c not in "\n\t" else c for c in text)


def count(number: int, noun: str) -> str:
    """Return a number with its noun, in the plural unless it is one."""
    return f"{number:,} {noun}" + "s" * (number != 1)


def say(text: str, level: str = "info") -> None:
    """Tell people something, unless they asked for quiet."""
    if quiet:
        return
    if log_json:
        _log(text, level)
    else:
        _console().print(clean(text), markup=False, highlight=False)


def complain(text: str) -> None:
    """Tell people what went wrong."""
    if log_json:
        _log(text, "error")
        return
    from rich.text import Text

    _console().print(Text("streamgmm: ", style="red").append(clean(text), style="default"), highlight=False)


def _log(text: str, level: str) -> None:
    """Write a message as a line of JSON, in which control characters are escaped."""
    moment = datetime.now(UTC).isoformat(timespec="milliseconds")
    print(json.dumps({"time": moment, "level": level, "message": text}), file=sys.stderr, flush=True)


def shows_progress() -> bool | None:
    """Return whether to show live lines: None leaves it to whether somebody can see them."""
    return False if quiet or log_json else None


def print_table(table: Any) -> None:
    """Show a table, unless people asked for quiet or for messages in JSON."""
    if not quiet and not log_json:
        _console().print(table)


def _console() -> Console:
    from rich.console import Console

    return Console(stderr=True, soft_wrap=True)


def say_bad_rows(first: list[BadRow], count: int) -> None:
    """Name the first rows that were skipped, with the reason."""
    for row, reason in first[:MOST_BAD]:
        say(f"skipped: row {row} {reason}")
    if count > MOST_BAD:
        say(f"skipped: {count - MOST_BAD:,} more")


def say_left_out(columns: Sequence[str], features: list[str] | None) -> None:
    """Name columns that were not used, with the reason."""
    if columns:
        reason = "without numbers" if features is None else "not features of the model"
        more = ", …" if columns[MOST_COLUMNS:] else ""
        say(f"left out, {reason}: {', '.join(columns[:MOST_COLUMNS])}{more}")


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Show warnings as lines for people, in the words of options."""

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        say(with_options(message) if isinstance(message, DataWarning) else str(message), "warning")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show
        yield


@contextmanager
def sigterm_as_interrupt() -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, so that it cleans up."""

    def end(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def stop_on_signals(ending: str = "stopping after a last checkpoint …") -> Iterator[Callable[[], bool]]:
    """Give a function that tells whether Ctrl-C or SIGTERM has asked to stop; a second one interrupts at once."""
    caught: list[int] = []
    told = False

    def note(number: int, frame: object) -> None:
        caught.append(number)
        if len(caught) > 1:
            raise KeyboardInterrupt

    def stopped() -> bool:
        nonlocal told
        if caught and not told:  # not in the handler, which may have interrupted an import that printing needs
            told = True
            say(ending)
        return bool(caught)

    before = {s: signal.signal(s, note) for s in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stopped
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
