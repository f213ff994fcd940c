"""What typical rows score, and what follows from it: the plain truth, one function per equation of docs/math.md.

Rows become samples elsewhere; here everything is a score. Nothing here is fast.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]


def cross_validated_scores(
    x: npt.NDArray[np.float64], fit: Callable[[Numbers, int], Callable[[Numbers], Numbers]], block: int, folds: int
) -> Numbers:
    """[E31] Score each row by a model of the rows of other folds; neighbours, ``block`` of them, share a fold.

    ``fit`` takes rows and the number of the fold that is left out, and returns what scores rows.
    """
    fold = [i // block % folds for i in range(len(x))]
    scores = np.empty(len(x))
    for left_out in range(folds):
        out = np.array([f == left_out for f in fold])
        if out.any():
            scores[out] = fit(x[~out], left_out)(x[out])
    return scores


def p_value(score: float, typical: Numbers, counted: int = 10, share: float = 0.1) -> float:
    """[E32] Share of typical rows that score as low: by counting, and by a fitted tail below the lowest ``counted``."""
    s, n = sorted(float(t) for t in typical), len(typical)
    if score > s[-1]:
        return 1.0
    if score >= s[counted - 1]:
        return (1 + sum(t < score for t in s)) / (n + 1)
    shares = [(i + 1) / (n + 1) for i in range(n)]
    u = float(np.interp(share, shares, s))
    y = [u - float(np.interp(share * (i + 0.5) / 200, shares, s)) for i in range(200)]  # the furthest first
    a0 = sum(y) / 200
    a1 = sum(away * (i + 0.5) / 200 for i, away in enumerate(y)) / 200
    xi = min(max(2 - a0 / (a0 - 2 * a1), 0.0), 0.5)
    beta = a0 * (1 - xi)

    def survival(away: float) -> float:
        return float(np.exp(-away / beta)) if xi == 0 else float((1 + xi * away / beta) ** (-1 / xi))

    return counted / (n + 1) * survival(u - score) / survival(u - s[counted - 1])
