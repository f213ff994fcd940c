"""Tell that a followed file is gone."""

from __future__ import annotations

import time
import warnings

GONE_SECONDS = 5.0  # a file that is rotated is away for a moment, too


class Absence:
    """Warns once a file has been gone for some seconds, and when it is back.

    Parameters
    ----------
    name : str
        What to call the file.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._since: float | None = None
        self._told = False

    def note(self, *, gone: bool) -> None:
        """Record whether the file exists."""
        if not gone:
            if self._told:
                warnings.warn(f"{self._name} is back.", stacklevel=2)
            self._since, self._told = None, False
            return
        self._since = time.monotonic() if self._since is None else self._since
        if not self._told and time.monotonic() - self._since >= GONE_SECONDS:
            self._told = True
            warnings.warn(f"{self._name} is gone; waiting until it is back.", stacklevel=2)
