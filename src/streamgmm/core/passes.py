"""How many passes over data a training needs."""

from __future__ import annotations

PERIODS = 160  # between checks, that a training should last: enough to anneal, and to settle after that
MOST_PASSES = 1000
MOST_REFINED = 2e8  # rows × numbers of all components, for refinement by batch EM
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
    if not rows_to_refine(length, n_numbers):
        samples = min(FINE_PERIODS * period, int(MOST_FINE / n_numbers))
        passes = max(passes, min(FINE_PASSES, samples // length))
    return max(1, passes)


def rows_to_refine(length: int, n_numbers: int, sample: bool = False) -> int:
    """Return how many of so many rows batch EM takes to refine a model: all, if they are few enough, or none.

    Parameters
    ----------
    length : int
        Number of rows.
    n_numbers : int
        Numbers in means and covariances.
    sample : bool, default=False
        Whether a sample of the rows will do, if it has a row for each of these numbers.
    """
    if length * n_numbers <= MOST_REFINED:
        return length
    most = int(MOST_REFINED / n_numbers)
    return most if sample and most >= n_numbers else 0
