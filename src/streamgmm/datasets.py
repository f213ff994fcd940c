"""The seven data sets of the paper, as bytes or float32.

A data set is looked up in ``$STREAMGMM_DATA``, then in the cache (``~/.cache/streamgmm``), as a packed file or as a
folder of images. If OpenML has it, it is otherwise downloaded to the cache. Images stay bytes: ``scaled`` converts
them to float32 within [0, 1], and ``Trainer.feed`` reads them as they are, times ``FACTOR``.
"""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import MissingExtraError, SourceError
from streamgmm.storage.atomic import write_atomically

FACTOR = 1 / 255
FILES = {
    "mnist": "mnist.npz",
    "fashionmnist": "fashionmnist.npz",
    "notmnist": "notmnist.npz",
    "devanagari": "devanagari.npz",
    "svhn": "svhn.npz",
    "isolet": "isolet.npz",
    "fruits360": "fruits360.zip",
}
IN_CLASS_ORDER = frozenset({"notmnist", "devanagari", "fruits360"})
OPENML = {  # name and version, number of training samples, shape of an image
    "mnist": ("mnist_784", 1, 60_000, (28, 28)),
    "fashionmnist": ("Fashion-MNIST", 1, 60_000, (28, 28)),
    "isolet": ("isolet", 1, 6238, None),
}
ARRAYS = ("x_train", "y_train", "x_test", "y_test")
IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
Arrays = tuple[npt.NDArray[Any], ...]


@dataclass(frozen=True)
class Dataset:
    """Samples for training and for testing, with labels.

    Parameters
    ----------
    name : str
        One of ``FILES``.
    x_train : array of shape (N, D)
        Training samples: bytes for images, float32 for others.
    y_train : array of shape (N,)
        Labels of the training samples, from 0.
    x_test : array of shape (M, D)
        Test samples.
    y_test : array of shape (M,)
        Labels of the test samples.
    shape : tuple of int or None
        Shape of an image; None if samples are not images.
    """

    name: str
    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[Any]
    y_test: npt.NDArray[np.int64]
    shape: tuple[int, ...] | None

    @property
    def n_features(self) -> int:
        """Number of features, D."""
        return int(self.x_train.shape[1])

    def classes(self, chosen: Iterable[int]) -> Dataset:
        """Return the samples of some classes.

        Parameters
        ----------
        chosen : iterable of int
            Labels to keep.
        """
        wanted = sorted(set(chosen))
        known = np.unique(self.y_train)
        if missing := set(wanted) - set(known.tolist()):
            raise ValueError(
                f"classes {sorted(missing)} do not exist; {self.name} has classes {known.min()} to {known.max()}."
            )
        train, test = np.isin(self.y_train, wanted), np.isin(self.y_test, wanted)
        return replace(
            self,
            x_train=self.x_train[train],
            y_train=self.y_train[train],
            x_test=self.x_test[test],
            y_test=self.y_test[test],
        )


