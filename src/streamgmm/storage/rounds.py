"""Rounds as bytes, in the format of model files: safe to receive from anywhere, because nothing in it is code."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as tensors_of
from safetensors.numpy import save as to_bytes

from streamgmm.core.rounds import LearnedShare, RoundStart
from streamgmm.errors import ModelFileError

FORMAT = 1
KEY = "streamgmm-round"
LENGTH_BYTES = 8  # of the header, before it


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
    return RoundStart(*_from_bytes("start", content))


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
    return LearnedShare(*_from_bytes("share", content))


def _to_bytes(kind: str, message: RoundStart | LearnedShare) -> bytes:
    header = json.dumps({"format": FORMAT, "kind": kind, "facts": message.facts}, allow_nan=False)
    return bytes(to_bytes({n: np.array(v, order="C") for n, v in message.tensors.items()}, {KEY: header}))


def _from_bytes(kind: str, content: bytes) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        length = int.from_bytes(content[:LENGTH_BYTES], "little")
        header = json.loads(content[LENGTH_BYTES : LENGTH_BYTES + length])["__metadata__"][KEY]
        found = json.loads(header)
        version, found_kind, facts = found["format"], found["kind"], dict(found["facts"])
        tensors = tensors_of(bytes(content))
    except (KeyError, TypeError, ValueError, RecursionError, SafetensorError) as problem:
        raise ModelFileError(f"these bytes are damaged, or no part of a round ({problem!s:.200}).") from problem
    if version != FORMAT:
        raise ModelFileError(
            f"these bytes have format version {version!r}; expected {FORMAT}. Install the same streamgmm everywhere."
        )
    if found_kind != kind:
        expected = {"start": "the start of a round", "share": "a learned share"}
        raise ModelFileError(
            f"these bytes are {expected.get(found_kind, 'something else')}; expected {expected[kind]}."
        )
    return facts, tensors
