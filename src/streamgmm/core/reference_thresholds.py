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
    if score >= s[counted - 1]:
        return max(sum(t <= score for t in s), 1 + sum(t < score for t in s)) / (n + 1)
    shares = [(i + 1) / (n + 1) for i in range(n)]
    u = float(np.interp(share, shares, s))
    y = [u - float(np.interp(share * (i + 0.5) / 200, shares, s)) for i in range(200)]  # the furthest first
    a0 = sum(y) / 200
    a1 = sum(away * (i + 0.5) / 200 for i, away in enumerate(y)) / 200
    xi = min(max(2 - a0 / (a0 - 2 * a1), 0.0), 0.5)
    beta = a0 * (1 - xi)

    def survival(away: float) -> float:
        return float(np.exp(-away / beta)) if xi == 0 else float((1 + xi * away / beta) ** (-1 / xi))

    lowest = 1 + sum(t < s[counted - 1] for t in s)
    return lowest / (n + 1) * survival(u - score) / survival(u - s[counted - 1])


def end_of_outliers(scores: Numbers, share: float, caution: float = 1.25) -> float | None:
    """[E44] Threshold that separates evident outliers from usual rows; None if no outliers are evident."""
    s, n = sorted(float(t) for t in scores), len(scores)
    shares = [(i + 1) / (n + 1) for i in range(n)]
    u, a = (float(np.interp(q * share, shares, s)) for q in (10, 2))
    between = [u - float(np.interp(q, shares, s)) for q in np.linspace(2 * share, 10 * share, 200)]
    most, o = sum(q <= share * (1 + 1e-12) for q in shares), 0.0
    for _ in range(20):
        beta = sum(between) / 200 + (2 * share - o) / (8 * share) * (u - a)
        usual = [(10 * share - o) * float(np.exp(-(u - t) / (caution * beta))) for t in s[:most]]
        o = min(max(0.0, *(q - e for q, e in zip(shares, usual, strict=False))), share)
    pure = [k for k in range(most) if usual[k] <= 0.1 * shares[k]]
    if most < 10 or len(pure) < 5:
        return None
    k = pure[-1]
    above = float(np.nextafter(s[k], np.inf))
    return max(above, min(s[k + 1], u + caution * beta * float(np.log(0.1 * shares[k] / (10 * share - o)))))


def strangest(scores: Numbers, share: float) -> set[int]:
    """[E45] Rows that a detector does not learn."""
    order = sorted(range(len(scores)), key=lambda i: float(scores[i]))
    return set(order[: int(min(share, 0.05) * (len(scores) + 1) * (1 + 1e-12))])


def in_bursts(scores: Numbers, share: float = 0.03) -> list[bool]:
    """[E46] Which rows describe a moment, given the scores (N,) that other parts of a file give its rows."""
    end = end_of_outliers(scores, share)
    strange = [end is not None and float(t) < end for t in scores]
    return [own and sum(strange[max(0, i - 10) : i + 11]) >= 3 for i, own in enumerate(strange)]


def without_optimism(scores: Numbers, gaps: Numbers, seen_then: int, seen: int) -> list[float]:
    """[E47] Scores of a sample, lowered by ``gaps`` at quantiles 0.02 to 0.98 as far as its rows were refined on."""
    s, n, lowered = sorted(float(t) for t in scores), len(scores), list[float]()
    for i, t in enumerate(s):
        gap = float(np.interp((i + 1) / (n + 1), np.linspace(0.02, 0.98, len(gaps)), gaps))
        lowered.append(max([t - gap * min(1.0, seen_then / seen), *lowered[-1:]]))
    return lowered
