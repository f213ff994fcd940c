"""Files on other machines, by URL: whatever fsspec can open."""

from __future__ import annotations

import io
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Literal, cast

from streamgmm.errors import MissingExtraError, SourceError
from streamgmm.transports.broker_urls import without_secrets

BUFFER_BYTES = 1 << 20


class RemoteFile:
    """A file behind a URL, with the part of ``pathlib.Path`` that sources use.

    Parameters
    ----------
    system : fsspec.AbstractFileSystem
        Where it is.
    path : str
        Its path there.
    """

    def __init__(self, system: Any, path: str) -> None:
        self._system, self._path = system, path
        pure = PurePosixPath(path)
        self.name, self.stem, self.suffix = pure.name, pure.stem, pure.suffix

    def open(self, mode: Literal["rb"] = "rb") -> BinaryIO:
        """Open the file for reading.

        Parameters
        ----------
        mode : {"rb"}, default="rb"
            Always bytes.
        """
        return cast(BinaryIO, io.BufferedReader(self._system.open(self._path, mode), BUFFER_BYTES))


File = Path | RemoteFile
"""A file here or elsewhere."""


def list_files(url: str, suffixes: tuple[str, ...]) -> list[RemoteFile]:
    """Return the file behind a URL or, if that is a folder or a pattern, all files in it with these suffixes, sorted.

    Parameters
    ----------
    url : str
        Such as ``s3://bucket/folder``, ``gs://bucket/*.parquet`` or ``memory://x.npy``.
    suffixes : tuple of str
        What names of files in a folder end with.
    """
    name = without_secrets(url)
    try:
        import fsspec
    except ImportError as problem:
        raise MissingExtraError(f"{name} requires fsspec", "cloud") from problem
    try:
        system, path = fsspec.core.url_to_fs(url)
        if "*" in path:
            found = sorted(system.glob(path))
        elif system.isfile(path):
            return [RemoteFile(system, path)]
        else:
            found = sorted(system.find(path))
    except ImportError as problem:  # of the library that knows this kind of URL
        raise SourceError(f"{name} cannot be read: {problem!s:.200}.") from problem
    except (OSError, ValueError) as problem:
        raise SourceError(f"{name} cannot be read ({problem!s:.200}).") from problem
    files = [RemoteFile(system, path) for path in found if path.lower().endswith(suffixes)]
    if not files:
        raise FileNotFoundError(f"{name} does not exist, or holds no file ending in {', '.join(suffixes)}.")
    return files


def is_url(text: str) -> bool:
    """Return whether a name is a URL.

    Parameters
    ----------
    text : str
        Name of a source.
    """
    return "://" in text and not Path(text).exists()
