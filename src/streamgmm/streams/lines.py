"""Text, one sample a line: CSV and NDJSON, plain or gzipped, from a file or from standard input."""

from __future__ import annotations

import csv
import json
import warnings
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError, rows_per_chunk
from streamgmm.streams.text import FileText, PipeText

LINES = 1000
ABSENT = ("", "NA", "N/A", "null", "NULL", "None", "?")  # how text says that a number is missing
MARK = b"\xef\xbb\xbf"  # with which some programs begin a file


class Lines(Source):
    """Lines of a file or of standard input.

    columns : names (or numbers) of the features, in this order; all, if None.
    id_column : a column that is kept beside the rows and not learned.
    skip_bad : leaves out lines that cannot be read, and reports them; otherwise the first one raises.
    missing : lets a line leave out numbers, which become NaN.
    follow : leaves a last line without an end for the next time: it may still be growing.
    """

    grows = True

    def __init__(
        self,
        text: Path | PipeText | None,
        *,
        columns: Sequence[str] | None = None,
        id_column: str | None = None,
        skip_bad: bool = False,
        missing: bool = False,
        follow: bool = False,
    ) -> None:
        self.name = text.name if isinstance(text, Path) else "standard input"
        self._text, self._columns, self._id, self.skip_bad = text, columns, id_column, skip_bad
        self._missing, self._follow = missing, follow
        self._width: int | None = None
        self._headed: bool | None = None  # whether there is a heading; None until a first line was seen

    @abstractmethod
    def _prepare(self, head: bytes) -> bool:
        """Looks at the first line; says whether it is a heading."""

    @abstractmethod
    def _parse(self, line: bytes) -> tuple[list[float], Any]:
        """Features and id of a line; raises ValueError with the reason."""

    def _parse_many(self, lines: list[bytes]) -> npt.NDArray[np.float64] | None:
        """All lines at once, if that is possible."""
        return None

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        if isinstance(self._text, Path):
            with closing(FileText(self._text, follow=self._follow)) as file:
                yield from self._chunks(file, start)
        elif self._text is not None:
            yield from self._chunks(self._text, start)

    def _chunks(self, text: FileText | PipeText, start: Position | None) -> Iterator[Chunk]:
        waiting = self._begin(text)
        row = 0 if start is None else int(start["row"])
        if isinstance(text, FileText) and text.seekable and start is not None:
            if "byte" not in start:
                raise SourceError(f"the run stands at row {row} of another kind of source than {self.name}.")
            text.seek(int(start["byte"]))
            waiting = []
        else:
            waiting = _skip(text, waiting, row - (text.rows if isinstance(text, PipeText) else 0))
        while True:
            size = LINES if self._width is None else min(LINES, rows_per_chunk(self._width))
            lines = waiting + text.take(size - len(waiting), wait=not waiting)
            waiting = []
            if not lines:
                return
            if isinstance(text, PipeText):
                text.rows = row + len(lines)
            yield self._chunk(lines, row, {"row": row + len(lines), "byte": text.tell()})
            row += len(lines)

    def _begin(self, text: FileText | PipeText) -> list[bytes]:
        """Reads the first line that is not blank, and gives it back if it is data."""
        if isinstance(text, PipeText) and self._headed is not None:
            return []
        while (lines := text.take(1)) and not lines[0].strip():
            pass
        if not lines:
            return []
        head = lines[0].removeprefix(MARK)
        try:
            self._headed = self._prepare(head)
        except SourceError:
            raise
        except ValueError as problem:
            raise SourceError(f"the first line of {self.name} {problem}.") from None
        return [] if self._headed else [head]

    def _chunk(self, lines: list[bytes], first: int, position: Position) -> Chunk:
        numbers = np.arange(first, first + len(lines))
        if self._id is None and (rows := self._parse_many(lines)) is not None:
            self._width = rows.shape[1]
            return Chunk(rows, numbers, position)
        kept, ids, bad = [], [], []
        good = []
        for at, line in enumerate(lines):
            try:
                values, key = self._parse(line)
                if self._width is not None and len(values) != self._width:
                    raise ValueError(f"has {len(values)} features; the rows before have {self._width}")
                self._width = len(values)
            except ValueError as problem:
                if not line.strip():
                    continue
                bad.append(Bad(first + at, str(problem)))
                if not self.skip_bad:
                    raise SourceError(
                        f"row {first + at} of {self.name} {problem}. Choose columns with --columns, name one that "
                        "is no feature with --id, or leave out such rows with --bad-rows skip."
                    ) from None
                continue
            kept.append(values)
            ids.append(key)
            good.append(at)
        rows = np.array(kept, dtype=np.float64).reshape(len(kept), self._width or 0)
        return Chunk(rows, numbers[good], position, tuple(bad), None if self._id is None else tuple(ids))


