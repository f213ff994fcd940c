"""Rows of numbers: their float type, which of them can be learned, and how to cut them into pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.native import Rows, first_unfit_row

PIECE_BYTES = 1 << 24  # arrays are converted to float in pieces of about this size, never as a whole
NO_COPY = 16  # times as many rows, if they are floats already
LIMITS = {np.dtype(np.float32): 1e37, np.dtype(np.float64): 1e150}  # differences of two such numbers stay finite


def float_type(rows: npt.NDArray[Any], of_bytes: type = np.float64) -> np.dtype[Any]:
    """Choose the type to compute in: float32 stays float32, bytes become ``of_bytes``, everything else float64."""
    if rows.dtype == np.uint8:
        return np.dtype(of_bytes)
    return np.dtype(np.float32 if rows.dtype.newbyteorder("=") == np.float32 else np.float64)


def pieces(
    rows: npt.NDArray[Any], dtype: np.dtype[Any], order: npt.NDArray[np.int64] | None = None
) -> Iterator[tuple[int, Rows]]:
    """Yield rows as floats (bytes as they are), a piece at a time, with the number of rows done after each."""
    plain = order is None and rows.dtype in (dtype, np.uint8)
    size = piece_size(rows, dtype) * (NO_COPY if plain else 1)
    for start in range(0, len(rows), size):
        stop = min(len(rows), start + size)
        piece = rows[start:stop] if order is None else rows[order[start:stop]]
        yield stop, piece if piece.dtype == np.uint8 else piece.astype(dtype, copy=False)


def piece_size(rows: npt.NDArray[Any], dtype: np.dtype[Any]) -> int:
    """Count the rows of one piece."""
    return max(1, PIECE_BYTES // max(1, rows.shape[1] * dtype.itemsize))


def rows_with_values(rows: Rows) -> npt.NDArray[np.bool_]:
    """Tell which rows hold anything but NaN: (N,)."""
    if rows.dtype.kind != "f" or not np.isnan(rows[:, 0]).any():
        return np.ones(len(rows), np.bool_)
    return np.asarray(~np.isnan(rows).all(1))


def unfit(
    rows: npt.NDArray[Any], dtype: np.dtype[Any], *, gaps: bool = False, names: Sequence[str] | None = None
) -> Iterator[tuple[int, str]]:
    """Yield the number of each row that a model of ``dtype`` cannot learn, and why, with the names of features.

    A value is unfit if it is infinite, too large for ``dtype``, or NaN where ``gaps`` are not allowed.
    """
    if rows.dtype.kind in "iub":
        return  # integers of any width are finite and far from the limits
    if rows.dtype == dtype and rows.flags.c_contiguous and first_unfit_row(rows, LIMITS[dtype], gaps) is None:
        return  # most chunks: they need no pieces
    limit = min(LIMITS[dtype], LIMITS[float_type(rows)])
    for done, piece in pieces(rows, float_type(rows)):
        start = done - len(piece)
        bad = first_unfit_row(piece, limit, gaps)
        while bad is not None:
            yield start + bad, _complaint(piece[bad], limit, gaps, names)
            more = first_unfit_row(piece[bad + 1 :], limit, gaps)
            bad = None if more is None else bad + 1 + more


def _complaint(row: npt.NDArray[Any], limit: float, gaps: bool, names: Sequence[str] | None) -> str:
    bad = ~(np.abs(row) <= limit)
    feature = int(np.flatnonzero(bad & ~np.isnan(row) if gaps else bad)[0])
    value = row[feature]
    what = "NaN" if np.isnan(value) else "inf" if np.isinf(value) else f"{value:g}, too large,"
    place = f"at feature {feature}" if names is None or len(names) != len(row) else f"in column {names[feature]!r}"
    return f"contains {what} {place}; expected finite numbers within ±{limit:g}"
