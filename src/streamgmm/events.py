"""The records that a run emits, one JSON object a line: the only contract with whatever watches a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any

from streamgmm.training import Check

VERSION = 1
ENCODE = json.JSONEncoder(allow_nan=False).encode
KINDS = ("start", "check", "drift", "bad", "checkpoint", "idle", "resumed", "replaced", "stop", "end")


def record(kind: str, check: Check, seconds: float, **fields: Any) -> dict[str, Any]:
    """One event; ``seconds`` since the run began, ``fields`` peculiar to its kind. What is unknown is null.

    >>> record("check", Check(1000, 3.5, 4.0, 2.0, 0.1, 64, True), 1.5)["sigma"]
    2.0
    """
    if kind not in KINDS:
        raise ValueError(f"event kind {kind!r} is unknown; expected one of {', '.join(KINDS)}.")
    values = {"v": VERSION, "kind": kind, **check._asdict(), "seconds": round(seconds, 3), **fields}
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in values.items()}


def lines(records: Iterable[dict[str, Any]]) -> str:
    """Records as they stand in a file."""
    return "".join(ENCODE(r) + "\n" for r in records)


def append(path: Path, *records: dict[str, Any]) -> None:
    """Adds lines to the file, each written whole."""
    with path.open("a+b") as file:
        torn = file.tell() > 0 and (file.seek(-1, 2), file.read(1))[1] != b"\n"
        file.write((("\n" if torn else "") + lines(records)).encode())


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The events of a run so far; lines that are still being written, or that a crash has torn, are left out."""
    with path.open(encoding="utf8") as file:
        for line in file:
            with suppress(json.JSONDecodeError):
                yield json.loads(line)
