"""Events of a run, one JSON object per line: the only contract with whatever watches a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from streamgmm.core.control import Check

VERSION = 1
ENCODE = json.JSONEncoder(allow_nan=False).encode
EVENT_KINDS = ("start", "source", "check", "drift", "bad", "checkpoint", "idle", "resumed", "replaced", "stop", "end",
               "round")  # fmt: skip


def record(kind: str, check: Check, seconds: float, **fields: Any) -> dict[str, Any]:
    """Return one event; ``seconds`` since the run began, ``fields`` of its kind. Unknown numbers are null.

    >>> record("check", Check(1000, 3.5, 4.0, 2.0, 0.1, 64, True), 1.5)["sigma"]
    2.0
    """
    if kind not in EVENT_KINDS:
        raise ValueError(f"event kind {kind!r} is unknown; expected one of {', '.join(EVENT_KINDS)}.")
    values = {"v": VERSION, "kind": kind, **check._asdict(), "seconds": round(seconds, 3), **fields}
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in values.items()}


def lines(records: Iterable[dict[str, Any]]) -> str:
    """Return records as lines of a file."""
    return "".join(ENCODE(r) + "\n" for r in records)


def append(path: Path, *records: dict[str, Any]) -> None:
    """Append records to a file, each as a whole line."""
    with path.open("a+b") as file:
        torn = file.tell() > 0 and (file.seek(-1, 2), file.read(1))[1] != b"\n"
        file.write((("\n" if torn else "") + lines(records)).encode())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a run so far; incomplete lines are skipped."""
    with path.open(encoding="utf8", errors="replace") as file:
        for line in file:
            with suppress(ValueError, RecursionError):
                event = json.loads(line)
                if isinstance(event, dict):
                    yield event
