"""How many passes over data a training needs."""

from __future__ import annotations

PERIODS = 160  # between checks, that a training should last: enough to anneal, and to settle after that
MOST_PASSES = 1000
MOST_REFINED = 2e8  # rows × numbers of all components, for refinement by batch EM


def passes_for(n_epochs: int | str, period: int, length: int) -> int:
    """Return the number of passes over so many rows, as given or, for ``"auto"``, as many as the rows need."""
    if n_epochs != "auto":
        return int(n_epochs)
    return max(1, min(MOST_PASSES, -(-PERIODS * period // max(1, length))))
