"""Warnings about columns of a source that are not what a model can learn from."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import DataWarning, Remedy, SourceError
from streamgmm.sources import Source

MOST_NAMED = 5
FEWEST_ROWS = 100  # that show whether a column only grows


def warn_of_columns(source: Source, rows: npt.NDArray[Any], numbers: npt.NDArray[Any]) -> None:
    """Name columns that are left out because they hold no numbers, and features that grow from row to row.

    Numbers of rows and times are such features: whatever comes later lies outside of all that was learned.

    Parameters
    ----------
    source : Source
        The source.
    rows : array of shape (N, D)
        The first rows that are learned.
    numbers : array of shape (N,)
        Their numbers in the source.
    """
    if left_out := source.left_out:
        hold = "they hold" if len(left_out) > 1 else "it holds"
        message = f"{', '.join(map(repr, left_out))} of {source.name} left out: {hold} no numbers."
        warnings.warn(DataWarning(message), stacklevel=3)
    if source.feature_names is None or len(rows) < FEWEST_ROWS:
        return
    in_order = rows[np.argsort(numbers, kind="stable")]
    grows = np.all(in_order[1:] > in_order[:-1], axis=0).tolist()
    growing = [name for name, yes in zip(source.feature_names, grows, strict=False) if yes]
    if growing:
        grown = f"{growing[0]!r} of {source.name} grows from row to row"
        message = f"{grown}. If it is a row number or a time, all later rows will look strange."
        warnings.warn(DataWarning(message, Remedy.NAME_ID, Remedy.CHOOSE_COLUMNS), stacklevel=3)


def warn_of_empty_features(source: Source, names: list[str] | None, empty: npt.NDArray[np.bool_] | None) -> None:
    """Name features that never had a value.

    Parameters
    ----------
    source : Source
        The source.
    names : list of str or None
        Names of the features.
    empty : array of bool of shape (D,) or None
        Which features never had a value; None if this was not observed.
    """
    if empty is None or not empty.any():
        return
    known = names or [str(i) for i in range(len(empty))]
    without = [repr(name) for name, no in zip(known, empty, strict=True) if no]
    more = " …" if without[MOST_NAMED:] else ""
    warnings.warn(
        f"no row of {source.name} has a number for {', '.join(without[:MOST_NAMED])}{more}: nothing was learned about "
        "it.",
        stacklevel=3,
    )


def nothing_to_learn(name: str, missing: int, *, gaps: bool) -> SourceError:
    """Return the error for a source without any row to learn from.

    Parameters
    ----------
    name : str
        Name of the source.
    missing : int
        Rows that were skipped because of missing values.
    gaps : bool
        Whether rows are learned from the features that they have.
    """
    if not missing:
        return SourceError(f"{name} has no rows to learn from.")
    if gaps:
        return SourceError(f"{name} has no rows to learn from: none of its {missing:,} rows holds a number.")
    message = f"{name} has no rows to learn from: each of its {missing:,} rows has missing values."
    return SourceError(message, Remedy.ALLOW_MISSING, Remedy.CHOOSE_COLUMNS)
