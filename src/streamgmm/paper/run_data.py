"""The data of a run: some classes, some rows, a patch of each image, or another reading of the numbers."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm import datasets
from streamgmm.datasets import FACTOR, Dataset
from streamgmm.errors import SourceError
from streamgmm.paper.own_data import read_file
from streamgmm.paper.runs import Run

SMALLEST = "[0, 1]/255"  # divided by 255 as images are
READINGS = ("[0, 1]", "[−1, 1]", SMALLEST)  # of ISOLET; its file has the second


def data_of(run: Run) -> Dataset:
    """Return the data of a run.

    Parameters
    ----------
    run : Run
        The run.
    """
    wanted, data = run.data, _all_data(run)
    tests = data.x_test, data.y_test
    if wanted.get("all_but") is not None:
        data = data.classes(set(np.unique(data.y_train).tolist()) - set(wanted["all_but"]))
    if wanted.get("classes") is not None:
        data = data.classes(wanted["classes"])
    if wanted.get("test_on") == "all":
        data = replace(data, x_test=tests[0], y_test=tests[1])
    if wanted.get("patch") is not None:
        data = patches(data, wanted["patch"])
    rows = wanted.get("rows")
    if rows is not None:
        train, test = (np.random.default_rng(0).permutation(len(x))[:rows] for x in (data.x_train, data.x_test))
        data = replace(
            data,
            x_train=data.x_train[train],
            y_train=data.y_train[train],
            x_test=data.x_test[test],
            y_test=data.y_test[test],
        )
    return data


def _all_data(run: Run) -> Dataset:
    own = run.data.get("own")
    if own is not None:
        return _own(own["path"], own["label"], own["content"])
    return _whole(run.dataset, tuple(datasets.folders()), run.data.get("reading", "[0, 1]"))


@lru_cache(maxsize=1)
def _own(path: str, label: str | None, content: str) -> Dataset:
    """Read a user's file; ``content`` tells apart versions of it."""
    if not Path(path).exists():
        raise SourceError(f"{path} no longer exists; expected the file that the tables began with.")
    return read_file(Path(path), label)


@lru_cache(maxsize=1)
def _whole(name: str, folders: tuple[Path, ...], reading: str) -> Dataset:
    """Load a data set; ``folders`` tells apart sets of the same name."""
    data = datasets.load(name)
    if data.x_train.dtype == np.uint8:
        return data
    return replace(data, x_train=_read(data.x_train, reading), x_test=_read(data.x_test, reading))


def _read(rows: npt.NDArray[Any], reading: str) -> npt.NDArray[np.float32]:
    if reading == "[−1, 1]":
        return rows.astype(np.float32)
    values = datasets.scaled(rows)
    return values * np.float32(FACTOR) if reading == SMALLEST else values


def patches(data: Dataset, side: int) -> Dataset:
    """Cut a square from the middle of each image.

    Parameters
    ----------
    data : Dataset
        Images.
    side : int
        Side of the square, in pixels.
    """
    whole = data.shape or ()
    low = (whole[0] - side) // 2

    def cut(x: npt.NDArray[Any]) -> npt.NDArray[Any]:
        images = x.reshape(len(x), *whole)[:, low : low + side, low : low + side]
        return images.reshape(len(x), -1).copy()

    return replace(data, x_train=cut(data.x_train), x_test=cut(data.x_test), shape=(side, side, *whole[2:]))


def floats(x: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Return samples as float32 within [0, 1].

    Parameters
    ----------
    x : array of shape (N, D)
        Bytes, or floats as they are.
    """
    return datasets.scaled(x) if x.dtype == np.uint8 else x
