"""Warnings about columns of a source of which nothing is learned."""

from __future__ import annotations

import warnings

import numpy as np
import numpy.typing as npt

from streamgmm.errors import DataWarning
from streamgmm.sources import Source

MOST_NAMED = 5


def warn_of_text(source: Source, names: list[str]) -> None:
    """Name columns that are left out because they hold no numbers.

    Parameters
    ----------
    source : Source
        The source.
    names : list of str
        The columns; none give no warning.
    """
    if names:
        hold = "they hold" if len(names) > 1 else "it holds"
        message = f"{', '.join(map(repr, names))} of {source.name} left out: {hold} no numbers."
        warnings.warn(DataWarning(message), stacklevel=3)


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
