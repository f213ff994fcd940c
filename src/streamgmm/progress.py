"""One live line on standard error for anything that takes longer than a moment."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from streamgmm.core.control import Check

Update = Callable[[int, Check | None], None]


def describe(check: Check) -> str:
    """Return the figures of a check in a few words."""
    return f"L {check.max_component:.1f}  σ {check.sigma:.3f}  ε {check.learning_rate:.4f}  live {check.live}"


@contextmanager
def live_line(
    label: str,
    total: int | Callable[[], int | None] | None,
    enabled: bool | None = None,
    note: Callable[[], str] = lambda: "",
) -> Iterator[Update]:
    """Give a function to call with samples done and the latest check, which updates the line.

    Parameters
    ----------
    label : str
        What to show as the task.
    total : int, callable or None
        Samples in all, or what returns them if that may change; None if they are not known.
    enabled : bool or None, default=None
        Whether to show the line; None shows it at a terminal and not in pipes and logs.
    note : callable, default=nothing to add
        Returns what to add to the figures.
    """
    if enabled is False or (enabled is None and not sys.stderr.isatty()):
        yield lambda done, check: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.finished_speed or task.speed or 0:,.0f}/s", no_wrap=True)

    columns = (
        TextColumn("{task.description}"), BarColumn(bar_width=12), Speed(), TextColumn("{task.fields[figures]}"),
        TimeRemainingColumn(compact=True, elapsed_when_finished=True),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), refresh_per_second=5) as progress:
        in_all = total if callable(total) else lambda: total
        task = progress.add_task(label, total=in_all(), figures="")

        def update(done: int, check: Check | None) -> None:
            progress.update(task, completed=done, total=in_all())
            if check is not None:
                progress.update(task, figures=describe(check) + note())

        yield update
