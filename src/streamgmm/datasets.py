"""The seven data sets of the paper, as bytes or float32, from files that lie on this machine.

Files are looked up in ``$STREAMGMM_DATA``, then in the cache (``~/.cache/streamgmm``). Images stay uint8 until they are
needed: ``scaled`` makes float32 rows in [0, 1].
"""

from __future__ import annotations

import io
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

FILES = {
    "mnist": "mnist.npz",
    "fashionmnist": "fashionmnist.npz",
    "notmnist": "notmnist.npz",
    "devanagari": "devanagari.npz",
    "svhn": "svhn.npz",
    "isolet": "isolet.npz",
    "fruits360": "fruits360.zip",
}


@dataclass(frozen=True)
class Dataset:
    """Rows for training and testing, with labels; ``shape`` is that of one image, or None."""

    name: str
    x_train: npt.NDArray[Any]
    y_train: npt.NDArray[np.int64]
    x_test: npt.NDArray[Any]
    y_test: npt.NDArray[np.int64]
    shape: tuple[int, ...] | None

    @property
    def n_features(self) -> int:
        return int(self.x_train.shape[1])


def folders() -> list[Path]:
    """Where data sets are looked for, in this order."""
    named = os.environ.get("STREAMGMM_DATA")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streamgmm"
    return [*([Path(named)] if named else []), cache]


def load(name: str) -> Dataset:
    """One of the data sets in ``FILES``, not shuffled, not scaled."""
    if name not in FILES:
        raise ValueError(f"data set {name!r} is unknown; expected one of {', '.join(FILES)}.")
    places = [folder / FILES[name] for folder in folders()]
    found = next((p for p in places if p.is_file()), None)
    if found is None:
        raise FileNotFoundError(
            f"{FILES[name]} was not found at {' or '.join(map(str, places))}. "
            f"Put it there, or set STREAMGMM_DATA to the folder that holds it."
        )
    try:
        arrays = _unpack(found) if found.suffix == ".zip" else _read(found)
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, ValueError) as problem:
        raise ValueError(f"{found} is broken or half-written ({problem!s:.100}); fetch it again.") from problem
    x_train, y_train, x_test, y_test = arrays
    shape = None if x_train.ndim == 2 else x_train.shape[1:]
    if name == "isolet":
        y_train, y_test = y_train - 1, y_test - 1  # letters are numbered from 1 in the file
    rows = (a.reshape(len(a), -1) for a in (x_train, x_test))
    train, test = rows
    return Dataset(name, train, y_train.astype(np.int64), test, y_test.astype(np.int64), shape)


def scaled(rows: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """float32 rows in [0, 1]: bytes are divided by 255, numbers in [-1, 1] are halved and shifted."""
    if rows.dtype == np.uint8:
        return np.divide(rows, 255, dtype=np.float32)
    return np.divide(rows.astype(np.float32) + 1, 2, dtype=np.float32)


def _read(path: Path) -> tuple[npt.NDArray[Any], ...]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as packed:
        return tuple(packed[key] for key in ("x_train", "y_train", "x_test", "y_test"))


def _unpack(path: Path) -> tuple[npt.NDArray[Any], ...]:
    """Images in folders train/<class>/ and test/<class>/ of a zip file."""
    try:
        from PIL import Image
    except ImportError as problem:
        raise ImportError("reading images needs Pillow: pip install 'streamgmm[plots]'") from problem
    with zipfile.ZipFile(path) as archive:
        names = sorted(n for n in archive.namelist() if n.lower().endswith((".jpg", ".png")) and n.count("/") == 2)
        classes = sorted({n.split("/")[1] for n in names})
        parts: list[npt.NDArray[Any]] = []
        for part in ("train", "test"):
            own = [n for n in names if n.startswith(part + "/")]
            pictures = [np.asarray(Image.open(io.BytesIO(archive.read(n))).convert("RGB")) for n in own]
            parts += [np.stack(pictures), np.array([classes.index(n.split("/")[1]) for n in own])]
        return tuple(parts)
