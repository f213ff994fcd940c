"""Numbers, names and ids as labels: short, and without characters that could not be shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from math import isfinite
from typing import Any

LONGEST, LONGEST_LABEL = 60, 14  # characters of a name or an id, and of a label of an axis
MOST_DIGITS = 9  # of numbers that are nearly equal
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
    most = min(most, 1 + int((last - first) / (1.5 * least))) if least > 0 else 1
    chosen = dict[float, Any]()
    for i in range(most):  # from the latest, which matters most
        wanted = last - (last - first) * i / max(1, most - 1)
        place, value = min(known, key=lambda pair: abs(pair[0] - wanted))
        if not chosen or min(chosen) - place >= least:
            chosen[place] = value
    places = sorted(chosen)
    return dict(zip(places, short_labels([chosen[place] for place in places]), strict=True))


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
    return [text if len(text) <= LONGEST_LABEL else text[: LONGEST_LABEL - 1] + "…" for text in texts]


def short_number(value: float) -> str:
    """Format a number in about six characters.

    Parameters
    ----------
    value : float
        The number.

    Examples
    --------
    >>> short_number(-1234.5), short_number(0.012345), short_number(-3e20), short_number(float("nan"))
    ('-1,234', '0.0123', '-3e20', '–')
    """
    if not isfinite(value):
        return "–"
    if abs(value) >= 1e6:
        mantissa, exponent = f"{value:.2e}".split("e")
        return f"{float(mantissa):g}e{int(exponent)}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def short_numbers(values: Sequence[float]) -> list[str]:
    """Format numbers that are compared, with as many digits as tell them apart.

    Parameters
    ----------
    values : sequence of float
        The numbers.

    Examples
    --------
    >>> short_numbers([91.4, 47.5, 52.6]), short_numbers([50.08, 49.98, 50.02])
    (['91.4', '47.5', '52.6'], ['50.08', '49.98', '50.02'])
    """
    texts = [short_number(value) for value in values]
    finite = [value for value in values if isfinite(value)]
    for digits in range(4, MOST_DIGITS + 1):
        if len(set(texts)) >= len(set(finite)) + (len(finite) < len(values)):
            break
        texts = [f"{value:,.{digits}g}" if isfinite(value) else "–" for value in values]
    return texts


def short_text(value: object) -> str:
    """Return a text from outside with at most 60 characters, none of which can move the others.

    Parameters
    ----------
    value : object
        The text; anything else is converted.

    Examples
    --------
    >>> short_text("flow\\x1b[31m\\u202e"), len(short_text("x" * 1000))
    ('flow�[31m�', 60)
    """
    text = "".join(c if c.isprintable() else "�" for c in str(value)[: LONGEST + 1])
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def row_name(row_id: Any, number: int) -> str:
    """Return what to call a row: its id or, without one, its number.

    Parameters
    ----------
    row_id : str, int, float or None
        Its id.
    number : int
        Its number.

    Examples
    --------
    >>> row_name("2026-03-07T19:10:00", 7), row_name(None, 1234)
    ('2026-03-07 19:10:00', 'row 1,234')
    """
    if row_id is None:
        return f"row {number:,}"
    text = short_text(row_id)
    is_time = len(text) > 10 and text[10] == "T" and text[:4].isdigit()
    return text.replace("T", " ", 1) if is_time else text
