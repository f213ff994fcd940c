"""JSON lines: one array or one object per line."""

from __future__ import annotations

import json
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from streamgmm.errors import DataWarning, Remedy, SourceError
from streamgmm.sources.base import Chunk, Columns, Position, ReadOptions
from streamgmm.sources.line_parser import LineError, LineParser, has_no_number, parse_number
from streamgmm.storage.schema import is_unicode


class JsonParser(LineParser):
    """Parse lines of JSON. The features of objects are those of the first object, unless they are chosen.

    Names under which the first objects have no number are left out.

    Parameters
    ----------
    source : str
        Name of the source, for messages.
    options : ReadOptions
        How to read it.
    """

    def __init__(self, source: str, options: ReadOptions) -> None:
        super().__init__(source, options)
        self._warns_of_others = options.columns is None  # whether to warn of features that are not learned
        self._warned = False  # of names that the first rows lack
        self._knows_left_out = True  # if a model is expected, once the first objects are read
        self._all_names: list[str] | None = None  # of the first objects, if all columns are wanted

    def expect(self, names: list[str] | None, width: int) -> None:
        self.width = width
        if names is not None and self.options.columns is None:
            self.feature_names, self._warns_of_others = names, False
            self._knows_left_out = False

    def read_heading(self, line: bytes) -> bool:
        return False

    def chunk(self, lines: list[bytes], first: int, position: Position) -> Chunk:
        if self.feature_names is None:
            self._name_features(lines)
        elif not self._knows_left_out:
            known = {*self.feature_names, self.options.id_column}
            self.left_out = [n for n in dict.fromkeys(n for o in self._objects(lines) for n in o) if n not in known]
            self._knows_left_out = True
        return super().chunk(lines, first, position)

    def _name_features(self, lines: list[bytes]) -> None:
        """Use the chosen names, or those of the first object; of all these objects, if values may be missing."""
        found = self._objects(lines)
        if not found:
            return
        if self.options.columns is not None:
            self.feature_names = list(self.options.columns)
            return
        names = dict.fromkeys(n for value in (found if self.options.missing else found[:1]) for n in value)
        names.pop(self.options.id_column or "", None)
        self.left_out = [n for n in names if has_no_number(value.get(n) for value in found)]
        self.feature_names = [n for n in names if n not in self.left_out]
        if names and not self.feature_names:
            raise SourceError(f"{self.source} has no column of numbers; it has {', '.join(list(names)[:20])}.")

    def _objects(self, lines: list[bytes]) -> list[dict[str, Any]]:
        """Return objects with names: those whose names are all Unicode or, without any, what they have under such."""
        found: list[dict[str, Any]] = []
        for line in lines:
            with suppress(LineError):  # reported when the line is parsed
                value = self.load(line)
                found += [value] if isinstance(value, dict) else []
        whole = [value for value in found if value and all(map(is_unicode, value))]
        return whole or [named for value in found if (named := {n: v for n, v in value.items() if is_unicode(n)})]

    def all_columns(self, lines: list[bytes]) -> Columns | None:
        values = [self.load(line) for line in lines]
        objects = [value if isinstance(value, dict) else {} for value in values]
        if self._all_names is None:
            self._all_names = list(dict.fromkeys(name for value in objects for name in value if is_unicode(name)))
        if not self._all_names or self.feature_names is None:
            return None  # arrays
        known = dict.fromkeys([*self._all_names, *self.feature_names])
        if others := sorted({name for value in objects for name in value} - known.keys()):
            self._warn_of_others(others)
        return {name: np.fromiter((o.get(name) for o in objects), object, len(objects)) for name in known}

    def load(self, line: bytes) -> Any:
        """Return the value of a line; raise ``LineError`` if it is not JSON.

        Parameters
        ----------
        line : bytes
            A line.
        """
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            raise LineError("is not JSON") from None

    def parse_many(self, lines: list[bytes]) -> npt.NDArray[np.float64] | None:
        names = self.feature_names
        if self.arrow is None or not names or self.width not in (None, len(names)):
            return None
        if self._warns_of_others and self.left_out:
            return None
        rows = self.arrow.json(lines, names, others=not self._warns_of_others)
        if rows is None:
            return None
        gaps = np.isnan(rows)  # which may be missing, where all other features of a row may not
        return rows if not gaps.any() or (self.options.missing and not gaps.all(1).any()) else None

    def parse(self, line: bytes) -> tuple[list[float], Any]:
        value = self.load(line)
        if isinstance(value, dict):
            return self._parse_object(value)
        if isinstance(value, list):
            return self._parse_array(value)
        raise LineError(f"is {type(value).__name__}; expected an array or an object")

    def _parse_object(self, value: dict[str, Any]) -> tuple[list[float], Any]:
        names, key, missing = self.feature_names or [], self.options.id_column, self.options.missing
        if not names:
            raise LineError("has no features")
        if self._warns_of_others and len(value) - sum(n in value for n in (key, *self.left_out)) > len(names):
            self._warn_of_others(sorted(value.keys() - {*names, *self.left_out, key}), Remedy.CHOOSE_COLUMNS)
        if not any(n in value for n in names):
            raise LineError(f"has none of the features {', '.join(map(repr, names[:3]))}", Remedy.CHOOSE_COLUMNS)
        if not missing and (absent := [n for n in names if n not in value]):
            raise LineError(f"has no {absent[0]!r}", Remedy.ALLOW_MISSING, Remedy.CHOOSE_COLUMNS)
        features = [parse_number(value.get(n), n, missing=missing) for n in names]
        return features, None if key is None else value.get(key)

    def _parse_array(self, value: list[Any]) -> tuple[list[float], Any]:
        columns, key = self.options.columns, self.options.id_column
        row_id = None if key is None else _item(value, key)
        others = [v for i, v in enumerate(value) if str(i) != key]
        chosen = others if columns is None else [_item(value, c) for c in columns]
        if not chosen:
            raise LineError("has no features")
        return [parse_number(v, i, missing=self.options.missing) for i, v in enumerate(chosen)], row_id

    def _warn_of_others(self, others: list[str], *remedies: Remedy) -> None:
        """Warn of names that the first rows lack, unless that was done before."""
        if self._warned:
            return
        self._warns_of_others, self._warned = False, True
        message = f"some rows of {self.source} have {others[0]!r}, which the first rows lack; it is ignored."
        warnings.warn(DataWarning(message, *remedies), stacklevel=2)


def _item(values: list[Any], number: str) -> Any:
    if not number.isdecimal() or int(number) >= len(values):
        raise LineError(f"has {len(values)} values; expected one at {number!r}", Remedy.CHOOSE_COLUMNS)
    return values[int(number)]
