"""Columns of text that are kept beside the features: as integers, numbers or text, whatever the first rows are."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from streamgmm.sources.line_parser import MISSING_VALUES

Reader = Callable[[str], Any]
"""Return the value of a field."""

INTEGER = re.compile(r"-?(?:0|[1-9][0-9]{0,18})")
CODE = re.compile(r"[+-]?0[0-9]+|\+.*|-?[0-9]{20,}")  # a postcode, a phone number or a key: numbers would change it


def choose_reader(fields: Sequence[str]) -> Reader:
    """Return how to read a column, given its first fields. It returns fields that do not fit unchanged.

    Parameters
    ----------
    fields : sequence of str
        The first fields, with decimal points.

    Examples
    --------
    >>> [choose_reader(fields)(fields[0]) for fields in (["12"], ["1.5", "2"], ["01067", "10115"], ["on", "5"])]
    [12, 1.5, '01067', 'on']
    """
    known = [field.strip() for field in fields if field.strip() not in MISSING_VALUES]
    if known and all(map(INTEGER.fullmatch, known)):
        return read_as_integer
    if known and all(isinstance(read_as_number(field), float) for field in known):
        return read_as_number
    return read_as_text


def read_as_text(field: str) -> Any:
    """Return a field as it is.

    Parameters
    ----------
    field : str
        The field.
    """
    return field


def read_as_integer(field: str) -> Any:
    """Return an integer, or what `read_as_number` returns.

    Parameters
    ----------
    field : str
        The field.
    """
    return int(field) if INTEGER.fullmatch(field.strip()) else read_as_number(field)


def read_as_number(field: str) -> Any:
    """Return a number; None if it is missing.

    Parameters
    ----------
    field : str
        The field.
    """
    if field.strip() in MISSING_VALUES:
        return None
    if CODE.fullmatch(field.strip()):
        return field
    try:
        return float(field)
    except ValueError:
        return field
