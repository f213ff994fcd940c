"""CSV: numbers separated by commas, semicolons or tabs, with or without a heading."""

from __future__ import annotations

import csv
import re
import warnings
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import DataWarning, Remedy, SourceError
from streamgmm.sources.base import Chunk, Columns, Position, ReadOptions
from streamgmm.sources.line_parser import (
    MISSING_VALUES,
    LineError,
    LineParser,
    has_no_number,
    is_boolean,
    is_number,
    parse_number,
)
from streamgmm.sources.selection import require_columns
from streamgmm.sources.separators import decimal_point, find_separator
from streamgmm.sources.text_columns import Reader, choose_reader, read_as_text

FEW_LINES = 5  # which are parsed faster one by one
COMMA_NUMBER = re.compile(rb"(?<![^;])\s*-?\d+,\d+\s*(?![^;\r\n])")
GROUPED_NUMBER = re.compile(rb"(?<![^;])\s*-?\d{1,3}(?:\.\d{3})+(?:,\d*)?\s*(?![^;\r\n])")
LONGEST_PLAIN = 100_000  # characters of a line that is split without asking how long its fields are
BOOLEAN = re.compile(rb"(?<![^,]) *(?:([Tt]rue|TRUE)|[Ff]alse|FALSE) *(?![^,\r\n])")


