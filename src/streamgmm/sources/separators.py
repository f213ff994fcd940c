"""What separates the columns of a line of CSV: commas or, as spreadsheets of many countries write it, semicolons."""

from __future__ import annotations

import re

from streamgmm.sources.line_parser import MISSING_VALUES, is_number

QUOTED = re.compile(r'"[^"]*"')


def find_separator(line: str) -> str:
    """Return the separator of a line: a comma, unless there are at least as many semicolons or tabs.

    Parameters
    ----------
    line : str
        The first line of a file, a heading or a row.

    Examples
    --------
    >>> find_separator("time;temperature;pressure"), find_separator("1,5;2,5"), find_separator("a,b;c,d")
    (';', ';', ',')
    """
    bare = QUOTED.sub("", line)
    commas = bare.count(",")
    for separator in (";", "\t"):
        if (count := bare.count(separator)) and count >= commas:
            return separator
    fields = [decimal_point(field).strip() for field in bare.split(";")]
    all_numbers = len(fields) > 1 and all(field in MISSING_VALUES or is_number(field) for field in fields)
    return ";" if all_numbers else ","


def decimal_point(text: str) -> str:
    """Return the text of a number with a decimal point instead of a decimal comma.

    Parameters
    ----------
    text : str
        A field of a line that is separated by semicolons.
    """
    return text.replace(",", ".")
