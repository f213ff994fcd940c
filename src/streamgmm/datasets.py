"""The seven data sets of the paper, as bytes or float32.

A set is looked up in ``$STREAMGMM_DATA``, then in the cache (``~/.cache/streamgmm``), as a packed file or as a folder
of images; then, where OpenML has it, it is fetched from there into the cache. Images stay uint8 until they are needed:
``scaled`` makes float32 rows in [0, 1], and the loops read bytes times ``FACTOR`` as they are.
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
OPENML = {  # name and version there, rows that are for training, shape of an image
    "mnist": ("mnist_784", 1, 60_000, (28, 28)),
    "fashionmnist": ("Fashion-MNIST", 1, 60_000, (28, 28)),
    "isolet": ("isolet", 1, 6238, None),
}
PICTURES = (".jpg", ".jpeg", ".png")


@dataclass(frozen=True)
class Dataset:
    """Rows for training and testing, with labels from 0 on; ``shape`` is that of one image, or None."""

    name: str
    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[Any]
    y_test: npt.NDArray[np.int64]
    shape: tuple[int, ...] | None

    @property
    def n_features(self) -> int:
        return int(self.x_train.shape[1])

    def classes(self, chosen: Iterable[int]) -> Dataset:
        """Only samples of some classes."""
        wanted = sorted(set(chosen))
        known = np.unique(self.y_train)
        if missing := set(wanted) - set(known.tolist()):
            raise ValueError(f"{self.name} has classes {known.min()} to {known.max()}; there is no {sorted(missing)}.")
        train, test = np.isin(self.y_train, wanted), np.isin(self.y_test, wanted)
        return replace(
            self,
            x_train=self.x_train[train],
            y_train=self.y_train[train],
            x_test=self.x_test[test],
            y_test=self.y_test[test],
        )


def folders() -> list[Path]:
    """Where data sets are looked for, in this order."""
    named = os.environ.get("STREAMGMM_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamgmm"
    return [*([Path(named)] if named else []), cache]


def load(name: str) -> Dataset:
    """One of the data sets in ``FILES``, not scaled; shuffled, always alike, if its file is in class order."""
    if name not in FILES:
        raise ValueError(f"data set {name!r} is unknown; expected one of {', '.join(FILES)}.")
    x_train, y_train, x_test, y_test = _find(name)
    shape = None if x_train.ndim == 2 else x_train.shape[1:]
    if name == "isolet":
        y_train, y_test = y_train - 1, y_test - 1  # letters are numbered from 1 in the file
    train, test = (a.reshape(len(a), -1) for a in (x_train, x_test))
    if name in IN_CLASS_ORDER:
        order = np.random.default_rng(0).permutation(len(train))
        train, y_train = train[order], y_train[order]
    return Dataset(name, train, y_train.astype(np.int64), test, y_test.astype(np.int64), shape)


def scaled(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """float32 rows in [0, 1]: bytes are divided by 255, numbers in [-1, 1] are halved and shifted."""
    if rows.dtype == np.uint8:
        return np.multiply(rows, np.float32(FACTOR), dtype=np.float32)
    return np.divide(rows.astype(np.float32) + 1, 2, dtype=np.float32)


Arrays = tuple[npt.NDArray[Any], ...]


def _find(name: str) -> Arrays:
    """x_train, y_train, x_test, y_test from the first place that has them."""
    for folder in folders():
        for place, read in ((folder / FILES[name], _read_file), (folder / name, _read_folder)):
            if place.exists():
                return _guarded(place, read)
    if name in OPENML:
        return _fetch(name)
    places = [folder / FILES[name] for folder in folders()]
    raise FileNotFoundError(
        f"{FILES[name]} was not found at {' or '.join(map(str, places))}. {_wanted(name)} "
        "Put it there, or set STREAMGMM_DATA to the folder that holds it."
    )


def _wanted(name: str) -> str:
    folder = f"a folder '{name}' with images in train/<class>/ and test/<class>/"
    if FILES[name].endswith(".zip"):
        return f"Expected is {folder}, or the same as a zip file of that name."
    return f"Expected are arrays x_train, y_train, x_test, y_test (images as bytes) in that file, or {folder}."


def _guarded(place: Path, read: Callable[[Path], Arrays]) -> Arrays:
    try:
        arrays = read(place)
        for rows, labels in (arrays[:2], arrays[2:]):
            if len(rows) != len(labels) or not len(rows):
                raise ValueError(f"{len(rows)} samples and {len(labels)} labels")
        return arrays
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, ValueError) as problem:
        raise ValueError(f"{place} is broken or half-written ({problem!s:.100}); fetch it again.") from problem


def _read_file(path: Path) -> Arrays:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return _pictures(archive.namelist(), archive.read)
    with path.open("rb") as file, np.load(file, allow_pickle=False) as packed:
        return tuple(packed[key] for key in ("x_train", "y_train", "x_test", "y_test"))


def _read_folder(path: Path) -> Arrays:
    names = [p.relative_to(path).as_posix() for p in path.glob("*/*/*") if p.is_file()]
    return _pictures(names, lambda name: (path / name).read_bytes())


def _pictures(names: Iterable[str], read: Callable[[str], bytes]) -> Arrays:
    """Images named train/<class>/<file> and test/<class>/<file>; gray ones stay gray."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise ImportError("reading images needs Pillow: pip install 'streamgmm[plots]'") from problem
    known = sorted(n for n in names if n.lower().endswith(PICTURES) and n.count("/") == 2)
    classes = sorted({n.split("/")[1] for n in known})
    parts: list[npt.NDArray[Any]] = []
    for part in ("train", "test"):
        own = [n for n in known if n.startswith(part + "/")]
        if not own:
            raise ValueError(f"no images in {part}/<class>/")
        opened = (Image.open(io.BytesIO(read(n))) for n in own)
        pictures = [np.asarray(image if image.mode == "L" else image.convert("RGB")) for image in opened]
        parts += [np.stack(pictures), np.array([classes.index(n.split("/")[1]) for n in own])]
    return tuple(parts)


def _fetch(name: str) -> Arrays:
    """From OpenML into the cache, whole or not at all."""
    from sklearn.datasets import fetch_openml

    from streamgmm.checkpoint import write_atomically

    title, version, count, shape = OPENML[name]
    place = folders()[-1] / FILES[name]
    try:
        found = fetch_openml(title, version=version, as_frame=False, parser="liac-arff")
    except (OSError, ValueError) as problem:
        raise FileNotFoundError(
            f"{FILES[name]} was not found at {' or '.join(str(f / FILES[name]) for f in folders())}, and OpenML's "
            f"'{title}' could not be fetched ({problem!s:.100}). {_wanted(name)} Put it there, or set STREAMGMM_DATA."
        ) from problem
    labels = found.target.astype(np.float64).astype(np.uint8)
    rows = found.data.astype(np.float32) if shape is None else found.data.astype(np.uint8).reshape(-1, *shape)
    arrays = (rows[:count], labels[:count], rows[count:], labels[count:])
    packed = io.BytesIO()
    np.savez_compressed(packed, **dict(zip(("x_train", "y_train", "x_test", "y_test"), arrays, strict=True)))
    place.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(place, packed.getvalue())
    return arrays


def ensure(names: Iterable[str]) -> None:
    """Raises, naming all of them, if some data sets are neither here nor to be fetched; fetches what can be."""
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