class Csv(Lines):
    """Comma-separated numbers, with a heading or without."""

    _places: list[int] | None = None
    _id_place: int | None = None
    _known: list[str] | None = None  # features of a model, which may be some of the columns
    _chosen: bool = False  # whether there may be other columns

    def expect(self, names: list[str] | None, width: int) -> None:
        self._known = names

    def _prepare(self, head: bytes) -> bool:
        fields = [f.strip() for f in _fields(head)]
        numbers = [str(i) for i in range(len(fields))]
        heading = self._is_heading(fields, numbers)
        names = fields if heading else numbers
        if self._id is not None:
            self._id_place = _place(self._id, names, self.name)
        unique = _unique(names)
        where = {n: i for i, n in enumerate(unique)}
        if self._columns is not None:
            self._places = [_place(n, names, self.name) for n in self._columns]
        elif heading and self._known is not None and where.keys() >= set(self._known):
            self._places = [where[n] for n in self._known]
            self._chosen = len(names) > len(self._places) + (self._id_place is not None)
        else:
            self._places = [i for i in range(len(names)) if i != self._id_place]
        self._width = len(self._places)
        self.feature_names = [unique[i] for i in self._places] if heading else None
        return heading

    def _is_heading(self, fields: list[str], numbers: list[str]) -> bool:
        """Whether the first line names columns: it does unless it holds numbers where there must be some."""
        if len(fields) > 2 and fields == numbers:
            return True  # as pandas heads columns without names
        by_number = self._columns is not None and set(self._columns) <= set(numbers)
        looked_at = [int(c) for c in self._columns or [] if by_number] or range(len(fields))
        if by_number and all(fields[i] == str(i) for i in looked_at):
            return not all(_is_number(f) for f in fields)  # columns that are called by their numbers
        return not all(_is_number(fields[i]) or fields[i] in ABSENT or str(i) == self._id for i in looked_at)

    def _parse(self, line: bytes) -> tuple[list[float], Any]:
        fields = _fields(line)
        highest = max([*(self._places or []), self._id_place or 0])
        if len(fields) <= highest or not (self._others_allowed or len(fields) == self._wanted_fields):
            raise ValueError(f"has {len(fields)} columns; expected {self._wanted_fields}")
        key = None if self._id_place is None else fields[self._id_place]
        names = self.feature_names or self._places or []
        return [_number(fields[i], n, self._missing) for i, n in zip(self._places or [], names, strict=True)], key

    @property
    def _others_allowed(self) -> bool:
        return self._columns is not None or self._chosen

    @property
    def _wanted_fields(self) -> int:
        return len(self._places or []) + (self._id_place is not None)

    def _parse_many(self, lines: list[bytes]) -> npt.NDArray[np.float64] | None:
        if any(b'"' in line for line in lines):
            return None  # a comma between quotes is none
        try:
            rows = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2, encoding="utf8", usecols=self._places)
        except ValueError:
            return None
        same_width = self._others_allowed or all(line.count(b",") + 1 == self._wanted_fields for line in lines)
        return rows if len(rows) == len(lines) and same_width else None