def folders() -> list[Path]:
    """Return the folders that are searched for data sets, in order; the last one is the cache."""
    named = os.environ.get("STREAMGMM_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamgmm"
    return [*([Path(named)] if named else []), cache]


def check_names(chosen: Iterable[str] | None) -> list[str]:
    """Return the chosen data sets, or all; raise ValueError if a name is unknown.

    Parameters
    ----------
    chosen : iterable of str or None
        Names of data sets; None for all.
    """
    names = list(FILES) if chosen is None else list(chosen)
    if unknown := [name for name in names if name not in FILES]:
        raise ValueError(f"data set {unknown[0]!r} is unknown; expected one of {', '.join(FILES)}.")
    return names or list(FILES)


def load(name: str) -> Dataset:
    """Load a data set; one whose file is in class order is shuffled with a fixed seed.

    Parameters
    ----------
    name : str
        One of ``FILES``.

    Returns
    -------
    Dataset
        Samples that are not scaled; see ``scaled``.
    """
    check_names([name])
    x_train, y_train, x_test, y_test = _find(name)
    shape = None if x_train.ndim == 2 else x_train.shape[1:]
    if name == "isolet":
        y_train, y_test = y_train - 1, y_test - 1  # the file numbers letters from 1
    train, test = (a.reshape(len(a), -1) for a in (x_train, x_test))
    if name in IN_CLASS_ORDER:
        order = np.random.default_rng(0).permutation(len(train))
        train, y_train = train[order], y_train[order]
    return Dataset(name, train, y_train.astype(np.int64), test, y_test.astype(np.int64), shape)


def scaled(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """Scale samples to [0, 1].

    Parameters
    ----------
    rows : array of shape (N, D)
        Bytes, or numbers within [-1, 1].

    Returns
    -------
    array of shape (N, D)
        The samples as float32.
    """
    if rows.dtype == np.uint8:
        return np.multiply(rows, np.float32(FACTOR), dtype=np.float32)
    return np.divide(rows.astype(np.float32) + 1, 2, dtype=np.float32)


def ensure(names: Iterable[str]) -> None:
    """Download missing data sets where possible; raise FileNotFoundError that names all others.

    Parameters
    ----------
    names : iterable of str
        Data sets out of ``FILES``.
    """
    problems = []
    for name in names:
        if any((folder / FILES[name]).exists() or (folder / name).exists() for folder in folders()):
            continue
        try:
            _find(name)
        except FileNotFoundError as problem:
            problems.append(str(problem))
    if problems:
        raise FileNotFoundError(" ".join(problems))


def _find(name: str) -> Arrays:
    """Return the arrays of a data set from the first place that has it."""
    for folder in folders():
        for place, read in ((folder / FILES[name], _read_file), (folder / name, _read_folder)):
            if place.exists():
                return _read_checked(place, read)
    if name in OPENML:
        return _download(name)
    raise FileNotFoundError(
        f"{_not_found(name)}. {_expected(name)} Put it there, or set STREAMGMM_DATA to the folder that holds it."
    )


def _not_found(name: str) -> str:
    return f"{FILES[name]} was not found at {' or '.join(str(folder / FILES[name]) for folder in folders())}"


def _expected(name: str) -> str:
    folder = f"a folder '{name}' with images in train/<class>/ and test/<class>/"
    if FILES[name].endswith(".zip"):
        return f"Expected {folder}, or a zip file of the same content."
    return f"Expected a file with the arrays {', '.join(ARRAYS)} (images as bytes), or {folder}."


def _read_checked(place: Path, read: Callable[[Path], Arrays]) -> Arrays:
    try:
        arrays = read(place)
        for rows, labels in (arrays[:2], arrays[2:]):
            if len(rows) != len(labels) or not len(rows):
                raise ValueError(f"{len(rows)} samples and {len(labels)} labels")
        return arrays
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, ValueError) as problem:
        raise SourceError(f"{place} is damaged or incomplete ({problem!s:.100}). Download it again.") from problem


def _read_file(path: Path) -> Arrays:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return _read_images(archive.namelist(), archive.read)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as packed:
        return tuple(packed[key] for key in ARRAYS)


def _read_folder(path: Path) -> Arrays:
    names = [p.relative_to(path).as_posix() for p in path.glob("*/*/*") if p.is_file()]
    return _read_images(names, lambda name: (path / name).read_bytes())


def _read_images(names: Iterable[str], read: Callable[[str], bytes]) -> Arrays:
    """Read images named train/<class>/<file> and test/<class>/<file>; grey images keep one channel."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise MissingExtraError("Reading images requires Pillow", "plots") from problem
    known = sorted(n for n in names if n.lower().endswith(IMAGE_SUFFIXES) and n.count("/") == 2)
    classes = sorted({n.split("/")[1] for n in known})
    parts: list[npt.NDArray[Any]] = []
    for part in ("train", "test"):
        own = [n for n in known if n.startswith(part + "/")]
        if not own:
            raise ValueError(f"no images in {part}/<class>/")
        opened = (Image.open(io.BytesIO(read(n))) for n in own)
        images = [np.asarray(image if image.mode == "L" else image.convert("RGB")) for image in opened]
        parts += [np.stack(images), np.array([classes.index(n.split("/")[1]) for n in own])]
    return tuple(parts)


def _download(name: str) -> Arrays:
    """Download a data set from OpenML to the cache, completely or not at all."""
    from sklearn.datasets import fetch_openml

    title, version, count, shape = OPENML[name]
    place = folders()[-1] / FILES[name]
    try:
        found = fetch_openml(title, version=version, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as problem:
        raise FileNotFoundError(
            f"{_not_found(name)}, and '{title}' could not be downloaded from OpenML ({problem!s:.100}). "
            f"{_expected(name)} Put it there, or set STREAMGMM_DATA to the folder that holds it."
        ) from problem
    labels = found.target.astype(np.float64).astype(np.uint8)
    rows = found.data.astype(np.float32) if shape is None else found.data.astype(np.uint8).reshape(-1, *shape)
    arrays = (rows[:count], labels[:count], rows[count:], labels[count:])
    packed = io.BytesIO()
    np.savez_compressed(packed, **dict(zip(ARRAYS, arrays, strict=True)))
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, packed.getvalue())
    return arrays