class CsvParser(LineParser):
    """Parse lines of CSV. Columns in which the first rows have no number are left out, unless features are chosen.

    So is a first column without a name. True and false are 1 and 0, but text in a column that has other words.

    The first line decides what separates columns. Where semicolons do, numbers may have decimal commas.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    options : ReadOptions
        How to read it.
    """

    def __init__(self, source: str, options: ReadOptions) -> None:
        super().__init__(source, options)
        self._model_features: list[str] | None = None
        self._separator, self._warns_of_commas, self._warns_of_points = ",", True, True
        self._places: list[int] = []  # where the features are in a line
        self._id_place: int | None = None
        self._ignores_columns = options.columns is not None  # whether lines may have columns that are not used
        self._knows_numbers = options.columns is not None  # whether it is known which columns hold numbers
        self._warns_of_index = True
        self._has_booleans = False  # whether some fields were true or false so far
        self._blank: set[int] = set()  # places of columns without names and values: lines may end with a separator
        self._names: list[str] = []  # of all columns, each only once
        self._readers: dict[int, Reader] = {}  # by their place

    def expect(self, names: list[str] | None, width: int) -> None:
        self._model_features = names

    def read_heading(self, line: bytes) -> bool:
        self._separator = find_separator(_decoded(line))
        fields = [f.strip() for f in self._split(line)]
        numbers = [str(i) for i in range(len(fields))]
        assumed = self._fits_heading(fields)
        is_heading = not assumed and self._is_heading(fields, numbers)
        names = fields if is_heading else self.heading if assumed and self.heading else numbers
        named = is_heading or assumed
        self.heading = names if named else None
        if self.options.id_column is not None:
            self._id_place = self._find(self.options.id_column, names)
        unique = self._names = _make_unique(names)
        places = {n: i for i, n in enumerate(unique)}
        if self.options.columns is not None:
            self._places = [self._find(n, names) for n in self.options.columns]
        elif named and self._model_features is not None:
            require_columns(unique, self._model_features, self.source)
            self._places = [places[n] for n in self._model_features]
            self._ignores_columns = len(names) > self._n_fields
            used = {*self._places, self._id_place}
            self.left_out = [n for i, n in enumerate(unique) if n and i not in used]
        else:
            unused = {self._id_place, self._index_place(names), *self._blank}
            left_out = set(self.left_out)
            self._places = [i for i in range(len(names)) if i not in unused and unique[i] not in left_out]
            self._ignores_columns = self._ignores_columns or len(names) > self._n_fields
        self.width = len(self._places)
        self.feature_names = [unique[i] for i in self._places] if named else None
        return is_heading

    def _index_place(self, names: list[str]) -> int | None:
        """Return the place of a first column without a name, where pandas and R write the numbers of rows."""
        if len(names) < 2 or names[0] or self._id_place == 0:
            return None
        if self._warns_of_index:
            self._warns_of_index = False
            message = (
                f"the first column of {self.source} has no name: it is left out, as row numbers that pandas wrote."
            )
            warnings.warn(DataWarning(message, Remedy.KEEP_INDEX), stacklevel=2)
        return 0

    def _fits_heading(self, fields: list[str]) -> bool:
        """Return whether the first line is a row of the columns to assume: it has numbers where the model has them."""
        if self.heading is None or self._model_features is None or len(fields) != len(self.heading):
            return False
        names = _make_unique(self.heading)
        features = [f for f, n in zip(fields, names, strict=True) if n in self._model_features]
        known = [f for f in features if f not in MISSING_VALUES]
        return (
            fields != self.heading and len(features) == len(self._model_features) and all(map(self._is_number, known))
        )

    def chunk(self, lines: list[bytes], first: int, position: Position) -> Chunk:
        if not self._knows_numbers and self.feature_names is not None:
            if self._model_features is None and self.parse_many(lines) is None:
                self._leave_out_text(lines)
            self._knows_numbers = True
        if self._separator == ";" and self._warns_of_points:
            self._warn_of_points(lines)
        if self._separator == ";" and self._warns_of_commas and any(b"," in line for line in lines):
            self._warns_of_commas = False
            message = (
                f"commas in numbers of {self.source} are read as decimal points, because semicolons separate columns."
            )
            warnings.warn(DataWarning(message), stacklevel=2)
        return super().chunk(lines, first, position)

    def _leave_out_text(self, lines: list[bytes]) -> None:
        """Leave out columns without a number in any of these lines, and those without names and values."""
        rows = []
        for line in lines:
            with suppress(LineError):  # reported when the line is parsed
                rows.append(self._split(line))
        rows = [row for row in rows if len(row) == len(self._names)]
        names, heading = self.feature_names or [], self.heading or self._names
        self._blank = {i for i in self._places if rows and not heading[i] and not any(row[i].strip() for row in rows)}
        text = {i for i in self._places if has_no_number(self._number(row[i]) for row in rows)}
        unused = text | self._blank
        if not unused:
            return
        if len(unused) == len(self._places):
            raise SourceError(f"{self.source} has no column of numbers; it has {', '.join(names[:20])}.")
        self.left_out = [n for i, n in zip(self._places, names, strict=True) if i in text]
        self.feature_names = [n for i, n in zip(self._places, names, strict=True) if i not in unused]
        self._places = [i for i in self._places if i not in unused]
        self.width, self._ignores_columns = len(self._places), True

    def _warn_of_points(self, lines: list[bytes]) -> None:
        """Warn, once, of points that may separate thousands: some numbers have commas for decimal points."""
        grouped = next((found for line in lines if (found := GROUPED_NUMBER.search(line))), None)
        if grouped and any(map(COMMA_NUMBER.search, lines)):
            self._warns_of_points = False
            text = grouped.group().strip().decode()
            message = f"points in numbers of {self.source} are read as decimal points, too: {text} is not a thousand."
            warnings.warn(DataWarning(f"{message} Write numbers without separators of thousands."), stacklevel=2)

    def _is_heading(self, fields: list[str], numbers: list[str]) -> bool:
        """Return whether the first line names columns: something is not a number where a feature should be."""
        if len(fields) > 2 and (fields == numbers or fields == ["", *numbers[:-1]]):
            return True  # pandas writes these headings for columns without names
        columns = self.options.columns or []
        by_number = self.options.columns is not None and set(columns) <= set(numbers)
        checked = [int(c) for c in columns if by_number] or range(len(fields))
        if by_number and all(fields[i] == str(i) for i in checked):
            return not all(self._is_number(f) for f in fields)  # the names of these columns are their numbers
        id_column = self.options.id_column
        return not all(
            self._is_number(fields[i]) or fields[i] in MISSING_VALUES or str(i) == id_column for i in checked
        )

    def _find(self, name: str, names: list[str]) -> int:
        """Return the place of a column, by name or by number."""
        if (count := names.count(name)) > 1:
            raise SourceError(f"{self.source} has {count} columns named {name!r}.", Remedy.NUMBER_COLUMNS)
        if name in names:
            return names.index(name)
        if name.isdecimal() and int(name) < len(names):
            return int(name)
        raise SourceError(f"{self.source} has no column {name!r}; it has {', '.join(names[:20])}.")

    @property
    def _n_fields(self) -> int:
        return len(self._places) + (self._id_place is not None and self._id_place not in self._places)

    def parse(self, line: bytes) -> tuple[list[float], Any]:
        fields = self._split(line)
        last = max([*self._places, self._id_place or 0])
        if len(fields) <= last or not (self._ignores_columns or len(fields) == self._n_fields):
            if line.count(b'"') % 2:
                raise LineError("has a quoted field that does not end on its line; expected one row per line")
            plural = "s" if len(fields) != 1 else ""
            raise LineError(f"has {len(fields)} column{plural}; expected {len(self._names)}", Remedy.CHOOSE_COLUMNS)
        key = None if self._id_place is None else fields[self._id_place]
        chosen = [self._number(fields[i]) for i in self._places]
        try:
            return list(map(float, chosen)), key
        except ValueError:  # unlike most rows
            pass
        names = self.feature_names or self._places
        missing = self.options.missing
        self._has_booleans = self._has_booleans or any(map(is_boolean, chosen))
        return [parse_number(value, n, missing=missing) for value, n in zip(chosen, names, strict=True)], key

    def parse_many(self, lines: list[bytes]) -> npt.NDArray[np.float64] | None:
        if len(lines) < FEW_LINES or any(b'"' in line for line in lines):
            return None  # quoted fields may contain commas
        if self._separator != ",":
            if any(b"," in line for line in lines):
                if self._separator != ";":
                    return None
                lines = [line.replace(b",", b".") for line in lines]
            lines = [line.replace(self._separator.encode(), b",") for line in lines]
        if self._has_booleans:
            lines = [BOOLEAN.sub(_digit, line) for line in lines]
        if self.arrow is not None and (self._ignores_columns or lines[0].count(b",") + 1 == self._n_fields):
            rows = self.arrow.csv(lines, self._places)
            if rows is not None:
                return rows
        try:
            rows = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2, encoding="utf8", usecols=self._places)
        except ValueError:
            return None
        same_width = self._ignores_columns or all(line.count(b",") + 1 == self._n_fields for line in lines)
        return rows if len(rows) == len(lines) and same_width else None

    def all_columns(self, lines: list[bytes]) -> Columns | None:
        if self.heading is None:
            return None
        rows, columns = [self._split(line) for line in lines], Columns()
        for place, name in enumerate(self._names):
            fields = [row[place] if place < len(row) else "" for row in rows]
            if place not in self._readers:
                known = [self._number(field) for field in fields]
                self._readers[place] = read_as_text if place == self._id_place else choose_reader(known)
            read = self._readers[place]
            if read is not read_as_text:
                fields = [self._number(field) for field in fields]
            columns[name] = np.fromiter(map(read, fields), object, len(fields))
        return columns

    def _split(self, line: bytes) -> list[str]:
        text = _decoded(line).rstrip("\r\n")
        if '"' not in text and "\r" not in text and 0 < len(text) <= LONGEST_PLAIN:
            return text.split(self._separator)
        try:
            return next(csv.reader([text], delimiter=self._separator), [])
        except csv.Error as problem:
            raise LineError(f"is not CSV ({problem!s:.80})") from None

    def _number(self, field: str) -> str:
        """Return the text of a number with a decimal point."""
        return decimal_point(field) if self._separator == ";" else field

    def _is_number(self, field: str) -> bool:
        return is_number(self._number(field)) or not field.strip()


def _digit(found: re.Match[bytes]) -> bytes:
    return b"1" if found[1] else b"0"


def _decoded(line: bytes) -> str:
    try:
        return line.decode("utf8")
    except UnicodeDecodeError:
        raise LineError("is not UTF-8", Remedy.CONVERT_TO_UTF8) from None


def _make_unique(names: list[str]) -> list[str]:
    """Number the repetitions of a name, as pandas does."""
    seen, unique = Counter[str](), []
    for name in names:
        unique.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return unique
