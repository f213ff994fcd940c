"""What a source is: chunks of rows, each with the position after it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy.typing as npt

from streamgmm.errors import Remedy, SourceError
from streamgmm.storage.schema import COUNT, Check, anything, record

Position = dict[str, Any]
"""Where reading resumes, as JSON. ``row`` counts the rows read so far, including bad ones."""

Columns = dict[str, npt.NDArray[Any] | None]
"""All columns of a chunk; see `Chunk`."""

CHUNK_BYTES = 1 << 22


class BadRow(NamedTuple):
    """A row that cannot be used.

    Parameters
    ----------
    row : int
        Number of the row in its source, from 0.
    reason : str
        What is wrong, as the end of a sentence that starts with the row.
    """

    row: int
    reason: str


class Chunk(NamedTuple):
    """Rows that a source hands over together.

    Parameters
    ----------
    rows : ndarray of shape (n, D)
        The rows: floats, integers, or bytes.
    numbers : ndarray of shape (n,)
        Number of each row in its source, from 0.
    position : dict
        Where reading resumes after this chunk.
    bad : tuple of BadRow, default=()
        Rows that were skipped.
    ids : tuple or None, default=None
        The id of each row, if the source has ids.
    columns : dict or None, default=None
        All columns by name, in the order of the source: values as they are stored, or None for a feature that is stored
        as numbers. Only sources that name columns have it, and only if ``ReadOptions.others`` asks for it.
    """

    rows: npt.NDArray[Any]
    numbers: npt.NDArray[Any]
    position: Position
    bad: tuple[BadRow, ...] = ()
    ids: tuple[Any, ...] | None = None
    columns: Columns | None = None


@dataclass(frozen=True)
class ReadOptions:
    """How to read a source.

    Parameters
    ----------
    columns : sequence of str or None, default=None
        Names of the features, or their numbers from 0, in the order in which the model learns them; None for all.
    id_column : str or None, default=None
        Column whose values identify rows. It is not a feature.
    skip_bad : bool, default=False
        Whether to skip and report rows that cannot be used; otherwise the first one raises an error.
    missing : bool, default=False
        Whether values may be missing. They become NaN.
    follow : bool, default=False
        Whether the source may still grow. A last line without a line break is then left for later.
    seed : int, default=0
        Seed of synthetic sources.
    reader : str or None, default=None
        Name under which a broker remembers what this reader has not yet acknowledged; None to read only what arrives.
    others : bool, default=False
        Whether chunks also have the columns that are not features; see ``Chunk.columns``.
    """

    columns: Sequence[str] | None = None
    id_column: str | None = None
    skip_bad: bool = False
    missing: bool = False
    follow: bool = False
    seed: int = 0
    reader: str | None = None
    others: bool = False

    @property
    def names_columns(self) -> bool:
        """Whether any column is chosen by name, which only some sources support."""
        return bool(self.columns or self.id_column)


class Source(ABC):
    """Rows from somewhere, in chunks.

    A source needs a ``name`` and ``chunks``. Reading from the position of a chunk continues with the row after it.

    Attributes
    ----------
    name : str
        What to call the source in messages. A run is resumed only on a source of the same name.
    path : Path or None
        The file, if the source is a single file.
    skip_bad : bool
        Whether rows that cannot be used are skipped.
    feature_names : list of str or None
        Names of the columns of ``Chunk.rows``, if they have names; known once the first chunk was read.
    id_type : pyarrow.DataType or None
        Type of the ids, if the source declares one.
    column_types : mapping of str to pyarrow.DataType
        Types of the columns that are not features, if the source declares them and ``ReadOptions.others`` asks.
    factor : float
        Factor to multiply rows of bytes by.
    grows : bool
        Whether rows may be added while the source is read.
    seekable : bool
        Whether rows can be read in any order; such a source is a ``SeekableSource``.
    finite : bool
        Whether the source is a file or a folder, which ends and can be read again.
    left_out : list of str
        Names of columns that are not features: they hold no numbers or, after ``expect``, the model does not know them.
        Known once the first chunk was read.
    rereadable : bool
        Whether rows that were read can be read again.
    live : bool
        Whether the source is a pipe: rows come once, and those that are not read are lost.
    polls : bool
        Whether ``chunks`` asks ``interrupted`` while it waits for rows, so that one thread can read and do other work.
    interrupted : callable or None
        Asked by such a source whether to stop reading; None never stops it.
    fingerprint : list or None
        What tells whether a text file was replaced. Set it, and a file that was replaced raises ``ReplacedError``.
    heading : list of str or None
        Names of all columns of a text, in their order; known once its first line was read. Set it before, and a text
        without a heading is read as if it had this one.

    Examples
    --------
    >>> import numpy as np
    >>> from streamgmm.sources import Chunk, Source
    >>> class Countdown(Source):
    ...     name = "countdown"
    ...
    ...     def chunks(self, start=None):
    ...         for row in range(start["row"] if start else 0, 3):
    ...             yield Chunk(np.array([[3.0 - row]]), np.array([row]), {"row": row + 1})
    >>> [chunk.rows.item() for chunk in Countdown().chunks()]
    [3.0, 2.0, 1.0]
    >>> [chunk.rows.item() for chunk in Countdown().chunks({"row": 2})]
    [1.0]
    """

    name: str
    path: Path | None = None
    skip_bad: bool = False
    feature_names: list[str] | None = None
    id_type: Any = None
    column_types: Mapping[str, Any] = MappingProxyType({})
    factor: float = 1.0
    grows: bool = False
    seekable: bool = False
    finite: bool = False
    left_out: Sequence[str] = ()
    rereadable: bool = True
    live: bool = False
    polls: bool = False
    interrupted: Callable[[], bool] | None = None
    heading: list[str] | None = None
    fingerprint: list[Any] | None = None

    @abstractmethod
    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        """Yield chunks.

        Parameters
        ----------
        start : dict or None, default=None
            Position of the chunk to continue after; None to start at the first row.
        """

    def start_of_pass(self, number: int) -> Position | None:
        """Return the position before the first row of a pass.

        Parameters
        ----------
        number : int
            Number of the pass, from 0.
        """
        return None

    def expect(self, names: list[str] | None, width: int) -> None:
        """Called with the features of the model, for sources whose rows may lack some.

        Parameters
        ----------
        names : list of str or None
            Names of the features, if they have names.
        width : int
            Number of features.
        """
        return

    def needs_commit(self, position: Position | None) -> bool:
        """Return whether more rows arrive only after ``commit``.

        Parameters
        ----------
        position : dict or None
            Position of the last chunk that was processed.
        """
        return False

    def commit(self, position: Position | None) -> None:
        """Called when all rows up to a position are safe, for sources that acknowledge rows to a broker.

        Parameters
        ----------
        position : dict or None
            Position of the last chunk that is part of a checkpoint.
        """
        return

    def lag(self, position: Position | None) -> int | None:
        """Return how many rows wait to be read, as far as is known without asking anybody; None if it is not.

        Parameters
        ----------
        position : dict or None
            Position of the last chunk that was processed.
        """
        return None

    def has_arrived(self) -> bool:
        """Return whether a source that polls has more to read already."""
        return False

    def close(self) -> None:
        """Release connections. Reading again opens them again."""
        return

    @property
    def n_rows(self) -> int | None:
        """Number of rows, if it is known before they are read."""
        return None


def rows_per_chunk(n_features: int, itemsize: int = 4) -> int:
    """Return the size of a chunk: about four megabytes, so that reading is fast and an interrupt loses few rows.

    Parameters
    ----------
    n_features : int
        Values per row.
    itemsize : int, default=4
        Bytes per value.
    """
    return max(1, min(10_000, CHUNK_BYTES // max(1, n_features * itemsize)))


def start_row(start: Position | None, source: Source | None = None) -> int:
    """Return the number of the row to continue with.

    Parameters
    ----------
    start : dict or None
        Position to continue from.
    source : Source or None, default=None
        Raise ``SourceError`` if this source has fewer rows than were read.
    """
    check_position(start, {}, "this source" if source is None else source.name)
    row = 0 if start is None else int(start["row"])
    if row and source is not None and source.n_rows is not None and row > source.n_rows:
        raise SourceError(
            f"{source.name} has {source.n_rows} rows, but {row} rows were read from it before: it has changed.",
            Remedy.START_NEW_RUN,
        )
    return row


def check_position(
    start: Position | None, fields: Mapping[str, Check], source: str, others: Mapping[str, Check] | None = None
) -> None:
    """Raise ``SourceError`` if a position was written by another kind of source, or is damaged.

    Parameters
    ----------
    start : dict or None
        Position to continue from, perhaps from a file.
    fields : mapping of str to function
        What every position of this kind of source has beside its row; see `streamgmm.storage.schema`.
    source : str
        Name of the source.
    others : mapping of str to function or None, default=None
        What a position may have, too.

    Examples
    --------
    >>> check_position({"row": 3, "byte": -1}, {"byte": COUNT}, "x.csv")
    Traceback (most recent call last):
        ...
    streamgmm.errors.SourceError: where reading of x.csv stopped is not known: position.byte is -1; expected ...
    """
    if start is None:
        return
    if other := next((name for name in fields if name not in start), None):
        raise SourceError(
            f"the position at row {start.get('row')!s:.20} belongs to another kind of source than {source}: it has no "
            f"{other!r}.",
            Remedy.START_NEW_RUN,
        )
    try:
        record({"row": COUNT, **fields}, others, unknown=anything)(start, "position")
    except ValueError as problem:
        raise SourceError(
            f"where reading of {source} stopped is not known: {problem!s:.200}.", Remedy.START_NEW_RUN
        ) from problem
