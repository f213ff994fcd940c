"""Safetensors files, read as a whole: tensors, and one JSON text among the metadata.

A file is read and then parsed, not mapped into memory: a file that is cut while a map of it is read ends the process.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt
from safetensors import SafetensorError, deserialize
from safetensors.numpy import save as to_bytes

KEY = "streamgmm"
LONGEST_HEADER = 100_000_000  # bytes, as in safetensors itself
COPIES, SPARE = 2, 1 << 20  # of what safetensors reads or writes, and bytes beside them
FLOATS = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}
INTEGERS = {f"{kind}{8 * size}": f"<{kind.lower()}{size}" for kind in "IU" for size in (1, 2, 4, 8)}
TYPES = {**FLOATS, **INTEGERS, "BOOL": "?"}
DAMAGE = (
    SafetensorError,
    KeyError,
    TypeError,
    ValueError,
    OverflowError,
    RecursionError,
    AttributeError,
    IndexError,
    ArithmeticError,
)
"""What reading or restoring a damaged file may raise."""


class ForeignFileError(ValueError):
    """A safetensors file that another program has written."""


def to_container(header: Any, tensors: dict[str, npt.NDArray[Any]]) -> bytes:
    """Return the bytes of a file; numbers of NumPy in the header become plain ones."""
    text = _to_json(header)
    _require_memory(len(text) + sum(value.nbytes for value in tensors.values()))
    return to_bytes(tensors, {KEY: text})


def read_container(path: Path) -> tuple[Any, dict[str, npt.NDArray[Any]]]:
    """Return header and tensors of a file; raise an exception of ``DAMAGE`` if it holds anything else."""
    return parse_container(path.read_bytes())


def parse_container(content: bytes, key: str = KEY) -> tuple[Any, dict[str, npt.NDArray[Any]]]:
    """Return the JSON text of a key and the tensors; raise an exception of ``DAMAGE`` if there is anything else."""
    _require_memory(len(content))
    found: list[tuple[str, dict[str, Any]]] = deserialize(bytes(content))  # type: ignore[no-untyped-call]
    size = int.from_bytes(content[:8], "little")
    header = _header(content[8 : 8 + size], key)
    return header, {name: _tensor(name, facts) for name, facts in found}


def _require_memory(size: int) -> None:
    """Raise MemoryError if safetensors could not make its copies of so many bytes: it would end the process."""
    np.empty(COPIES * size + SPARE, np.uint8)


def read_header(path: Path) -> Any:
    """Return the header of a file without reading its tensors; raise an exception of ``DAMAGE`` if there is none."""
    with path.open("rb") as file:
        length = os.fstat(file.fileno()).st_size
        size = int.from_bytes(file.read(8), "little")
        if not 0 < size <= min(length - 8, LONGEST_HEADER):
            raise ValueError("it is incomplete, or not a safetensors file")
        return _header(file.read(size))


def _header(content: bytes, key: str = KEY) -> Any:
    facts = json.loads(content)
    metadata = facts.get("__metadata__") if isinstance(facts, dict) else None
    if not isinstance(metadata, dict) or not isinstance(metadata.get(key), str):
        raise ForeignFileError("it has no streamgmm metadata")
    return json.loads(metadata[key], parse_constant=_refuse_constant)


def _tensor(name: str, facts: dict[str, Any]) -> npt.NDArray[Any]:
    kind = facts["dtype"]
    if kind not in TYPES:
        raise ValueError(f"tensor {name!r:.60} has type {kind!s:.20}; expected one of {', '.join(TYPES)}")
    if len(facts["shape"]) > 4:
        raise ValueError(f"tensor {name!r:.60} has {len(facts['shape'])} axes; expected at most 4")
    return np.frombuffer(facts["data"], dtype=TYPES[kind]).reshape(facts["shape"])


def plain(header: Any) -> Any:
    """Return a header as a file gives it back; raise ValueError or TypeError for what JSON does not have."""
    return json.loads(_to_json(header))


def _to_json(header: Any) -> str:
    return json.dumps(header, allow_nan=False, default=_plain)


def _plain(value: Any) -> Any:
    """Convert numbers of NumPy for JSON."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} cannot be written to a model file")


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"the header holds {name}")
