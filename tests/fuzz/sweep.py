"""Every place of an example, each with every odd value: what chance hits rarely."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from tests.fuzz.formats import NASTY, places, to_json
from tests.fuzz.model_files import NUMBERS, join_parts, odd_number, split_parts


def sweep(content: bytes) -> Iterator[bytes]:
    """Yield a safetensors file with a tensor, a number of a tensor, or a part of its header replaced or removed."""
    tensors, (layout, data) = load(content), split_parts(content)
    for name, value in tensors.items():
        for number in NUMBERS if value.size else ():
            with np.errstate(all="ignore"):
                one, every = np.array(value), np.full_like(value, odd_number(number, value.dtype))
                one.reshape(-1)[value.size // 3] = every.reshape(-1)[0]
            for changed in (one, every):
                yield save({**tensors, name: changed}, layout["__metadata__"])
    [key] = layout["__metadata__"]
    known = json.loads(layout["__metadata__"][key])
    for way in places(known):
        for value in (*NASTY, ...) if way else ():
            yield join_parts({**layout, "__metadata__": {key: to_json(_changed(known, way, value))}}, data)


def _changed(known: Any, way: tuple[Any, ...], value: Any) -> Any:
    """Return a JSON value with one part replaced, or removed if the value is ``...``."""
    whole = part = json.loads(json.dumps(known))
    for key in way[:-1]:
        part = part[key]
    if value is ...:
        del part[way[-1]]
    else:
        part[way[-1]] = value
    return whole
