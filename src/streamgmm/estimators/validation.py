"""Checks of what users pass in, and warnings about it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate
from numbers import Integral
from operator import attrgetter
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from streamgmm.core.rows import LIMITS, float_type, pieces, unfit
from streamgmm.core.scaling import Scaling
from streamgmm.core.settings import INITS, Settings, require_number
from streamgmm.core.trainer import Trainer
from streamgmm.engines import run_all, thread_count
from streamgmm.engines.workers import ClusterEngine
from streamgmm.native import first_unfit_row

CHECKS_TO_ANNEAL = 100  # and to learn the details after that, with some to spare
MANY_DAMPED = 0.01  # share of samples from which a warning is due
CHECKS_AFTER = 5  # where annealing is over, or never was


def refuse_unfit(
    rows: npt.NDArray[Any],
    dtype: np.dtype[Any],
    *,
    name: str = "X",
    threads: int = 1,
    gaps: bool = False,
    table: Any = None,
) -> None:
    """Raise ValueError for the first value that is infinite, too large for ``dtype``, or NaN without ``gaps``.

    ``table`` is what the rows came from; the columns of a data frame have names.
    """
    if rows.dtype.kind in "iub":
        return
    limit = min(LIMITS[dtype], LIMITS[float_type(rows)])
    for done, piece in pieces(rows, float_type(rows)):
        parts = np.array_split(piece, threads) if threads > 1 else [piece]
        starts = accumulate((len(part) for part in parts[:-1]), initial=done - len(piece))
        found = run_all(threads, lambda part: first_unfit_row(part, limit, gaps), parts)
        for start, part, bad in zip(starts, parts, found, strict=True):
            if bad is not None:
                _, reason = next(unfit(part[bad : bad + 1], dtype, gaps=gaps, names=_column_names(table)))
                hint = "" if gaps or "NaN" not in reason else ", or learn from the other features with allow_nan=True"
                raise ValueError(f"row {start + bad} of {name} {reason}. Drop or impute such rows{hint}.")


def _column_names(table: Any) -> list[str] | None:
    """Return the names of the columns of a data frame; None for anything else."""
    names = list(getattr(table, "columns", ()))
    return names if names and all(isinstance(name, str) for name in names) else None


FIXED = [f.name for f in fields(Settings) if f.name not in (*INITS, "mean_range")]  # once training has begun
fixed_values = attrgetter(*FIXED)
"""Returns the values of these parameters of an estimator, in their order."""


def refuse_changes(now: Sequence[Any], begun: Sequence[Any], prefix: str = "") -> None:
    """Raise ValueError for a parameter that is not what training began with, and cannot change any more."""
    for name, found, value in zip(FIXED, now, begun, strict=True):
        if found != value:
            raise ValueError(
                f"{prefix}{name} is {found!r}, but training began with {value!r}. "
                "Set it back, or start again with fit or a clone."
            )


def seed_of(random_state: int | np.random.RandomState | np.random.Generator | None) -> int | None:
    """Draw one number from any kind of random state; this advances a generator that the caller holds."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**63))
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if random_state is None:
        return None
    if isinstance(random_state, int | np.integer) and not isinstance(random_state, bool) and random_state >= 0:
        return int(random_state)
    raise ValueError(
        f"random_state is {random_state!r}; expected a non-negative integer, a RandomState, a Generator or None."
    )


def warn_of_scaling(scaling: Scaling | None) -> None:
    """Warn that a model from a run with scaling expects scaled data."""
    if scaling is not None:
        warnings.warn(
            f"the model was trained on data scaled by {scaling.kind!r}, and expects data scaled in the same way: "
            "use streamgmm.storage.load_model(path).scaling.apply(X, dtype).",
            UserWarning,
            stacklevel=3,
        )


def warn_of_few_rows(rows: int, components: int) -> None:
    """Warn that there are fewer rows than components."""
    warnings.warn(
        f"{rows} rows are fewer than the {components} components: some components describe none. "
        "Lower n_components, or provide more data.",
        ConvergenceWarning,
        stacklevel=4,
    )


def warn_of_damped_rows(trainer: Trainer) -> None:
    """Warn if many rows were so extreme that they had little influence."""
    if trainer.n_damped > MANY_DAMPED * trainer.n_samples:
        warnings.warn(
            f"{trainer.n_damped} of {trainer.n_samples} samples were so extreme that they had little influence. "
            "Look at their values: n_rows_damped_ counts them.",
            UserWarning,
            stacklevel=4,
        )


def warn_of_few_samples(trainer: Trainer, n_epochs: int, length: int) -> None:
    """Warn that the model has not seen enough, and say how many passes over ``length`` rows would do."""
    period = trainer.schedule.period
    enough = -(-(CHECKS_AFTER if trainer.annealed else CHECKS_TO_ANNEAL) * period // length)
    warnings.warn(
        f"{'learning has only begun' if trainer.annealed else 'annealing has not finished'}: sigma is "
        f"{trainer.sigma:.3g} after {trainer.n_samples} samples. "
        f"Raise n_epochs (now {n_epochs}) to about {max(enough, 2 * n_epochs)}, "
        f"lower period (now {period}), or provide more data.",
        ConvergenceWarning,
        stacklevel=4,
    )


def check_fit_options(n_epochs: Any, shuffle: Any, verbose: Any, n_jobs: Any, engine: Any) -> None:
    """Raise unless the parameters of an estimator that a trainer does not know are valid."""
    if n_epochs != "auto":
        require_number("n_epochs", n_epochs, Integral, least=1)
    require_number("verbose", int(verbose) if isinstance(verbose, bool | np.bool_) else verbose, Integral, least=0)
    if not isinstance(shuffle, bool | np.bool_):
        raise ValueError(f"shuffle is {shuffle!r}; expected True or False.")
    check_engine(n_jobs, engine)


def check_engine(n_jobs: int | None, engine: object) -> None:
    """Raise ValueError for a number of threads or a cluster that cannot be, or if both are asked for."""
    if n_jobs is not None:
        require_number("n_jobs", n_jobs, Integral)
    thread_count(n_jobs)
    if engine is not None and not isinstance(engine, ClusterEngine):
        raise ValueError(f"engine is {engine!r}; expected a RayEngine, or None.")
    if engine is not None and n_jobs is not None:
        raise ValueError(f"n_jobs is {n_jobs} and engine is {engine!r}; expected one of them. Remove n_jobs.")
