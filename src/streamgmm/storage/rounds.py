"""Rounds as bytes, in the format of model files: safe to receive from anywhere, because nothing in it is code."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from safetensors.numpy import save as to_bytes

from streamgmm.core.rounds import LearnedShare, RoundStart
from streamgmm.core.settings import LONGEST_PERIOD, MOST_SAMPLES
from streamgmm.errors import ModelFileError
from streamgmm.storage.container import DAMAGE, parse_container
from streamgmm.storage.format3 import (
    MOST_WORKERS,
    POSITIVE,
    check_size,
    require_finite,
    settings_check,
)
from streamgmm.storage.schema import COUNT, Check, anything, choice, list_of, number, record

FORMAT = 1
KEY = "streamgmm-round"
SHARE = record(
    {**dict.fromkeys(("round", "replica", "samples", "skipped", "rest"), COUNT), "steps": list_of(COUNT)},
    unknown=anything,
)


def start_to_bytes(start: RoundStart) -> bytes:
    """Return the start of a round as bytes.

    Parameters
    ----------
    start : RoundStart
        Where a round starts.
    """
    return _to_bytes("start", start)


def start_from_bytes(content: bytes) -> RoundStart:
    """Return the start of a round that ``start_to_bytes`` gave; raise ``ModelFileError`` if it is something else.

    Parameters
    ----------
    content : bytes
        The bytes.
    """
    start = RoundStart(*_from_bytes("start", content))
    with _damage():
        facts = start.facts
        _start_check(facts)(facts, "the start")
        check_size(facts, start.tensors)
        require_finite(start.tensors, gaps=False)
    return start


def share_to_bytes(share: LearnedShare) -> bytes:
    """Return a learned share as bytes.

    Parameters
    ----------
    share : LearnedShare
        What a replica has learned.
    """
    return _to_bytes("share", share)


def share_from_bytes(content: bytes) -> LearnedShare:
    """Return the share that ``share_to_bytes`` gave; raise ``ModelFileError`` if it is something else.

    Parameters
    ----------
    content : bytes
        The bytes.
    """
    share = LearnedShare(*_from_bytes("share", content))
    with _damage():
        SHARE(share.facts, "the share")
        require_finite(share.tensors, gaps=False)
    return share


def _start_check(facts: dict[str, Any]) -> Check:
    return record(
        {
            "settings": settings_check(facts.get("settings")),
            "n_features": number(1, whole=True),
            "dtype": choice("float32", "float64"),
            "replicas": number(1, MOST_WORKERS, whole=True),
            "round": COUNT,
            "n_samples": COUNT,
            "period": number(1, LONGEST_PERIOD, whole=True),
            "sigma": POSITIVE,
            "every": number(1, MOST_SAMPLES, whole=True),
        },
        unknown=anything,
    )


@contextmanager
def _damage() -> Iterator[None]:
    """Say that bytes are damaged, whatever the reason."""
    try:
        yield
    except DAMAGE as problem:
        raise ModelFileError(f"these bytes are damaged, or no part of a round ({problem!s:.200}).") from problem


def _to_bytes(kind: str, message: RoundStart | LearnedShare) -> bytes:
    header = json.dumps({"format": FORMAT, "kind": kind, "facts": message.facts}, allow_nan=False)
    return bytes(to_bytes({n: np.array(v, order="C") for n, v in message.tensors.items()}, {KEY: header}))


def _from_bytes(kind: str, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    with _damage():
        found, tensors = parse_container(content, KEY)
        version, found_kind, facts = found["format"], found["kind"], dict(found["facts"])
    if version != FORMAT:
        raise ModelFileError(
            f"these bytes have format version {version!r}; expected {FORMAT}. Install the same streamgmm everywhere."
        )
    if found_kind != kind:
        expected = {"start": "the start of a round", "share": "a learned share"}
        raise ModelFileError(
            f"these bytes are {expected.get(str(found_kind), 'something else')}; expected {expected[kind]}."
        )
    return facts, tensors
