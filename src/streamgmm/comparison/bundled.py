"""Tables that scikit-learn bundles, and synthetic ones, in units that differ from feature to feature."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.comparison.sample_set import SampleSet

Labelled = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]

ROWS = 1500
SEED = 0
ELONGATION = np.array([[0.6, -0.6], [-0.4, 0.8]])


def load_bundled(name: str) -> SampleSet:
    """Return one of ``BUNDLED``, raw.

    Parameters
    ----------
    name : str
        Name of the set.
    """
    return BUNDLED[name](name)


def _real(loader: str, *, labelled: bool = True, **options: Any) -> Callable[[str], SampleSet]:
    def load(name: str) -> SampleSet:
        from sklearn import datasets

        found = getattr(datasets, loader)(**options)
        return SampleSet(name, found.data, list(map(str, found.feature_names)), found.target if labelled else None)

    return load


def _synthetic(draw: Callable[[], npt.NDArray[np.float64]]) -> Callable[[str], SampleSet]:
    def load(name: str) -> SampleSet:
        rows = draw()
        units = 10.0 ** (3 - 2 * np.arange(rows.shape[1]))  # raw data have units of their own
        return SampleSet(name, rows * units + 5 * units, [f"x{i}" for i in range(rows.shape[1])])

    return load


def _blobs(**options: Any) -> npt.NDArray[np.float64]:
    from sklearn.datasets import make_blobs

    return make_blobs(random_state=SEED, **options)[0]


def _moons() -> npt.NDArray[np.float64]:
    from sklearn.datasets import make_moons

    return make_moons(ROWS, noise=0.08, random_state=SEED)[0]


def _swiss_roll() -> npt.NDArray[np.float64]:
    from sklearn.datasets import make_swiss_roll

    return make_swiss_roll(ROWS, noise=0.3, random_state=SEED)[0]


BUNDLED: dict[str, Callable[[str], SampleSet]] = {
    "iris": _real("load_iris"),
    "wine": _real("load_wine"),
    "breast_cancer": _real("load_breast_cancer"),
    "digits": _real("load_digits"),
    "diabetes": _real("load_diabetes", labelled=False, scaled=False),
    "overlapping": _synthetic(lambda: _blobs(n_samples=ROWS, n_features=5, centers=4, cluster_std=4.0)),
    "elongated": _synthetic(lambda: _blobs(n_samples=ROWS, centers=3) @ ELONGATION),
    "unequal": _synthetic(lambda: _blobs(n_samples=[1000, 400, 80, 20], cluster_std=[1.0, 2.5, 0.5, 0.3])),
    "moons": _synthetic(_moons),
    "swiss_roll": _synthetic(_swiss_roll),
}
