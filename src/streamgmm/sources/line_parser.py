"""What parsers of lines share: from lines of text to a chunk of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import nan
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.arrow_lines import ArrowLines, arrow_lines
from streamgmm.sources.base import BadRow, Chunk, Columns, Position, ReadOptions

MISSING_VALUES = ("", "NA", "N/A", "null", "NULL", "None", "?")
BOOLEANS = {"true": 1.0, "True": 1.0, "TRUE": 1.0, "false": 0.0, "False": 0.0, "FALSE": 0.0}


class LineError(Exception):
    """A line that is not a row.

    Not a ``ValueError``, so that a bug in a parser is never reported as bad data.

    Parameters
    ----------
    reason : str
        What is wrong, as the end of a sentence that starts with the row.
    *remedies : Remedy
        What to do about it.
    """

    def __init__(self, reason: str, *remedies: Remedy) -> None:
        super().__init__(reason)
        self.reason, self.remedies = reason, remedies


class LineParser(ABC):
    """Parse lines into rows, one row per line.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    options : ReadOptions
        How to read it.

    Attributes
    ----------
    feature_names : list of str or None
        Names of the features, once they are known.
    width : int or None
        Number of features, once it is known.
    left_out : list of str
        Names of columns that are not features: none of the first rows has a number there.
    heading : list of str or None
        Names of all columns, if the text names them; those to assume if it does not.
    """

    def __init__(self, source: str, options: ReadOptions) -> None:
        self.source, self.options = source, options
        self.feature_names: list[str] | None = None
        self.width: int | None = None
        self.left_out: list[str] = []
        self.heading: list[str] | None = None
        self.arrow: ArrowLines | None = None

    def expect_many_lines(self) -> None:
        """Get ready for so many lines that loading pyarrow pays off, if it is installed."""
        self.arrow = arrow_lines()

    @abstractmethod
    def expect(self, names: list[str] | None, width: int) -> None:
        """Remember the features of the model.

        Parameters
        ----------
        names : list of str or None
            Names of the features, if they have names.
        width : int
            Number of features.
        """

    @abstractmethod
    def read_heading(self, line: bytes) -> bool:
        """Inspect the first line and return whether it is a heading.

        Parameters
        ----------
        line : bytes
            The first line that is not blank.
        """

    @abstractmethod
    def parse(self, line: bytes) -> tuple[list[float], Any]:
        """Return the features and the id of a line; raise ``LineError`` if it is not a row.

        Parameters
        ----------
        line : bytes
            A line, with or without its line break.
        """

    def parse_many(self, lines: list[bytes]) -> npt.NDArray[np.float64] | None:
        """Parse all lines at once, which is faster; return None if they need a closer look.

        Parameters
        ----------
        lines : list of bytes
            Lines with their line breaks.
        """
        return None

    def all_columns(self, lines: list[bytes]) -> Columns | None:
        """Return all columns of lines that are rows; None if columns have no names. See ``Chunk.columns``.

        Parameters
        ----------
        lines : list of bytes
            The lines.
        """
        return None

    def chunk(self, lines: list[bytes], first: int, position: Position) -> Chunk:
        """Parse lines into a chunk. Blank lines count as rows but are neither rows nor bad.

        Parameters
        ----------
        lines : list of bytes
            The lines.
        first : int
            Number of the first line.
        position : dict
            Position after the last line.
        """
        numbers = np.arange(first, first + len(lines))
        if self.options.id_column is None and (rows := self.parse_many(lines)) is not None:
            self.width = rows.shape[1]
            return Chunk(rows, numbers, position, columns=self._columns(lines))
        values, ids, good, bad = [], [], [], []
        for i, line in enumerate(lines):
            try:
                features, key = self._parse_same_width(line)
            except LineError as problem:
                if not line.strip():
                    continue
                if not self.options.skip_bad:
                    message = f"row {first + i} of {self.source} {problem.reason}."
                    raise SourceError(message, *problem.remedies, Remedy.SKIP_BAD_ROWS) from None
                bad.append(BadRow(first + i, problem.reason))
                continue
            values.append(features)
            ids.append(key)
            good.append(i)
        rows = np.array(values, dtype=np.float64).reshape(len(values), self.width or 0)
        numbers = numbers if len(good) == len(lines) else numbers[good]
        known = None if self.options.id_column is None else tuple(ids)
        return Chunk(rows, numbers, position, tuple(bad), known, self._columns([lines[i] for i in good]))

    def _columns(self, lines: list[bytes]) -> Columns | None:
        return self.all_columns(lines) if self.options.others and lines else None

    def _parse_same_width(self, line: bytes) -> tuple[list[float], Any]:
        features, key = self.parse(line)
        if self.width is not None and len(features) != self.width:
            raise LineError(f"has {len(features)} features; expected {self.width}", Remedy.CHOOSE_COLUMNS)
        self.width = len(features)
        return features, key


def is_number(value: Any) -> bool:
    """Return whether a value that is not missing is a number, or true or false.

    Parameters
    ----------
    value : object
        Text, or a JSON value.
    """
    try:
        return is_boolean(value) or float(value) is not None
    except (TypeError, ValueError, OverflowError):
        return False


def is_boolean(value: Any) -> bool:
    """Return whether a value is true or false.

    Parameters
    ----------
    value : object
        Text, or a JSON value.
    """
    return isinstance(value, bool) or (isinstance(value, str) and value.strip() in BOOLEANS)


def has_no_number(values: Iterable[Any]) -> bool:
    """Return whether values are known, and none of them is a number. True and false among other words are words, too.

    Parameters
    ----------
    values : iterable
        The first values of a column, some of which may be missing.

    Examples
    --------
    >>> has_no_number(["true", "false"]), has_no_number(["true", "perhaps"]), has_no_number(["low", "5"])
    (False, True, False)
    """
    known = [v for v in values if v is not None and not (isinstance(v, str) and v.strip() in MISSING_VALUES)]
    words = [v for v in known if is_boolean(v) or not is_number(v)]
    return bool(known) and len(words) == len(known) and not all(map(is_boolean, known))


def parse_number(value: Any, column: object, *, missing: bool) -> float:
    """Return a value as a float, 1 for true and 0 for false; raise ``LineError`` if it is not a number.

    Parameters
    ----------
    value : object
        Text, or a JSON value.
    column : object
        Name or number of the column, for the message.
    missing : bool
        Whether the value may be missing; NaN is returned then.
    """
    is_missing = value is None or (isinstance(value, str) and value.strip() in MISSING_VALUES)
    if missing and is_missing:
        return nan
    if isinstance(value, list | dict):  # not quoted: it may be nested too deeply to print
        kind = "an array" if isinstance(value, list) else "an object"
        raise LineError(f"has {kind} in column {column}; expected a number", Remedy.CHOOSE_COLUMNS)
    if is_missing:
        raise LineError(f"has no number in column {column}", Remedy.ALLOW_MISSING, Remedy.CHOOSE_COLUMNS)
    if is_boolean(value):
        return float(BOOLEANS[value.strip()] if isinstance(value, str) else value)
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise LineError(
            f"has {str(value)[:30]!r} in column {column}; expected a number", Remedy.CHOOSE_COLUMNS, Remedy.NAME_ID
        ) from None
