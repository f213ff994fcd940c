"""A model file that another process replaces from time to time."""

from __future__ import annotations

import time
import warnings
from pathlib import Path

from streamgmm.errors import ModelFileError, StreamGMMError
from streamgmm.storage.model_file import SavedModel, load_model

LOOK_SECONDS = 1.0  # between two looks at the file


class LatestModel:
    """The model of a file, loaded anew when the file is replaced.

    Parameters
    ----------
    path : Path
        A model file. It must be replaced as a whole, as runs do it.
    pause : float, default=1.0
        Seconds between two looks at the file.

    Attributes
    ----------
    saved : SavedModel
        The model that was loaded last.
    """

    def __init__(self, path: Path, pause: float = LOOK_SECONDS) -> None:
        self._path, self._pause = path, pause
        self._looked, self._seen = time.monotonic(), _identity(path)
        self.saved = load_model(path)

    def newer(self) -> SavedModel | None:
        """Return a model that was written since the last call, or None; keep the old one if it cannot be used."""
        if time.monotonic() - self._looked < self._pause:
            return None
        self._looked, now = time.monotonic(), _identity(self._path)
        if now is None or now == self._seen:
            return None
        self._seen = now
        try:
            saved = load_model(self._path)
        except (ModelFileError, OSError) as problem:
            warnings.warn(
                f"the new model cannot be used; scoring continues with the previous one. {problem!s:.200}", stacklevel=2
            )
            return None
        self._refuse_other_features(saved)
        self.saved = saved
        return saved

    def _refuse_other_features(self, saved: SavedModel) -> None:
        before = self.saved
        if (saved.trainer.n_features, saved.feature_names) != (before.trainer.n_features, before.feature_names):
            raise StreamGMMError(
                f"{self._path} was replaced by a model of other features ({saved.trainer.n_features} instead of "
                f"{before.trainer.n_features}, or other names). Start again to use it."
            )


def _identity(path: Path) -> tuple[int, int, int] | None:
    """Return what tells a file from the one that had its name before; None if there is no file."""
    try:
        status = path.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size
