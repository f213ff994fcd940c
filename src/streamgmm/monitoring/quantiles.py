"""Scores of typical rows as streamgmm 0.1 kept them: t-digests of the latest scores."""

from __future__ import annotations

import numpy as np

from streamgmm.errors import MissingExtraError
from streamgmm.monitoring.reference import MOST_SCORES, Reference


def reference_of_digests(current: bytes, previous: bytes) -> Reference:
    """Return the reference that two serialised t-digests describe; raise ValueError if they are damaged.

    Parameters
    ----------
    current, previous : bytes
        Digests of two windows of scores.
    """
    try:
        from datasketches import tdigest_double
    except ImportError as problem:
        raise MissingExtraError("Thresholds in files of streamgmm 0.1 require datasketches", "sketches") from problem
    try:
        both, other = (tdigest_double.deserialize(digest) for digest in (current, previous))
        both.merge(other)
        count = int(both.get_total_weight())
        if not count:
            return Reference(np.empty(0), np.empty(0))
        levels = (np.arange(min(count, MOST_SCORES)) + 0.5) / min(count, MOST_SCORES)
        scores = np.maximum.accumulate([both.get_quantile(float(level)) for level in levels])
    except (RuntimeError, OverflowError) as problem:
        raise ValueError(f"the sketch of scores is damaged ({problem!s:.100})") from problem
    return Reference(scores, levels)
