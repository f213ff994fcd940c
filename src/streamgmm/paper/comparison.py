"""Results over seeds, as a mean with a standard deviation, and how two of them compare."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import mean, stdev

import numpy as np

from streamgmm.paper.published import Value
from streamgmm.paper.runs import Results, Run


def summary(values: Sequence[float]) -> Value:
    """Return mean and standard deviation of the finite values.

    Parameters
    ----------
    values : sequence of float
        One result per seed.
    """
    known = [v for v in values if np.isfinite(v)]
    if not known:
        return Value(float("nan"), 0.0)
    return Value(mean(known), stdev(known) if len(known) > 1 else 0.0)


def shown(value: Value | None, digits: int = 1, bold: bool = False) -> str:
    """Format a result for a table.

    Parameters
    ----------
    value : Value or None
        The result; None becomes a dash.
    digits : int, default=1
        Digits after the decimal point.
    bold : bool, default=False
        Whether to mark it as the better one.

    Examples
    --------
    >>> shown(Value(1.26, 0.31)), shown(Value(1.26), 2, bold=True), shown(None)
    ('1.3 ± 0.3', '**1.26**', '–')
    """
    if value is None:
        return "–"
    text = f"{value.mean:.{digits}f}" if value.std is None else f"{value.mean:.{digits}f} ± {value.std:.{digits}f}"
    return f"**{text}**" if bold else text


def better(a: Value, b: Value, more: bool = True) -> bool:
    """Return whether ``a`` is better than ``b`` by more than half the larger standard deviation.

    Parameters
    ----------
    a, b : Value
        The results.
    more : bool, default=True
        Whether more is better.
    """
    gap = (a.mean - b.mean) * (1 if more else -1)
    return gap > 0.5 * max(a.std or 0.0, b.std or 0.0)


def verdict(a: Value, b: Value, names: tuple[str, str], more: bool = True) -> str:
    """Return the name of the better result, in the sense of ``better``, or "even".

    Parameters
    ----------
    a, b : Value
        The results.
    names : tuple of str
        Their names.
    more : bool, default=True
        Whether more is better.
    """
    return names[0] if better(a, b, more) else names[1] if better(b, a, more) else "even"


def last(results: Results, runs: Iterable[Run], name: str) -> Value:
    """Summarise a figure after the last pass over several runs.

    Parameters
    ----------
    results : dict
        Results by record name.
    runs : iterable of Run
        Runs that differ in their seeds.
    name : str
        The figure.
    """
    return summary([results[r.file]["passes"][-1][name] for r in runs])


def ceiling(features: int, precision_max: float = 20.0) -> float:
    """Return the largest log-likelihood that is possible with this many features.

    Parameters
    ----------
    features : int
        Number of features.
    precision_max : float, default=20.0
        Largest precision.
    """
    return 0.5 * features * float(np.log(precision_max / (2 * np.pi)))
