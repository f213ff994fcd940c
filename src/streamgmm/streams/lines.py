"""Text, one sample a line: CSV and NDJSON, plain or gzipped, from a file or from standard input."""

from __future__ import annotations

import csv
import gzip
import json
import sys
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError, rows_per_chunk

LINES = 1000
ABSENT = ("", "NA", "N/A", "null", "NULL", "None", "?")  # how text says that a number is missing


class Lines(Source):
    """Lines of a file or of standard input.

    columns : names (or numbers) of the features, in this order; all, if None.
    id_column : a column that is kept beside the rows and not learned.
    skip_bad : leaves out lines that cannot be read, and reports them; otherwise the first one raises.
    missing : lets a line leave out numbers, which become NaN.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        columns: Sequence[str] | None = None,
        id_column: str | None = None,
        skip_bad: bool = False,
        missing: bool = False,
    ) -> None:
        self.name = "standard input" if path is None else path.name
        self._path, self._columns, self._id, self._skip_bad = path, columns, id_column, skip_bad
        self._missing = missing
        self._width: int | None = None

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
        with self._open() as file:
            head = file.readline()
            row, byte = 0, 0
            pending = [] if not head or self._prepare(head) else [head]
            if start is not None and self._path is not None and not self._zipped:
                row, byte, pending = int(start["row"]), int(start["byte"]), []
                file.seek(byte)
            elif start is not None:
                row, pending = int(start["row"]), []
                for _ in range(row if self._prepare(head) else row - 1):
                    file.readline()
            while True:
                size = LINES if self._width is None else min(LINES, rows_per_chunk(self._width))
                lines = pending + [
                    line for _, line in zip(range(size - len(pending)), iter(file.readline, b""), strict=False)
                ]
                pending = []
                if not lines:
                    return
                byte = file.tell() if self._path is not None and not self._zipped else 0
                yield self._chunk(lines, row, {"row": row + len(lines), "byte": byte})
                row += len(lines)

    @property
    def _zipped(self) -> bool:
        return self._path is not None and self._path.suffix == ".gz"

    def _open(self) -> Any:
        if self._path is None:
            return nullcontext(sys.stdin.buffer)
        return gzip.open(self._path) if self._zipped else self._path.open("rb")

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
                if not self._skip_bad:
                    raise SourceError(
                        f"row {first + at} of {self.name} {problem}. Choose columns with --columns, or leave out such "
                        "rows with --bad-rows skip."
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

    def _prepare(self, head: bytes) -> bool:
        fields = _fields(head)
        heading = any(not _is_number(f) for f in fields)
        names = [f.strip() for f in fields] if heading else [str(i) for i in range(len(fields))]
        if self._id is not None:
            self._id_place = _place(self._id, names, self.name)
        wanted = self._columns or [n for i, n in enumerate(names) if i != self._id_place]
        self._places = [_place(n, names, self.name) for n in wanted]
        self._width = len(self._places)
        self.feature_names = list(wanted) if heading else None
        return heading

    def _parse(self, line: bytes) -> tuple[list[float], Any]:
        fields = _fields(line)
        highest = max(self._places or [0])
        if len(fields) <= highest or (self._columns is None and len(fields) != self._wanted_fields):
            raise ValueError(f"has {len(fields)} columns; expected {self._wanted_fields}")
        key = None if self._id_place is None else fields[self._id_place]
        return [_number(fields[i], i, self._missing) for i in self._places or []], key

    @property
    def _wanted_fields(self) -> int:
        return len(self._places or []) + (self._id_place is not None)

    def _parse_many(self, lines: list[bytes]) -> npt.NDArray[np.float64] | None:
        try:
            rows = np.loadtxt(lines, delimiter=",", comments=None, ndmin=2, encoding="utf8", usecols=self._places)
        except ValueError:
            return None
        same_width = self._columns is not None or all(line.count(b",") + 1 == self._wanted_fields for line in lines)
        return rows if len(rows) == len(lines) and same_width else None


class Ndjson(Lines):
    """One JSON array, or one JSON object, a line."""

    def _prepare(self, head: bytes) -> bool:
        try:
            value = json.loads(head)
        except ValueError:
            return False
        if isinstance(value, dict):
            self.feature_names = list(self._columns or (n for n in value if n != self._id))
        return False

    def _parse(self, line: bytes) -> tuple[list[float], Any]:
        try:
            value = json.loads(line)
        except ValueError:
            raise ValueError("is not JSON") from None
        if isinstance(value, dict):
            names = self.feature_names or []
            if not self._missing and (absent := [n for n in names if n not in value]):
                raise ValueError(f"has no {absent[0]!r}")
            key = None if self._id is None else value.get(self._id)
            return [_number(value.get(n), n, self._missing) for n in names], key
        if isinstance(value, list):
            chosen = value if self._columns is None else [value[int(c)] for c in self._columns]
            return [_number(v, i, self._missing) for i, v in enumerate(chosen)], None
        raise ValueError(f"is {type(value).__name__}; expected an array or an object")


def _fields(line: bytes) -> list[str]:
    try:
        return next(csv.reader([line.decode("utf8").rstrip("\r\n")]), [])
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None


def _number(value: Any, where: object, missing: bool) -> float:
    if missing and (value is None or value in ABSENT):
        return nan
    if isinstance(value, bool) or value is None or value == "":
        raise ValueError(f"has no number in column {where} (see --missing)")
    try:
        return float(value)
    except (TypeError, ValueError):
        raise ValueError(f"has {str(value)[:30]!r} in column {where}; expected a number") from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return not text.strip()
    return True


def _place(name: str, names: list[str], source: str) -> int:
    if name in names:
        return names.index(name)
    if name.isdigit() and int(name) < len(names):
        return int(name)
    raise SourceError(f"{source} has no column {name!r}; it has {', '.join(names[:20])}.")
