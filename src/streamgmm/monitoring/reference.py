"""Scores of typical rows, and what follows from them: thresholds and p-values."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property
from math import expm1, inf, log
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Numbers = npt.NDArray[np.float64]
MOST_SCORES = 2000  # that a reference holds: half of them the lowest, the others evenly spaced
FEWEST = 20  # scores that say something
COUNTED = 10  # scores: below so many of them, where chance rules, a fitted tail gives p-values
TAIL = 0.1  # share of scores that the tail is fitted to
LARGEST_SHAPE = 0.5
SMALLEST = 1e-12  # p-value
FALSE_ALARMS = 0.1  # share of usual rows among those below a threshold that outliers decide
CAUTION = 1.25  # times the spread of usual scores, at least: new rows stray farther than those that were learned
MOST_CAUTION = 4.0
FEWEST_OUTLIERS = 0.5  # share of the rows to flag that must be outliers to decide on a threshold
FEWEST_EVIDENT = 5  # outliers: by chance, usual rows lie there less than once in a thousand samples
ROUNDS = 20  # in which the outliers and the tail of usual rows are found; the first few matter
USUAL = 2, 10  # times the share to flag: between these, rows are usual, and their scores thin out exponentially


class Tail(NamedTuple):
    """[E32] A generalised Pareto tail below ``score``, under which ``share`` of all scores lies."""

    score: float
    share: float
    spread: float
    shape: float

    def log_share(self, scores: Any) -> Any:
        """Return the logarithm of the share of the tail that lies below each score."""
        away = (max if isinstance(scores, float) else np.maximum)(self.score - scores, 0.0) / self.spread
        return -away if self.shape == 0 else -np.log1p(self.shape * away) / self.shape

    def quantile(self, log_share: float) -> float:
        """Return the score below which this share of the tail lies, given as a logarithm."""
        away = -log_share if self.shape == 0 else expm1(-self.shape * log_share) / self.shape
        return self.score - self.spread * away


@dataclass(frozen=True, eq=False)
class Reference:
    """What typical rows score: p-values and thresholds come from here.

    A p-value is the share of typical rows that are as unlikely: that of n rows and the row itself, so that a share c
    of rows like these has a p-value of at most c ([E32]). Below the ten lowest scores it comes from a fitted tail.

    Attributes
    ----------
    scores : array of shape (M,)
        Scores in increasing order.
    shares : array of shape (M,)
        Share of typical rows that score at most as much.
    caution : float, default=1.25
        How much farther the scores of new rows may spread, where outliers decide on the threshold ([E44]).

    Examples
    --------
    >>> typical = Reference.of(np.arange(999.0))
    >>> typical.p_values(np.array([9.5, 10.5])).tolist()
    [0.011, 0.012]
    >>> int((typical.scores < typical.threshold(0.01)).sum())
    10
    """

    scores: Numbers
    shares: Numbers
    caution: float = CAUTION

    @classmethod
    def of(cls, scores: npt.ArrayLike, counts: npt.ArrayLike | None = None, caution: float = CAUTION) -> Reference:
        """Return the reference that scores (N,) of typical rows give, each counted as often as ``counts`` (N,) say."""
        values = np.asarray(scores, np.float64)
        weights = np.ones(len(values)) if counts is None else np.asarray(counts, np.float64)
        values, weights = values[weights > 0], weights[weights > 0]
        order = np.argsort(values, kind="stable")
        below = np.cumsum(weights[order])
        kept = _thinned(len(values))
        total = below[-1] + 1 if len(below) else 1.0
        return cls(values[order][kept], below[kept] / total, caution)

    @property
    def known(self) -> bool:
        """Whether there are enough scores to judge by."""
        return len(self.scores) >= FEWEST

    def threshold(self, share: float) -> float:
        """Return the score below which this share of typical rows lies; minus infinity if too few are known.

        If at least half of these rows are evident outliers, which usual rows do not explain, the threshold separates
        them from the usual ones, and flags no more ([E44]).
        """
        if not self.known:
            return -inf
        if share not in self._thresholds:  # rows may be judged one at a time
            self._thresholds[share] = self._find_threshold(share)
        return self._thresholds[share]

    @cached_property
    def _thresholds(self) -> dict[float, float]:
        return {}

    def outlier_threshold(self, share: float) -> float:
        """[E44] Return the score below which rows are evident outliers, at most this share; -inf if none are."""
        end = self._end_of_outliers(share) if self.known else inf
        return end if end < inf else -inf

    def _find_threshold(self, share: float) -> float:
        place = self._place(share)
        if place:
            end = self._end_of_outliers(share)
            outliers = self.shares[np.searchsorted(self.scores, end) - 1] if end < inf else 0.0
            return end if outliers >= FEWEST_OUTLIERS * share else self._just_above(place - 1)
        tail = self._tail  # rarer than any row that was seen
        lowest = float(tail.log_share(self.scores[0]))
        return float(np.nextafter(tail.quantile(lowest + log(share / float(self.shares[0]))), inf))

    def _just_above(self, place: int) -> float:
        """Return a threshold above the score in a place, but not above equal scores, all of which would be flagged."""
        tied = place + 1 < len(self.scores) and self.scores[place + 1] == self.scores[place]
        return float(self.scores[place] if tied else np.nextafter(self.scores[place], inf))

    def p_values(self, scores: Numbers) -> Numbers:
        """Return the share of typical rows that are as unlikely as rows with these scores (N,); 1 if unknown."""
        if not self.known:
            return np.ones(len(scores))
        below, up_to = (np.searchsorted(self.scores, scores, side) for side in ("left", "right"))
        p = self._shares_and_all[np.maximum(below, up_to - 1)]
        edge, counted, log_share = self._edge
        rare = scores < edge
        if rare.any():
            p[rare] = counted * np.exp(self._tail.log_share(scores[rare]) - log_share)
        return np.maximum(p, SMALLEST)

    def p_value(self, score: float) -> float:
        """Return what ``p_values`` does for one score: a single row waits for it, and each call of NumPy takes long."""
        if not self.known:
            return 1.0
        edge, counted, log_share = self._edge
        if score < edge:
            p = float(counted * np.exp(self._tail.log_share(score) - log_share))
        else:
            below, up_to = (search(self._score_list, score) for search in (bisect_left, bisect_right))
            p = float(self._shares_and_all[max(below, up_to - 1)])
        return max(p, SMALLEST)

    @cached_property
    def _score_list(self) -> list[float]:
        return self.scores.tolist()

    @cached_property
    def _shares_and_all(self) -> Numbers:
        """The shares, and 1 for scores above all."""
        return np.append(self.shares, 1.0)

    @cached_property
    def _edge(self) -> tuple[float, float, float]:
        """Where counting ends: the score, the share of typical rows up to it, and the logarithm of that of the tail."""
        edge = self.scores[COUNTED - 1]
        counted = self.shares[np.searchsorted(self.scores, edge, side="left")]
        return edge, counted, self._tail.log_share(edge)

    def _place(self, share: float) -> int:
        """Return how many scores lie below the quantile of a share."""
        return int(np.searchsorted(self.shares, share * (1 + 1e-12), side="right"))

    def _end_of_outliers(self, share: float) -> float:
        """[E44] Return the highest threshold below which hardly any row is usual; infinity if there is none."""
        place, (nearest, farthest) = self._place(share), (times * share for times in USUAL)
        if place < COUNTED or farthest > 0.5:
            return inf
        scores = np.interp(np.linspace(nearest, farthest, 200), self.shares, self.scores)
        away, below, outliers = scores[-1] - self.scores[:place], self.shares[:place], 0.0
        for _ in range(ROUNDS):
            hidden = (nearest - outliers) / (farthest - nearest)  # usual rows beyond the nearest, per row between
            spread = (scores[-1] - scores).mean() + hidden * (scores[-1] - scores[0])
            if not spread > 0:
                return inf
            usual = (farthest - outliers) * np.exp(-away / (self.caution * spread))
            outliers = float(np.clip(np.max(below - usual), 0.0, share))
        pure = np.flatnonzero(usual <= FALSE_ALARMS * below)
        if len(pure) < FEWEST_EVIDENT:
            return inf
        last = int(pure[-1])
        limit = scores[-1] + self.caution * spread * log(FALSE_ALARMS * below[last] / (farthest - outliers))
        return float(np.clip(limit, np.nextafter(self.scores[last], inf), self.scores[last + 1]))

    @cached_property
    def _tail(self) -> Tail:
        """[E32] Fit the tail by probability-weighted moments."""
        share = min(0.5, max(TAIL, FEWEST * float(self.shares[0])))
        levels = share * (np.arange(200) + 0.5) / 200
        start, *_ = np.interp([share], self.shares, self.scores)
        away = start - np.interp(levels, self.shares, self.scores)  # decreasing
        mean, weighted = away.mean(), (away * (levels / share)).mean()
        if not weighted > 0:
            return Tail(float(start), share, float(np.spacing(max(1.0, abs(start)))), 0.0)
        shape = float(np.clip(2 - mean / max(mean - 2 * weighted, 1e-3 * mean), 0.0, LARGEST_SHAPE))
        return Tail(float(start), share, float(mean * (1 - shape)), shape)


def _thinned(count: int) -> npt.NDArray[np.int64]:
    """Choose places of sorted scores: the lowest ones, and an even selection of the others."""
    if count <= MOST_SCORES:
        return np.arange(count)
    half = MOST_SCORES // 2
    return np.concatenate([np.arange(half), np.linspace(half, count - 1, half).astype(np.int64)])


def is_unlikely(flagged: int, count: int, contamination: float) -> bool:
    """Return whether the number of flagged rows is implausibly far from the requested share.

    Parameters
    ----------
    flagged, count : int
        Rows that were flagged, and all rows.
    contamination : float
        Share of typical rows to flag.
    """
    expected = contamination * count
    return (expected >= 10 and flagged > 5 * expected) or (expected >= 50 and flagged < expected / 5)
