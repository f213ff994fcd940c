"""What differences say, in words."""

from __future__ import annotations

from statistics import fmean, median

LIMIT = 0.03  # nats per feature that ours may be below scikit-learn's
OVERLAP_LIMIT = 0.01  # nats
WINDOW_LIMIT = 1.0  # nats per row


def judge(title: str, differences: list[tuple[str, float]], limit: float) -> str:
    """Say how many rows of a table are not below by more than a limit, and name the others.

    Parameters
    ----------
    title : str
        What was compared.
    differences : list of (str, float)
        Name and difference of each row; NaN counts as below.
    limit : float
        How much a row may be below.

    Examples
    --------
    >>> judge("Drift", [("D = 2", 0.5), ("D = 10", -1.2)], 1.0)
    'Drift: 1 of 2 hold; not D = 10.'
    """
    below = [name for name, difference in differences if not difference >= -limit]
    ending = f"; not {', '.join(below)}." if below else "."
    return f"{title}: {len(differences) - len(below)} of {len(differences)} hold{ending}"


def median_verdict(differences: list[tuple[str, float, float]]) -> str:
    """Say which sets are below their limit, and whether the median over sets is below zero.

    Parameters
    ----------
    differences : list of (str, float, float)
        Name, difference and limit of each set.

    Examples
    --------
    >>> median_verdict([("iris K = 4", 0.2, 0.12), ("wine K = 4", -0.1, 0.39), ("moons K = 4", -0.07, 0.06)])
    'Density: 2 of 3 hold; not moons K = 4. The median difference is -0.070 nats: below 0.'
    """
    counted = judge("Density", [(name, gap + limit) for name, gap, limit in differences], 0.0)
    middle = median(gap for _, gap, _ in differences)
    return f"{counted} The median difference is {middle:+.3f} nats: {'not below' if middle >= 0 else 'below'} 0."


def ranking_verdict(differences: list[tuple[str, float]]) -> str:
    """Say on which sets anomalies are ranked worse, and how much better they are on average.

    Single sets depend on the seeds of both by a point or more; the mean over sets is what can be relied on.

    Parameters
    ----------
    differences : list of (str, float)
        Name of each set, and the difference of the areas under the ROC curve.

    Examples
    --------
    >>> ranking_verdict([("iris K = 4", 0.01), ("wine K = 4", -0.002)])
    'Anomaly ranking: 1 of 2 hold; not wine K = 4. The mean difference is +0.40 points.'
    """
    mean = 100 * fmean(difference for _, difference in differences)
    return f"{judge('Anomaly ranking', differences, 0.0)} The mean difference is {mean:+.2f} points."
