"""Two comparisons on streams: one pass over clusters that overlap, and scores of rows that drift before they arrive."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from streamgmm.comparison.contenders import Rows, our_mixture, their_mixture

CLUSTERS = 4
OVERLAP_FEATURES = (1, 2, 5)
OVERLAP_ROWS, OVERLAP_TEST_ROWS = 40_000, 20_000
DRIFT_FEATURES = (2, 10, 40)
DRIFT_CLUSTERS = (1, CLUSTERS)
DRIFT_ROWS, DRIFT_SPEED = 20_000, 5000  # rows in all, and rows per standard deviation of drift
CHUNK, FIRST_ROW, WINDOW = 100, 200, 1000


class Stream(NamedTuple):
    """A synthetic stream.

    Parameters
    ----------
    features : int
        Number of features.
    clusters : int, default=4
        Number of clusters.
    """

    features: int
    clusters: int = CLUSTERS


OVERLAPPING = [Stream(features) for features in OVERLAP_FEATURES]
DRIFTING = [Stream(features, clusters) for clusters in DRIFT_CLUSTERS for features in DRIFT_FEATURES]


def overlapping_rows(features: int, rows: int, seed: int) -> Rows:
    """Draw rows of four clusters that overlap.

    Parameters
    ----------
    features : int
        Number of features.
    rows : int
        Number of rows.
    seed : int
        Seed of the rows; the clusters are always the same.
    """
    clusters = np.random.default_rng(features)
    means = clusters.normal(0, 1.2, (CLUSTERS, features))
    deviations = clusters.uniform(0.6, 1.2, (CLUSTERS, features))
    weights = clusters.dirichlet(np.full(CLUSTERS, 8.0))
    rng = np.random.default_rng([seed, features])
    chosen = rng.choice(CLUSTERS, rows, p=weights)
    return np.asarray(rng.normal(means[chosen], deviations[chosen]))


def measure_overlap(stream: Stream, seed: int) -> dict[str, Any]:
    """Return the test log-likelihood of ours after one pass and of scikit-learn's EM.

    Parameters
    ----------
    stream : Stream
        Number of features.
    seed : int
        Seed of the rows and of both models.
    """
    rows = overlapping_rows(stream.features, OVERLAP_ROWS + OVERLAP_TEST_ROWS, seed)
    train, test = rows[:OVERLAP_ROWS], rows[OVERLAP_ROWS:]
    begin = time.perf_counter()
    ours = our_mixture(CLUSTERS, seed).partial_fit(train)
    between = time.perf_counter()
    theirs = their_mixture(CLUSTERS, seed).fit(train)
    end = time.perf_counter()
    return {
        "ours": float(ours.score_samples(test).mean()),
        "theirs": float(theirs.score(test)),
        "our_seconds": between - begin,
        "their_seconds": end - between,
    }


def drifting_rows(stream: Stream, rows: int, seed: int) -> Rows:
    """Draw rows of clusters that move together, each feature by one standard deviation in 5000 rows.

    Parameters
    ----------
    stream : Stream
        Numbers of features and clusters.
    rows : int
        Number of rows.
    seed : int
        Seed of the clusters and of the rows.
    """
    rng = np.random.default_rng([seed, *stream])
    means = rng.normal(0, 1.5, (stream.clusters, stream.features))
    still = rng.normal(means[rng.integers(stream.clusters, size=rows)], 1.0)
    deviations = still.std(axis=0)
    directions = rng.choice([-1.0, 1.0], stream.features)
    return still + np.arange(rows)[:, None] / DRIFT_SPEED * deviations * directions


def running_gaussian(rows: Rows) -> npt.NDArray[np.float64]:
    """Return the log-likelihood of each row under a diagonal Gaussian of all rows in the chunks before it.

    Parameters
    ----------
    rows : ndarray of shape (N, D)
        Rows; the first chunk gets NaN.
    """
    counts = np.arange(1, len(rows) + 1)[:, None]
    means = np.cumsum(rows, axis=0) / counts
    variances = np.cumsum(rows**2, axis=0) / counts - means**2
    known = np.arange(len(rows)) // CHUNK * CHUNK - 1  # the last row before the chunk
    m, v = means[known], variances[known]
    scores = -0.5 * ((rows - m) ** 2 / v + np.log(2 * np.pi * v)).sum(axis=1)
    scores[:CHUNK] = np.nan
    return np.asarray(scores)


def lowest_window(differences: npt.NDArray[np.float64]) -> float:
    """Return the lowest mean over consecutive rows, from the first row that counts.

    Parameters
    ----------
    differences : ndarray of shape (N,)
        One number per row.

    Examples
    --------
    >>> lowest_window(np.r_[np.full(1200, 5.0), np.full(500, 1.0), np.full(2000, 3.0)])
    2.0
    """
    sums = np.cumsum(np.r_[0.0, differences[FIRST_ROW:]])
    return float((sums[WINDOW:] - sums[:-WINDOW]).min() / WINDOW)


def measure_drift(stream: Stream, components: int, seed: int) -> dict[str, Any]:
    """Score each chunk of a drifting stream, then learn it; return means, and the lowest difference of a window.

    Parameters
    ----------
    stream : Stream
        Numbers of features and clusters.
    components : int
        Number of components.
    seed : int
        Seed of the stream and of the model.
    """
    rows = drifting_rows(stream, DRIFT_ROWS, seed)
    model = our_mixture(components, seed)
    ours = np.full(len(rows), np.nan)
    begin = time.perf_counter()
    for start in range(0, len(rows), CHUNK):
        chunk = rows[start : start + CHUNK]
        if start:
            ours[start : start + CHUNK] = model.score_samples(chunk)
        model.partial_fit(chunk)
    seconds = time.perf_counter() - begin
    theirs = running_gaussian(rows)
    return {
        "ours": float(ours[FIRST_ROW:].mean()),
        "theirs": float(theirs[FIRST_ROW:].mean()),
        "lowest": lowest_window(ours - theirs),
        "our_seconds": seconds,
    }
