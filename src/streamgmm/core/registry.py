"""Names of rules, covariance kinds and engines: each belongs to one class."""

from __future__ import annotations


def require_free(name: str, new: type, known: type | None) -> None:
    """Raise ValueError if another class is registered under a name; the same one may be registered again."""
    if known is None or (known.__module__, known.__qualname__) == (new.__module__, new.__qualname__):
        return
    raise ValueError(f"{name!r} is already registered by {known.__module__}; choose another name.")
