"""A user's own set: read once, split, and scaled to [0, 1]."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.datasets import Dataset
from streamgmm.errors import SourceError
from streamgmm.sources import open_source
from streamgmm.sources.numpy_files import read_arrays

TEST_SHARE = 0.2  # of the rows of a CSV file
FEWEST_ROWS = 20


@dataclass(frozen=True)
class OwnData:
    """A file, and what tables need to know about it without reading it again.

    Parameters
    ----------
    path : Path
        A .npz or .csv file.
    label : str or None
        Column of a .csv file that holds the classes.
    size : tuple of int
        Training samples, test samples and features.
    classes : int
        Number of classes; 0 if the file has none.
    content : str
        A hash of the file, so that records of another content are not reused.
    """

    path: Path
    label: str | None
    size: tuple[int, int, int]
    classes: int
    content: str

    @property
    def name(self) -> str:
        """What tables call it."""
        return self.path.stem

    def facts(self) -> dict[str, Any]:
        """Return what a run must know to read the same data."""
        return {"path": str(self.path), "label": self.label, "content": self.content, "size": list(self.size)}


def inspect_file(path: Path, label: str | None = None) -> OwnData:
    """Read a file once, and describe it.

    Parameters
    ----------
    path : Path
        A .npz or .csv file.
    label : str or None, default=None
        Column of a .csv file that holds the classes.
    """
    data = read_file(path, label)
    classes = len(np.unique(data.y_train))
    content = sha256(path.read_bytes()).hexdigest()[:16]
    size = (len(data.x_train), len(data.x_test), data.n_features)
    return OwnData(path.resolve(), label, size, classes if classes > 1 else 0, content)


def read_file(path: Path, label: str | None = None) -> Dataset:
    """Read a file of samples for training and for testing.

    Bytes stay bytes. Other numbers stay as they are if all lie within [0, 1]; otherwise each feature is scaled by its
    range in the training part, since the paper's settings suit features in [0, 1].

    Parameters
    ----------
    path : Path
        A .npz file with the arrays x_train and x_test, and perhaps y_train and y_test; or a .csv file of numbers, of
        which a random fifth becomes the test part.
    label : str or None, default=None
        Column of a .csv file that holds the classes.
    """
    if path.suffix.lower() == ".npz":
        if label is not None:
            raise SourceError(f"{path.name} has no columns; expected classes in arrays y_train and y_test.")
        train, test, labels = _from_arrays(path)
    elif path.suffix.lower() == ".csv":
        train, test, labels = _from_table(path, label)
    else:
        raise SourceError(f"{path.name} has an unsupported extension; expected .npz or .csv.")
    for part in (train, test):
        if len(part) < FEWEST_ROWS:
            raise SourceError(f"{path.name} has a part of {len(part)} rows; expected at least {FEWEST_ROWS}.")
        if part.dtype != np.uint8 and not np.isfinite(part).all():
            raise SourceError(f"{path.name} has missing or infinite values; fill them in or leave out such rows.")
    train, test = _scaled(train, test)
    _, numbers = np.unique(labels, return_inverse=True)
    return Dataset(path.stem, train, numbers[: len(train)], test, numbers[len(train) :], None)


Parts = tuple[npt.NDArray[Any], npt.NDArray[Any], npt.NDArray[Any]]


def _from_arrays(path: Path) -> Parts:
    arrays = read_arrays(path)
    if missing := {"x_train", "x_test"} - set(arrays):
        raise SourceError(
            f"{path.name} has the arrays {', '.join(arrays)}, but not {', '.join(sorted(missing))}; expected x_train, "
            "x_test and perhaps y_train, y_test."
        )
    train, test = (arrays[key].reshape(len(arrays[key]), -1) for key in ("x_train", "x_test"))
    if train.shape[1] != test.shape[1] or train.dtype.kind not in "uif" or test.dtype.kind not in "uif":
        raise SourceError(
            f"{path.name}: x_train has {train.shape[1]} features of {train.dtype}, x_test {test.shape[1]} of "
            f"{test.dtype}; expected the same number of features, and numbers."
        )
    if not {"y_train", "y_test"} <= set(arrays):
        return train, test, np.zeros(len(train) + len(test), np.int64)
    labels = np.concatenate([arrays["y_train"], arrays["y_test"]])
    if labels.shape != (len(train) + len(test),):
        raise SourceError(
            f"{path.name} has {len(train) + len(test)} rows and {labels.size} classes; expected one each."
        )
    return train, test, labels


def _from_table(path: Path, label: str | None) -> Parts:
    chunks = list(open_source(str(path), id_column=label).chunks())
    if not chunks:
        raise SourceError(f"{path.name} has no rows; expected at least {2 * FEWEST_ROWS}.")
    rows = np.concatenate([chunk.rows for chunk in chunks])
    ids = [str(i) for chunk in chunks for i in chunk.ids or ()]
    labels = np.array(ids) if label is not None else np.zeros(len(rows), np.int64)
    order = np.random.default_rng(0).permutation(len(rows))
    cut = len(rows) - int(TEST_SHARE * len(rows))
    return rows[order[:cut]], rows[order[cut:]], labels[order]


def _scaled(train: npt.NDArray[Any], test: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    if train.dtype == test.dtype == np.uint8:
        return train, test
    train, test = train.astype(np.float64), test.astype(np.float64)
    if min(train.min(), test.min()) < 0 or max(train.max(), test.max()) > 1:
        low, high = train.min(axis=0), train.max(axis=0)
        width = np.where(high > low, high - low, 1.0)
        train, test = (train - low) / width, (test - low) / width
    return train.astype(np.float32), test.astype(np.float32)
