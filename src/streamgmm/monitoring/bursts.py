"""Bursts: anomalous rows that follow each other closely are one incident.

A burst opens with its first anomalous row and closes after ``QUIET_ROWS`` ordinary rows. Its id is made of the name of
the run and the number of its first row, so a run that resumes from a checkpoint gives the same bursts the same ids.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

QUIET_ROWS = 30  # ordinary rows that end a burst; faults of sensors come and go within a few rows

PlainId = str | int | float | None
"""An id as JSON has it."""


class Burst(NamedTuple):
    """Anomalous rows so far of one incident: plain numbers and texts, which go into a checkpoint as ``_asdict()``.

    Parameters
    ----------
    id : str
        Name of the run and number of the first row.
    rows : int
        Number of anomalous rows.
    first_row, last_row : int
        Numbers of the first and the last anomalous row.
    first_id, last_id : str, int, float or None
        Their ids, if the source has any.
    min_p_value : float or None
        The smallest p-value; None if no row had one.
    quiet : int, default=0
        Ordinary rows since the last anomalous one.
    """

    id: str
    rows: int
    first_row: int
    last_row: int
    first_id: PlainId
    last_id: PlainId
    min_p_value: float | None
    quiet: int = 0


class Change(NamedTuple):
    """A burst that opens or closes.

    Parameters
    ----------
    state : {"open", "close"}
        What happens.
    at : int
        Which row of the chunk, from 0, makes it happen: the first anomalous row, or the last of the ordinary ones.
    burst : Burst
        The burst at that moment.
    """

    state: Literal["open", "close"]
    at: int
    burst: Burst


class JudgedRows(NamedTuple):
    """Rows of a chunk and whether they are anomalous.

    Parameters
    ----------
    numbers : array of shape (N,)
        Row numbers in the source.
    anomalous : array of bool of shape (N,)
        Which rows are anomalous.
    p_values : array of shape (N,)
        Their p-values; NaN where a row has none.
    ids : sequence of length N or None, default=None
        Ids or times of the rows, if the source has any.
    """

    numbers: npt.NDArray[np.int64]
    anomalous: npt.NDArray[np.bool_]
    p_values: Sequence[float] | npt.NDArray[np.float64]
    ids: Sequence[Any] | None = None


def group_rows(
    run: str, burst: Burst | None, rows: JudgedRows, quiet_rows: int = QUIET_ROWS
) -> tuple[list[Change], Burst | None]:
    """Group the anomalous rows of a chunk into bursts.

    The changes are the same for any chunking of a stream.

    Parameters
    ----------
    run : str
        Name of the run. Together with a row number it must be unique where alerts are received.
    burst : Burst or None
        The burst that is open before these rows.
    rows : JudgedRows
        The rows.
    quiet_rows : int, default=30
        Ordinary rows that end a burst; at least 1.

    Returns
    -------
    changes : list of Change
        Bursts that open and close, in the order of the rows.
    burst : Burst or None
        The burst that is open after these rows.

    Examples
    --------
    >>> anomalous = np.array([False, True, True, False, False, False])
    >>> rows = JudgedRows(np.arange(100, 106), anomalous, np.array([0.4, 0.003, 0.001, 0.9, 0.2, 0.5]))
    >>> changes, burst = group_rows("plant", None, rows, quiet_rows=3)
    >>> [(change.state, change.at, change.burst.id, change.burst.rows) for change in changes]
    [('open', 1, 'plant:101', 1), ('close', 5, 'plant:101', 2)]
    >>> burst is None
    True
    """
    if quiet_rows < 1:
        raise ValueError(f"quiet_rows is {quiet_rows}; expected at least 1.")
    changes: list[Change] = []
    seen = 0  # rows of the chunk that the burst has counted
    for index in [*rows.anomalous.nonzero()[0].tolist(), None]:
        end = len(rows.anomalous) if index is None else index
        if burst is not None:
            missing = quiet_rows - burst.quiet
            if end - seen >= missing:
                closed = burst._replace(quiet=quiet_rows)
                changes.append(Change("close", seen + missing - 1, closed))
                burst = None
            else:
                burst = burst._replace(quiet=burst.quiet + end - seen)
        if index is not None:
            opens = burst is None
            burst = _extend(run, burst, rows, index)
            if opens:
                changes.append(Change("open", index, burst))
            seen = index + 1
    return changes, burst


def _extend(run: str, burst: Burst | None, rows: JudgedRows, index: int) -> Burst:
    number, p = int(rows.numbers[index]), float(rows.p_values[index])
    row_id = None if rows.ids is None else plain_id(rows.ids[index])
    smallest = p if isfinite(p) else None
    if burst is None:
        return Burst(f"{run}:{number}", 1, number, number, row_id, row_id, smallest)
    if burst.min_p_value is not None:
        smallest = burst.min_p_value if smallest is None else min(smallest, burst.min_p_value)
    return burst._replace(rows=burst.rows + 1, last_row=number, last_id=row_id, min_p_value=smallest, quiet=0)


def is_plain_id(value: object) -> bool:
    """Return whether a value, perhaps from a file, is an id as ``plain_id`` gives them.

    >>> is_plain_id(1 << 60), is_plain_id(float("inf")), is_plain_id([])
    (True, False, False)
    """
    return isinstance(value, PlainId) and (not isinstance(value, float) or isfinite(value))


def plain_id(value: Any) -> PlainId:
    """Return the id of a row as JSON has it: times and other things become text, NaN becomes None.

    >>> plain_id(np.datetime64("2026-01-01T10:00"))
    '2026-01-01T10:00:00'
    """
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not isfinite(value):
        return None
    if value is None or isinstance(value, str | int | float):
        return value
    return str(value.isoformat() if hasattr(value, "isoformat") else value)
