"""The share of flagged rows over time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

BARS = 60


class Bar(NamedTuple):
    """The share of flagged rows among those judged from one number of samples to another."""

    left: float
    right: float
    share: float


def flagged_shares(
    samples: Sequence[float], judged: Sequence[float], flagged: Sequence[float], most: int = BARS
) -> list[Bar]:
    """Return the share of flagged rows over time, from totals.

    Parameters
    ----------
    samples : sequence of float
        Samples learned, in increasing order.
    judged, flagged : sequences of float
        Rows judged and flagged until then; NaN where that is not known.
    most : int, default=60
        Largest number of bars.

    Examples
    --------
    >>> flagged_shares([200, 300, 500], [100, 200, 400], [0, 1, 3])
    [Bar(left=100, right=200, share=0.0), Bar(left=200, right=300, share=0.01), Bar(left=300, right=500, share=0.01)]
    """
    known = [totals for totals in zip(samples, judged, flagged, strict=True) if totals[1] > 0 and totals[2] >= 0]
    if not known:
        return []
    first = known[0][0]
    known.insert(0, (max(0, first - known[0][1]), 0, 0))
    least, bars, before = (known[-1][0] - known[0][0]) / most, list[Bar](), known[0]
    for now in known[1:]:
        rows = now[1] - before[1]
        if rows > 0 and now[0] > before[0] and (now[0] - before[0] >= least or now is known[-1]):
            bars.append(Bar(before[0], now[0], min(1.0, max(0.0, (now[2] - before[2]) / rows))))
            before = now
        elif rows < 0:  # the run has begun again
            before = now
    return bars
