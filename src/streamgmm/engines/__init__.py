"""Where steps run: on the calling thread, or on replicas in several."""

from __future__ import annotations

import os
from typing import Any, TypeVar

from streamgmm.core.engine import Engine
from streamgmm.core.registry import require_free
from streamgmm.engines.serial import Serial
from streamgmm.engines.threads import Threads, run_all
from streamgmm.errors import SettingError

__all__ = [
    "ENGINES",
    "Engine",
    "Serial",
    "Threads",
    "engine_for",
    "engine_from_settings",
    "register_engine",
    "run_all",
    "thread_count",
]

ENGINES: dict[str, type[Engine]] = {}
"""Engines by name; see `register_engine`."""

E = TypeVar("E", bound=type[Engine])


def register_engine(engine: E) -> E:
    """Make an engine known by its name, for model files; usable as a class decorator.

    Parameters
    ----------
    engine : type
        A subclass of `Engine` that is a frozen dataclass.
    """
    require_free(engine.name, engine, ENGINES.get(engine.name))
    ENGINES[engine.name] = engine
    return engine


def engine_for(threads: int) -> Engine:
    """Return the engine for a number of threads.

    Parameters
    ----------
    threads : int
        Number of threads.
    """
    return Serial() if threads == 1 else Threads(threads)


def engine_from_settings(settings: dict[str, Any]) -> Engine:
    """Return the engine that ``Engine.settings`` described; raise ValueError if its name is unknown.

    Parameters
    ----------
    settings : dict
        Name and settings of the engine.
    """
    values = dict(settings)
    name = values.pop("name")
    if name not in ENGINES:
        raise ValueError(f"engine {name!r} is unknown; known engines are {', '.join(ENGINES)}.")
    return ENGINES[name](**values)


def thread_count(n_jobs: int | None) -> int:
    """Count threads as joblib does: None is 1, -1 all cores, -2 all but one.

    Parameters
    ----------
    n_jobs : int or None
        What the user gave.
    """
    if n_jobs == 0:
        raise SettingError("n_jobs", 0, "a number of threads, or -1 for all cores", ", or None for one")
    if n_jobs is None or n_jobs > 0:
        return n_jobs or 1
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, cores + 1 + n_jobs)


for _engine in (Serial, Threads):
    register_engine(_engine)
