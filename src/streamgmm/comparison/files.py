"""Sets of rows from a user's own files."""

from __future__ import annotations

import csv
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.comparison.sample_set import FEWEST_ROWS, SampleSet, name_columns
from streamgmm.errors import SourceError
from streamgmm.sources import open_source
from streamgmm.sources.line_parser import MISSING_VALUES, is_number
from streamgmm.sources.numpy_files import read_arrays
from streamgmm.sources.separators import decimal_point, find_separator

INSPECTED = 1000  # lines that decide which columns hold numbers
ROWS_PER_CLASS = 5  # on average; labels with fewer are no classes
PAIRS = (("x_train", "x_test", "y_train", "y_test"), ("X_train", "X_test", "y_train", "y_test"))
SINGLES = (("x", "y"), ("X", "y"))


def load_file(path: Path, label: str | None = None) -> SampleSet:
    """Read the columns of numbers of a file; rows with gaps are left out.

    Parameters
    ----------
    path : Path
        A .csv, .npy or .npz file, or another file that ``open_source`` reads.
    label : str or None, default=None
        Column that holds classes, for files whose columns have names.
    """
    if path.suffix.lower() in (".npy", ".npz"):
        if label is not None:
            raise SourceError(f"{path.name} has no column {label!r}; expected classes in an array 'y' or 'y_train'.")
        return _checked(_from_arrays(path.name, read_arrays(path)))
    return _checked(_from_source(path, label))


def _from_arrays(name: str, arrays: dict[str, npt.NDArray[Any]]) -> SampleSet:
    for train, test, y_train, y_test in PAIRS:
        if train in arrays and test in arrays:
            parts = [_as_rows(name, arrays[key]) for key in (train, test)]
            if parts[0].shape[1] != parts[1].shape[1]:
                raise SourceError(f"{name}: {train} has {parts[0].shape[1]} columns, {test} {parts[1].shape[1]}.")
            labels = [arrays[key] for key in (y_train, y_test) if key in arrays]
            rows = np.concatenate(parts)
            return _with_labels(name, rows, np.concatenate(labels) if len(labels) == 2 else None, len(parts[0]))
    for key, y in SINGLES:
        if key in arrays:
            return _with_labels(name, _as_rows(name, arrays[key]), arrays.get(y), None)
    first = next(iter(arrays), None)
    if first is None:
        raise SourceError(f"{name} contains no array; expected x_train and x_test, or x.")
    return _with_labels(name, _as_rows(name, arrays[first]), None, None)


def _as_rows(name: str, values: npt.NDArray[Any]) -> npt.NDArray[np.floating[Any]]:
    if values.ndim < 2 or values.dtype.kind not in "iufb":
        raise SourceError(
            f"{name} contains {values.dtype} of shape {values.shape}; expected numbers of shape (rows, features)."
        )
    flat = values.reshape(len(values), -1)
    return flat if flat.dtype in (np.float32, np.float64) else flat.astype(np.float64)


def _with_labels(
    name: str, rows: npt.NDArray[np.floating[Any]], labels: npt.NDArray[Any] | None, n_train: int | None
) -> SampleSet:
    if labels is not None and labels.shape != (len(rows),):
        raise SourceError(f"{name} has {len(rows)} rows, and classes of shape {labels.shape}; expected one per row.")
    return SampleSet(name, rows, [str(i) for i in range(rows.shape[1])], labels, n_train)


def _from_source(path: Path, label: str | None) -> SampleSet:
    columns, texts = _columns_of_numbers(path, label) if path.suffix.lower() in (".csv", ".tsv") else (None, [])
    numbered = columns is not None and len(columns) > 1 and not columns[0]
    columns = columns[1:] if columns is not None and numbered else columns
    source = open_source(str(path), columns=columns, id_column=label, skip_bad=True, missing=True)
    parts: list[npt.NDArray[Any]] = []
    classes: list[Any] = []
    bad = 0
    for chunk in source.chunks():
        parts.append(chunk.rows)
        classes += chunk.ids or ()
        bad += len(chunk.bad)
    if not parts:
        raise SourceError(f"{path.name} has no rows; expected at least {FEWEST_ROWS}.")
    rows = _as_rows(path.name, np.concatenate(parts))
    names = source.feature_names or columns or [str(i) for i in range(rows.shape[1])]
    total = len(names) + len(texts) + (label is not None)
    notes = [f"no numbers, left out: {name_columns(texts, total)}"] if texts else []
    if numbered:
        notes.append("row numbers in a first column without a name, left out")
    if bad:
        notes.append(f"{bad:,} rows that could not be read, left out")
    labels = None if label is None else np.array([str(c) for c in classes])
    return SampleSet(path.name, rows, list(names), labels, None, tuple(notes))


def _columns_of_numbers(path: Path, label: str | None) -> tuple[list[str], list[str]]:
    """Return the columns of a CSV file that hold numbers, and those that hold text, but for the classes."""
    with path.open(encoding="utf-8-sig", newline="", errors="replace") as file:
        separator = find_separator(next((line for line in file if line.strip()), ""))
        file.seek(0)
        read = csv.reader(file, delimiter=separator)
        lines = [[f.strip() for f in line] for line in islice(read, INSPECTED) if line]
    if not lines:
        raise SourceError(f"{path.name} is empty; expected rows of numbers.")
    width = len(lines[0])
    body = [line for line in lines[1:] if len(line) == width]
    if separator == ";":
        body = [[decimal_point(field) for field in line] for line in body]
    texts = {i for i in range(width) if not _are_numbers([line[i] for line in body or lines])}
    heading = any(i not in texts and not _are_numbers([f]) for i, f in enumerate(lines[0]))
    unique = heading and len(set(lines[0])) == width
    names = lines[0] if unique else [str(i) for i in range(width)]
    place = lines[0].index(label) if heading and label in lines[0] else None
    if len(texts) == width:
        raise SourceError(f"{path.name} has no column of numbers; expected at least one.")
    features = [(i, name) for i, name in enumerate(names) if i != place and name != label]
    return [n for i, n in features if i not in texts], [n for i, n in features if i in texts]


def _are_numbers(values: list[str]) -> bool:
    """Return whether most of the values that are there are numbers."""
    present = [v for v in values if v not in MISSING_VALUES]
    found = sum(map(is_number, present))
    return bool(present) and 2 * found > len(present)


def _checked(samples: SampleSet) -> SampleSet:
    """Return a set without rows that have gaps; raise if too few are left."""
    whole = np.isfinite(samples.rows).all(axis=1)
    notes = samples.notes
    if not whole.all():
        notes = (*notes, f"{int((~whole).sum()):,} rows with gaps or infinite values, left out")
    rows, n_train = samples.rows[whole], samples.n_train
    if len(rows) < FEWEST_ROWS:
        raise SourceError(f"{samples.name} has {len(rows)} rows without gaps; expected at least {FEWEST_ROWS}.")
    if n_train is not None:
        n_train = int(whole[:n_train].sum())
    if n_train is not None and not 2 <= n_train < len(rows):
        raise SourceError(
            f"{samples.name} has {n_train} of {len(rows)} rows for training; expected some for each part."
        )
    labels = None if samples.labels is None else samples.labels[whole]
    if labels is not None and (count := len(np.unique(labels))) * ROWS_PER_CLASS > len(labels):
        labels, notes = None, (*notes, f"labels with {count:,} values for {len(rows):,} rows, not taken for classes")
    return SampleSet(samples.name, rows, samples.columns, labels, n_train, notes)
