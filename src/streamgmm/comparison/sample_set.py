"""A set of rows to compare models on, and how it is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

TEST = 0.25  # share of the rows
FEWEST_ROWS = 20


@dataclass(frozen=True)
class SampleSet:
    """Rows to compare models on.

    Parameters
    ----------
    name : str
        What to call it in tables.
    rows : ndarray of shape (N, D)
        Numbers in their own units, without gaps.
    columns : list of str
        Names of the columns.
    labels : ndarray of shape (N,) or None, default=None
        Class of each row, if known.
    n_train : int or None, default=None
        How many of the first rows are for training, if the set is split already.
    notes : tuple of str, default=()
        What was left out or changed.
    """

    name: str
    rows: npt.NDArray[np.floating[Any]]
    columns: list[str]
    labels: npt.NDArray[Any] | None = None
    n_train: int | None = None
    notes: tuple[str, ...] = ()

    def splits(self, wanted: int) -> int:
        """Return how many ways there are to split the set, at most as many as wanted.

        Parameters
        ----------
        wanted : int
            Number of random splits, for a set that is not split already.
        """
        return wanted if self.n_train is None else 1

    def split(self, number: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """Return which rows are for training and which for testing; a quarter is for testing.

        Parameters
        ----------
        number : int
            Number of the split, which decides it.
        """
        if self.n_train is not None:
            return np.arange(self.n_train), np.arange(self.n_train, len(self.rows))
        order = np.random.default_rng(number).permutation(len(self.rows))
        tested = round(TEST * len(order))
        return order[tested:], order[:tested]


def name_columns(names: list[str], total: int, most: int = 8) -> str:
    """Return the names of some columns for people.

    Parameters
    ----------
    names : list of str
        The columns.
    total : int
        Number of all columns.
    most : int, default=8
        How many to name.

    Examples
    --------
    >>> name_columns(["a", "b"], 3), name_columns(["a", "b"], 2), name_columns(["a", "b", "c"], 4, most=1)
    ('a, b', 'all 2 columns', 'a and 2 more')
    """
    if len(names) == total and total > 1:
        return f"all {total} columns"
    return ", ".join(names) if len(names) <= most else f"{', '.join(names[:most])} and {len(names) - most} more"
