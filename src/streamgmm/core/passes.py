"""How many passes over data a training needs."""

from __future__ import annotations

PERIODS = 160  # between checks, that a training should last: enough to anneal, and to settle after that
MOST_PASSES = 1000
MOST_REFINED = 2e8  # rows × numbers of all components, for refinement by batch EM
LEAST_SAMPLED, ROWS_PER_NUMBER = 5000, 3  # rows of a sample that is refined
MOST_SAMPLED = 6e8  # rows of such a sample × numbers of all components
POLISHED = 3  # passes, if a sample is refined after the first one
FINE_PASSES, FINE_PERIODS = 10, 40 * PERIODS  # at most, where rows are too many for that: components still improve
MOST_FINE = 2e11  # rows of all these passes × numbers of all components: seconds with diagonal covariances


def passes_for(n_epochs: int | str, period: int, length: int, n_numbers: int = 0) -> int:
    """Return the number of passes over so many rows, as given or, for ``"auto"``, as many as the rows need.

    Parameters
    ----------
    n_epochs : int or "auto"
        Number of passes, if it is given.
    period : int
        Samples between two checks.
    length : int
        Number of rows.
    n_numbers : int, default=0
        Numbers in means and covariances; see ``MOST_REFINED``.
    """
    if n_epochs != "auto":
        return int(n_epochs)
    length = max(1, length)
    passes = min(MOST_PASSES, -(-PERIODS * period // length))
    if not can_refine_all(length, n_numbers):
        samples = min(FINE_PERIODS * period, int(MOST_FINE / n_numbers))
        passes = max(passes, min(FINE_PASSES, samples // length))
    return max(1, passes)


def can_refine_all(length: int, n_numbers: int) -> bool:
    """Return whether rows are few enough for batch EM on all of them.

    Parameters
    ----------
    length : int
        Number of rows.
    n_numbers : int
        Numbers in means and covariances.
    """
    return length * n_numbers <= MOST_REFINED


def rows_to_sample(length: int, n_numbers: int) -> int:
    """Return on how many of many rows batch EM improves a model between two passes; 0 if too few are possible.

    Parameters
    ----------
    length : int
        Number of rows.
    n_numbers : int
        Numbers in means and covariances.
    """
    most = int(MOST_SAMPLED / n_numbers)
    return min(length, most, max(LEAST_SAMPLED, ROWS_PER_NUMBER * n_numbers)) if most >= n_numbers else 0
