"""How many passes over data a training needs."""

from __future__ import annotations

from typing import NamedTuple

from streamgmm.core.settings import Settings

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


class Plan(NamedTuple):
    """Number of passes, and on how many rows, drawn at random, EM improves the model before further passes."""

    passes: int
    sampled: int


def plan_passes(
    n_epochs: int | str, settings: Settings, period: int, length: int, n_numbers: int, *, sample: bool = True
) -> Plan:
    """Return how to learn so many rows.

    One pass after the other hardly leads full covariances out of a poor maximum; EM on a sample of the rows does.

    Parameters
    ----------
    n_epochs : int or "auto"
        Number of passes, if it is given.
    settings : Settings
        How to train.
    period : int
        Samples between two checks.
    length : int
        Number of rows.
    n_numbers : int
        Numbers in means and covariances.
    sample : bool, default=True
        Whether a sample can be drawn.
    """
    auto, period, sampled = n_epochs == "auto", settings.kind.patience * period, 0
    coupled = settings.kind.couples_features and settings.refinable
    if sample and coupled and not (auto and can_refine_all(length, n_numbers)):
        sampled = rows_to_sample(length, n_numbers)
    sampled = sampled if sampled < length else 0
    passes = passes_for(n_epochs, period, length, 0 if sampled else n_numbers)
    return Plan(max(passes, POLISHED) if auto and sampled else passes, sampled)


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
    most = int(MOST_SAMPLED / max(1, n_numbers))
    return min(length, most, max(LEAST_SAMPLED, ROWS_PER_NUMBER * n_numbers)) if most >= n_numbers else 0
