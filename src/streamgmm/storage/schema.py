"""A small language for what a JSON value may be.

A check takes a value and the name of its place, and raises ValueError for a value that is not as expected. Checks of
records are derived from the types of dataclasses and named tuples, so that a new field needs no second declaration.

>>> check = record({"name": text, "count": number(least=1, whole=True)})
>>> check({"name": "threads", "count": 0}, "engine")
Traceback (most recent call last):
    ...
ValueError: engine.count is 0; expected an integer from 1 to 9007199254740992
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from math import isfinite
from reprlib import Repr
from types import NoneType, UnionType
from typing import Any, Literal, NoReturn, Union, get_args, get_origin, get_type_hints

Check = Callable[[Any, str], None]

LARGEST_INTEGER = 1 << 53  # integers up to here are exact as float64
LARGEST = 1e300
DEEPEST = 16  # lists and objects within each other
LONGEST_TEXT = 100_000

_short = Repr()
_short.maxstring, _short.maxlevel = 60, 2


def refuse(value: Any, place: str, expected: str) -> NoReturn:
    """Raise ValueError: what arrived, where, and what was expected."""
    raise ValueError(f"{place} is {_short.repr(value)}; expected {expected}")


def anything(value: Any, place: str) -> None:
    """Accept any JSON value that is not nested too deeply."""
    if not isinstance(value, dict | list | tuple):
        return
    level, depth = [value], 0
    while level:
        if depth > DEEPEST:
            raise ValueError(f"{place} is nested more than {DEEPEST} levels deep")
        level = [inner for outer in level for inner in _inside(outer)]
        depth += 1


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list | tuple) else ()


def text(value: Any, place: str) -> None:
    """Accept a text."""
    if not isinstance(value, str) or len(value) > LONGEST_TEXT:
        refuse(value, place, f"a text of at most {LONGEST_TEXT} characters")


def is_unicode(value: str) -> bool:
    """Return whether a text can be written: JSON may hold halves of characters, which UTF-8 does not have.

    >>> is_unicode("Temperatur °C"), is_unicode("\\ud800")
    (True, False)
    """
    return value.isascii() or not any("\ud800" <= c <= "\udfff" for c in value)


def unicode_text(value: Any, place: str) -> None:
    """Accept a text that can be written anywhere."""
    text(value, place)
    if not is_unicode(value):
        refuse(value, place, "Unicode text")


def flag(value: Any, place: str) -> None:
    """Accept true and false."""
    if not isinstance(value, bool):
        refuse(value, place, "true or false")


def nothing(value: Any, place: str) -> None:
    """Accept null."""
    if value is not None:
        refuse(value, place, "null")


def number(least: float | None = None, most: float | None = None, *, whole: bool = False) -> Check:
    """Accept finite numbers within bounds, or integers alone."""
    widest = LARGEST_INTEGER if whole else LARGEST
    low, high = -widest if least is None else least, widest if most is None else most

    def check(value: Any, place: str) -> None:
        exact = isinstance(value, int) and (whole or abs(value) <= LARGEST_INTEGER)  # NumPy has no longer integers
        fits = exact or (isinstance(value, float) and not whole and isfinite(value))
        if isinstance(value, bool) or not fits or not low <= value <= high:
            refuse(value, place, f"{'an integer' if whole else 'a number'} from {low:.16g} to {high:.16g}")

    return check


COUNT = number(least=0, whole=True)


def choice(*known: Any) -> Check:
    """Accept some values."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, str | int | NoneType) or value not in known:
            refuse(value, place, f"one of {', '.join(map(repr, known))}")

    return check


def optional(inner: Check) -> Check:
    """Accept null, too."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            inner(value, place)

    return check


def either(*checks: Check) -> Check:
    """Accept what any of several checks accepts; report what the last one says."""

    def check(value: Any, place: str) -> None:
        for one in checks[:-1]:
            try:
                return one(value, place)
            except ValueError:
                continue
        return checks[-1](value, place)

    return check


def every(*checks: Check) -> Check:
    """Accept what all of several checks accept."""

    def check(value: Any, place: str) -> None:
        for one in checks:
            one(value, place)

    return check


def list_of(inner: Check, length: int | None = None) -> Check:
    """Accept a list of values, of a given length if there is one."""

    def check(value: Any, place: str) -> None:
        if not isinstance(value, list | tuple) or length not in (None, len(value)):
            refuse(value, place, "a list" if length is None else f"a list of {length} values")
        for index, item in enumerate(value):
            inner(item, f"{place}[{index}]")

    return check


def record(
    required: Mapping[str, Check], others: Mapping[str, Check] | None = None, unknown: Check | None = None
) -> Check:
    """Accept an object with all required fields, perhaps some others, and unknown ones if there is a check for them."""
    known = {**required, **(others or {})}

    def check(value: Any, place: str) -> None:
        if not isinstance(value, dict):
            refuse(value, place, "an object")
        if missing := next((name for name in required if name not in value), None):
            raise ValueError(f"{place} has no {missing!r}")
        for name, inner in value.items():
            own = known.get(name, unknown)
            if own is None:
                raise ValueError(f"{place} has the unknown field {name!r:.60}; a later streamgmm may have written it")
            own(inner, f"{place}.{name}")

    return check


def fields_of(kind: type, own: Mapping[str, Check] | None = None, *, required: bool = False) -> Check:
    """Accept the fields of a dataclass or named tuple by their types; ``own`` are stricter checks of some of them.

    Fields with a default may be missing, unless all are ``required``: files of earlier versions lack new ones.

    >>> from streamgmm.core.drift import DriftState
    >>> fields_of(DriftState, {"checks": COUNT})({"checks": -1}, "drift")
    Traceback (most recent call last):
        ...
    ValueError: drift.checks is -1; expected an integer from 0 to 9007199254740992
    """
    own = own or {}
    checks = {name: own.get(name, check) for name, (check, _) in _fields(kind).items()}
    present = {name: checks[name] for name, (_, needed) in _fields(kind).items() if needed or required}
    return record(present, {name: check for name, check in checks.items() if name not in present})


@cache
def _fields(kind: type) -> dict[str, tuple[Check, bool]]:
    """Return the check of each field, and whether it has no default."""
    hints = get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        none = dataclasses.MISSING
        needed = {f.name: f.default is none and f.default_factory is none for f in dataclasses.fields(kind)}
    else:
        needed = {name: name not in kind._field_defaults for name in kind._fields}  # type: ignore[attr-defined]
    return {name: (_of_type(hints[name]), need) for name, need in needed.items()}


def _of_type(hint: Any) -> Check:
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        union = either(*(_of_type(one) for one in inner if one is not NoneType))
        return optional(union) if NoneType in inner else union
    if origin is Literal:
        return choice(*inner)
    if origin in (list, tuple):
        return list_of(_of_type(inner[0]))
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return fields_of(hint)
    plain: dict[Any, Check] = {
        bool: flag,
        int: number(whole=True),
        float: number(),
        str: text,
        NoneType: nothing,
        dict: record({}, unknown=anything),
    }
    return plain.get(origin or hint, anything)
