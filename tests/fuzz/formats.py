"""What can be fuzzed: a format has valid examples, mutations that know its structure, and a trial."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

Mutation = Callable[[Random, bytes], bytes]
MARGIN = 2 << 20  # bytes: Python's allocator takes as much at once


class Format(NamedTuple):
    """A format of files or messages.

    Parameters
    ----------
    name : str
        What to call it.
    suffix : str
        How names of its files end.
    examples : function
        Return valid files.
    mutations : tuple of functions
        Ways to damage one.
    trial : function
        Use a file as a user would; every exception is a finding.
    margin : int, default=MARGIN
        Bytes of memory that a trial may take beside a multiple of the file.
    """

    name: str
    suffix: str
    examples: Callable[[], list[bytes]]
    mutations: tuple[Mutation, ...]
    trial: Callable[[Path], None]
    margin: int = MARGIN

    def case(self, number: int) -> bytes:
        """Return the mutated file of this number: the same one whenever it is asked for."""
        rng = Random(f"{self.name} {number}")
        content = rng.choice(self.examples())
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            content = rng.choice(self.mutations)(rng, content)
        return content


DEEP = "[" * 3000 + "]" * 3000
DIGITS = "9" * 5000  # more than Python makes an integer of
INFINITE = "1e999"  # is JSON, and infinity for Python
NASTY: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 3, 255, 2**31, 2**53, 2**63, 2**64, 10**30, -(2**63)),
    *(0.5, -0.5, 1e-320, 1e-30, 1e16, 1e37, 1e150, 1e300, -1e300, 1.7e308),
    *("", "x", "auto", "kmeans", "float32", "\x1b[2J", "=1+1", "\ud800", "NaN", "-1", "ä" * 300, DIGITS, INFINITE),
    *([], [0], [[]], [None], {}, {"name": 1}, {"row": -1}, {"row": 1e300}, [1e300] * 3, ["a", "b", "c"]),
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the keys that lead to every part of a JSON value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [way, *(found for key, inner in items for found in places(inner, (*way, key)))]


def mutate_json(rng: Random, value: Any) -> Any:
    """Replace, remove, add, exchange or nest parts of a JSON value."""
    value = json.loads(json.dumps(value))
    ways = places(value)
    way = rng.choice(ways)
    if not way:
        return rng.choice(NASTY) if rng.random() < 0.3 else value
    *path, last = way
    part = value
    for key in path:
        part = part[key]
    kind = rng.randrange(8)
    if kind == 0:
        del part[last]
    elif kind == 1 and isinstance(part, dict):
        part[rng.choice(("extra", "name", "", "\x1b]0;x\x07", "samples", "7", DIGITS))] = rng.choice(NASTY)
    elif kind == 2:
        other = value
        for key in rng.choice(ways):
            other = other[key]
        part[last] = json.loads(json.dumps(other))
    elif kind == 3:
        part[last] = _nested(rng.choice((5, 17, 40, 200)))
    elif kind == 4 and isinstance(part[last], int | float):
        part[last] = rng.choice((-part[last], part[last] * 10, part[last] + 1, part[last] - 1, float(part[last])))
    else:
        part[last] = rng.choice(NASTY)
    return value


def to_json(value: Any, **options: Any) -> str:
    """Return a value as JSON, with a number that is too large for a float where it holds the text of one."""
    return json.dumps(value, **options).replace(f'"{INFINITE}"', INFINITE)


def _nested(depth: int) -> Any:
    value: Any = 0
    for _ in range(depth):
        value = [value]
    return value


def flip_bytes(rng: Random, content: bytes) -> bytes:
    """Overwrite a few bytes."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 40))):
        if changed:
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 255, 10, 34, 127, rng.randrange(256)))
    return bytes(changed)


def cut_bytes(rng: Random, content: bytes) -> bytes:
    """Cut the end or a part away, or repeat a part."""
    first, second = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    kind = rng.randrange(3)
    if kind == 0:
        return content[:second]
    if kind == 1:
        return content[:first] + content[second:]
    return content[:second] + content[first:second] + content[second:]
