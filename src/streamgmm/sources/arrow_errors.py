"""Damaged Parquet and Arrow files: pyarrow fails on them in many ways, or reads beyond its buffers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from streamgmm.errors import Remedy, SourceError


@contextmanager
def damaged_files(name: str) -> Iterator[None]:
    """Turn what pyarrow raises for a damaged file into ``SourceError``.

    Parameters
    ----------
    name : str
        Name of the file.
    """
    import pyarrow as pa

    try:
        yield
    except SourceError:
        raise
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError, MemoryError) as problem:
        reason = str(problem).strip() or type(problem).__name__
        raise SourceError(f"{name} is damaged ({reason:.100}).", Remedy.RESTORE_FILE) from problem


def valid_batches(name: str, batches: Iterable[Any]) -> Iterator[Any]:
    """Yield record batches whose contents were checked: using others may crash.

    Parameters
    ----------
    name : str
        Name of the file.
    batches : iterable of RecordBatch
        What was read.
    """
    source = iter(batches)
    while True:
        with damaged_files(name):
            batch = next(source, None)
            if batch is not None:
                batch.validate(full=True)
        if batch is None:
            return
        yield batch
