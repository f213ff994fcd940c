"""Figures over splits and seeds, as text."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.comparison.plan import Task

Results = dict[Task, dict[str, Any]]
Cell = list[dict[str, Any]]
"""The measurements of a set and a number of components."""


def sorted_results(results: Results) -> list[tuple[Task, dict[str, Any]]]:
    """Return results in an order that does not depend on which process was faster.

    Parameters
    ----------
    results : dict
        Measurements by task.
    """

    def place(item: tuple[Task, Any]) -> tuple[Any, ...]:
        task = item[0]
        return (task.block, str(task.subject), task.components, task.split, task.seed)

    return sorted(results.items(), key=place)


def differences(cell: Cell) -> npt.NDArray[np.float64]:
    """Return ours minus theirs, one number per split and seed.

    Parameters
    ----------
    cell : list of dict
        Measurements of both.
    """
    return np.array([result["ours"] - result["theirs"] for result in cell])


def both(cell: Cell, digits: int, factor: float = 1.0) -> list[str]:
    """Return their figure, ours, and the difference with its standard deviation over splits and seeds.

    Parameters
    ----------
    cell : list of dict
        Measurements of both.
    digits : int
        Digits after the decimal point.
    factor : float, default=1.0
        What to multiply figures with.

    Examples
    --------
    >>> both([{"ours": 1.5, "theirs": 1.0}, {"ours": 2.0, "theirs": 1.3}], 2)
    ['1.15', '1.75', '+0.60 ± 0.14']
    """
    ours, theirs = (factor * np.array([result[key] for result in cell]) for key in ("ours", "theirs"))
    gap = factor * differences(cell)
    spread = f" ± {gap.std(ddof=1):.{digits}f}" if len(gap) > 1 else ""
    difference = f"{gap.mean():+.{digits}f}{spread}"
    return [f"{theirs.mean():.{digits}f}", f"{ours.mean():.{digits}f}", difference]


def seconds(cell: Cell) -> str:
    """Return the mean seconds of both.

    Parameters
    ----------
    cell : list of dict
        Measurements of both.
    """
    theirs, ours = (np.mean([result[key] for result in cell]) for key in ("their_seconds", "our_seconds"))
    return f"{theirs:.2f}, {ours:.2f}"
