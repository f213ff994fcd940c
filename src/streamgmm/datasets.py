"""The seven data sets of the paper, as bytes or float32.

A data set is looked up in ``$STREAMGMM_DATA``, then in the cache (``~/.cache/streamgmm``), as a packed file or as a
folder of images. If OpenML has it, it is otherwise downloaded to the cache. Images stay bytes: ``scaled`` converts
them to float32 within [0, 1], and ``Trainer.feed`` reads them as they are, times ``FACTOR``.
"""

from __future__ import annotations

import hashlib
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
SHA256 = {  # of the files that docs/results.md was made with
    "mnist": "06af5dfe73b70e3bc1c36439982b18a8d76803db9b544f6fdf838a37fbb01b64",
    "fashionmnist": "5b6d2c4c694a91887af8ab7d039c04f80af3c29378d731c93a538d2e831aa469",
    "notmnist": "68a9596fccfe0171a7cb6361cfa5e3a1c08d40cfa3a2bd95226a30c19dcc404c",
    "devanagari": "028998a090b602aaa574751b3f90ce7701b4aaece3bce0c82e89be2411800983",
    "svhn": "2807bb5691df42a5de5bbef020af6a18c250dbedd4abf2008b96e49640b250ca",
    "isolet": "824a45af694f4a82269ae1d81284a6c808d1c754613e52292e6877980edd20c3",
    "fruits360": "4598d3ad568ea91c1dbe5f112fa6144d7e030c6d7f1cca7a27fcbb077f0b7ce9",
}
ORIGINS = {  # of those that are not on OpenML
    "notmnist": "notMNIST_small of Y. Bulatov, letters A to J; 300 images of each class are the test set.",
    "devanagari": "Devanagari Handwritten Character Dataset (UCI), classes character_1_ka to character_10_yna.",
    "svhn": "train_32x32.mat and test_32x32.mat of SVHN, or a part of them. Not for commercial use.",
    "fruits360": "Fruits 360 (Horea94/Fruit-Images-Dataset), the ten classes with the most images.",
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


@dataclass(frozen=True)
class Listing:
    """What is known about a data set without reading it.

    Parameters
    ----------
    name : str
        One of ``FILES``.
    place : Path or None
        The file or folder of images that ``load`` reads; None if there is none.
    sha256 : str or None
        Checksum of the file; None for a folder, and if there is none.
    expected : str
        Checksum of the file that our results were made with. Another packing or release has another one.
    origin : str
        How to get it.
    """

    name: str
    place: Path | None
    sha256: str | None
    expected: str
    origin: str


def listing() -> list[Listing]:
    """Return where each data set is, with its checksum, and how to get it.

    Examples
    --------
    >>> from streamgmm import datasets
    >>> [known.name for known in datasets.listing()][:3]
    ['mnist', 'fashionmnist', 'notmnist']
    """
    found = []
    for name in FILES:
        place = _place(name)
        checksum = None
        if place is not None and place.is_file():
            with place.open("rb") as file:
                checksum = hashlib.file_digest(file, "sha256").hexdigest()
        if name in OPENML:
            origin = f"'{OPENML[name][0]}' on OpenML; it is downloaded when it is first needed."
        else:
            origin = f"{ORIGINS[name]} {_expected(name)}"
        found.append(Listing(name, place, checksum, SHA256[name], origin))
    return found


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
        if _place(name) is not None:
            continue
        try:
            _find(name)
        except FileNotFoundError as problem:
            problems.append(str(problem))
    if problems:
        raise FileNotFoundError(" ".join(problems))


def _find(name: str) -> Arrays:
    """Return the arrays of a data set from the first place that has it."""
    place = _place(name)
    if place is not None:
        return _read_checked(place, _read_file if place.name == FILES[name] else _read_folder)
    if name in OPENML:
        return _download(name)
    raise FileNotFoundError(
        f"{_not_found(name)}. {_expected(name)} Put it there, or set STREAMGMM_DATA to the folder that holds it."
    )


def _place(name: str) -> Path | None:
    """Return the first file or folder that holds a data set."""
    places = (folder / called for folder in folders() for called in (FILES[name], name))
    return next((place for place in places if place.exists()), None)


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
