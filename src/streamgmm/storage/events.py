"""Events of a run, one JSON object per line: the only contract with whatever watches a run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

from streamgmm.core.control import Check
from streamgmm.storage.schema import COUNT, anything, either, number, optional, text
from streamgmm.storage.schema import record as record_of

VERSION = 1
ENCODE = json.JSONEncoder(allow_nan=False).encode
EVENT_KINDS = ("start", "source", "check", "drift", "bad", "checkpoint", "idle", "resumed", "replaced", "stop", "end",
               "round")  # fmt: skip
THINNED = "thinned"  # kind of the first line of a file from which events were removed
_NUMBER = optional(number())
_EVENT = record_of(
    {"kind": text, "samples": COUNT},
    {
        **dict.fromkeys(("loss", "max_component", "sigma", "learning_rate", "seconds", "expected_share"), _NUMBER),
        **dict.fromkeys(("live", "judged", "flagged"), optional(COUNT)),
        "row_id": either(text, _NUMBER),
    },
    unknown=anything,
)


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


def parse(line: bytes | str) -> dict[str, Any] | None:
    """Return the event of a line; None if it is incomplete, or not what a run writes."""
    try:
        event: Any = json.loads(line)
        _EVENT(event, "event")
    except (ValueError, RecursionError):
        return None
    return dict(event)


def read(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the events of a run so far; lines that hold none are skipped."""
    with path.open("rb") as file:
        for line in file:
            if (event := parse(line)) is not None:
                yield event