class Ndjson(Lines):
    """One JSON array, or one JSON object, a line."""

    def expect(self, names: list[str] | None, width: int) -> None:
        self._width = width
        if names is not None and self._columns is None:
            self.feature_names, self._told_of_more = names, True  # there may be others

    _told_of_more = False  # whether a feature was seen that the first lines had not

    def _prepare(self, head: bytes) -> bool:
        return False

    def _chunk(self, lines: list[bytes], first: int, position: Position) -> Chunk:
        if self.feature_names is None:
            self._name_features(lines)
        return super()._chunk(lines, first, position)

    def _name_features(self, lines: list[bytes]) -> None:
        """Features of the first object; of all those at hand, if each may leave out some."""
        names: dict[str, None] = {}
        for line in lines:
            with suppress(ValueError):  # whether to stop for it is decided where lines are parsed
                value = _json(line)
                names |= dict.fromkeys(value if isinstance(value, dict) else ())
                if not (names and self._missing):
                    break
        if names:
            self.feature_names = list(self._columns or (n for n in names if n != self._id))

    def _tell_of_more(self, value: dict[str, Any]) -> None:
        """Says once that there are features which will not be learned."""
        self._told_of_more = True
        more = sorted(value.keys() - {*(self.feature_names or []), self._id})
        warnings.warn(
            f"{self.name} has {more[0]!r} in some rows, which the first rows had not: it is left out. "
            "Name all features with --columns.",
            UserWarning,
            stacklevel=2,
        )

    def _parse(self, line: bytes) -> tuple[list[float], Any]:
        value = _json(line)
        if isinstance(value, dict):
            names = self.feature_names or []
            own = len(value) - (self._id in value)
            if own > len(names) and self._columns is None and not self._told_of_more:
                self._tell_of_more(value)
            if names and not any(n in value for n in names):
                raise ValueError(f"has none of the features {', '.join(map(repr, names[:3]))}")
            if not self._missing and (absent := [n for n in names if n not in value]):
                raise ValueError(f"has no {absent[0]!r}")
            key = None if self._id is None else value.get(self._id)
            return [_number(value.get(n), n, self._missing) for n in names], key
        if isinstance(value, list):
            key = None if self._id is None else _item(value, self._id)
            others = [v for i, v in enumerate(value) if str(i) != self._id]
            chosen = others if self._columns is None else [_item(value, c) for c in self._columns]
            return [_number(v, i, self._missing) for i, v in enumerate(chosen)], key
        raise ValueError(f"is {type(value).__name__}; expected an array or an object")


def _skip(text: FileText | PipeText, waiting: list[bytes], count: int) -> list[bytes]:
    """Leaves out ``count`` lines, those that wait first; gives what is left of these."""
    left = count - len(waiting)
    while left > 0 and (lines := text.take(min(left, LINES))):
        left -= len(lines)
    return waiting[max(0, count) :]


def _fields(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf8").rstrip("\r\n")]), [])
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except csv.Error as problem:
        raise ValueError(f"is not CSV ({problem!s:.80})") from None


def _json(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("is not JSON") from None


def _item(values: list[Any], number: str) -> Any:
    if not number.isdigit() or int(number) >= len(values):
        raise ValueError(f"has {len(values)} numbers and none called {number!r}")
    return values[int(number)]


def _number(value: Any, where: object, missing: bool) -> float:
    if missing and (value is None or value in ABSENT):
        return nan
    if isinstance(value, bool) or value is None or value == "":
        raise ValueError(f"has no number in column {where} (train --missing learn takes such rows)")
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"has {str(value)[:30]!r} in column {where}; expected a number") from None


def _unique(names: list[str]) -> list[str]:
    """Names of which some come again, told apart."""
    seen, unique = Counter[str](), []
    for name in names:
        unique.append(f"{name}.{seen[name]}" if seen[name] else name)
        seen[name] += 1
    return unique


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


def _place(name: str, names: list[str], source: str) -> int:
    if names.count(name) > 1:
        raise SourceError(f"{source} has {names.count(name)} columns {name!r}; choose them by number, from 0 on.")
    if name in names:
        return names.index(name)
    if name.isdigit() and int(name) < len(names):
        return int(name)
    raise SourceError(f"{source} has no column {name!r}; it has {', '.join(names[:20])}.")
