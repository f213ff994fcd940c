"""Where sets come from: bundled ones, those of the paper, and a user's files."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets
from streamgmm.comparison.bundled import BUNDLED, load_bundled
from streamgmm.comparison.dequantisation import dequantise
from streamgmm.comparison.files import load_file
from streamgmm.comparison.sample_set import SampleSet

PAPER_ROWS = 5000


@dataclass(frozen=True)
class Origin:
    """Where to find a set.

    Parameters
    ----------
    name : str
        A bundled set, a set of the paper, or a path.
    label : str or None, default=None
        Column of a file that holds classes.
    rows : int or None, default=None
        Most rows to use; None for all, or ``PAPER_ROWS`` of the paper's sets.
    """

    name: str
    label: str | None = None
    rows: int | None = None


def find_origin(name: str, label: str | None = None, rows: int | None = None) -> Origin:
    """Return where to find a set; raise FileNotFoundError if it is nowhere.

    Parameters
    ----------
    name : str
        Name of a set, or a path; a file wins.
    label : str or None, default=None
        Column of a file that holds classes.
    rows : int or None, default=None
        Most rows to use.
    """
    if Path(name).is_file():
        return Origin(str(Path(name).resolve()), label, rows)
    if name in BUNDLED:
        return Origin(name, None, rows)
    if name in datasets.FILES:
        return Origin(name, None, rows or PAPER_ROWS)
    known = ", ".join([*BUNDLED, *datasets.FILES])
    raise FileNotFoundError(f"{name} does not exist; expected a .csv, .npy or .npz file, or one of {known}.")


@lru_cache(maxsize=1)
def load_raw(origin: Origin) -> SampleSet:
    """Return a set as it is.

    Parameters
    ----------
    origin : Origin
        Where to find it.
    """
    if origin.name in BUNDLED:
        return _few_rows(load_bundled(origin.name), origin.rows)
    if origin.name in datasets.FILES:
        return _few_rows(_load_of_the_paper(origin.name), origin.rows)
    return _few_rows(load_file(Path(origin.name), origin.label), origin.rows)


@lru_cache(maxsize=1)
def load_dequantised(origin: Origin) -> SampleSet:
    """Return a set with noise on its discrete columns.

    Parameters
    ----------
    origin : Origin
        Where to find it.
    """
    return dequantise(load_raw(origin))


def _load_of_the_paper(name: str) -> SampleSet:
    found = datasets.load(name)
    rows = np.concatenate([found.x_train, found.x_test])
    labels = np.concatenate([found.y_train, found.y_test])
    return SampleSet(name, rows, [str(i) for i in range(rows.shape[1])], labels, len(found.x_train))


def _few_rows(samples: SampleSet, most: int | None) -> SampleSet:
    """Return a set with at most so many rows for training, and half as many for testing, as floats."""
    total, n_train = len(samples.rows), samples.n_train
    if n_train is None:
        chosen, n_train = _draw(0, total, most), None
    else:
        train = _draw(0, n_train, most)
        chosen, n_train = np.r_[train, _draw(n_train, total, most and -(-most // 2))], len(train)
    rows = samples.rows[chosen]
    labels = None if samples.labels is None else samples.labels[chosen]
    notes = samples.notes if len(chosen) == total else (*samples.notes, f"{len(chosen):,} of {total:,} rows")
    floats = rows if rows.dtype.kind == "f" else rows.astype(np.float32)
    return replace(samples, rows=floats, labels=labels, n_train=n_train, notes=notes)


def _draw(start: int, stop: int, most: int | None) -> npt.NDArray[Any]:
    """Return at most so many numbers of rows, drawn with a fixed seed and in their order."""
    if most is None or stop - start <= most:
        return np.arange(start, stop)
    return np.sort(start + np.random.default_rng(0).choice(stop - start, most, replace=False))
