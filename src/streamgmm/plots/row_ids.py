"""Ids and times of rows as labels of an axis that counts samples."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

LONGEST = 14  # characters of a label
APART = 0.12  # of the axis, between two labels
FORMS = (  # the first whose span is exceeded
    (timedelta(days=300), "%Y-%m-%d"),
    (timedelta(days=2), "%b %d"),
    (timedelta(minutes=10), "%H:%M"),
    (timedelta(0), "%H:%M:%S"),
)


def id_ticks(samples: Sequence[float], ids: Sequence[Any], most: int = 4) -> dict[float, str]:
    """Choose places on an axis of samples, and label them with the ids of the rows there.

    Parameters
    ----------
    samples : sequence of float
        Places along the axis, in increasing order.
    ids : sequence of str, int, float or None
        Id or time of the row at each place, None where it is not known.
    most : int, default=4
        Largest number of labels.

    Returns
    -------
    dict of float to str
        Labels by place; empty if no id is known.

    Examples
    --------
    >>> id_ticks([100, 200, 300], ["2026-01-01T10:00", "2026-01-01T11:00", "2026-01-01T12:00"], most=2)
    {100: '10:00', 300: '12:00'}
    """
    known = [(place, value) for place, value in zip(samples, ids, strict=True) if value is not None]
    if not known:
        return {}
    first, last = known[0][0], known[-1][0]
    least = APART * (last - min(0, *samples))
    chosen = dict[float, Any]()
    for i in range(most):
        wanted = first + (last - first) * i / max(1, most - 1)
        place, value = min(known, key=lambda pair: abs(pair[0] - wanted))
        if not chosen or place - max(chosen) >= least:
            chosen[place] = value
    return dict(zip(chosen, short_labels(list(chosen.values())), strict=True))


def short_labels(ids: Sequence[Any]) -> list[str]:
    """Return ids as short texts: times without what they share, other texts cut.

    Parameters
    ----------
    ids : sequence of str, int or float
        The ids.

    Examples
    --------
    >>> short_labels(["2026-01-01T10:00:00", "2026-03-07T19:10:00"]), short_labels([17, "a very long identifier"])
    (['Jan 01', 'Mar 07'], ['17', 'a very long i…'])
    """
    texts = [str(value) for value in ids]
    try:
        times = [datetime.fromisoformat(text) for text in texts if "-" in text]
        span = max(times) - min(times)
    except (ValueError, TypeError):  # no times, or some with a time zone and some without
        times, span = [], timedelta(0)
    if len(times) == len(texts):
        form = next(form for least, form in FORMS if span >= least)
        labels = [time.strftime(form) for time in times]
        if len(set(labels)) == len(labels):
            return labels
    return [text if len(text) <= LONGEST else text[: LONGEST - 1] + "…" for text in texts]
