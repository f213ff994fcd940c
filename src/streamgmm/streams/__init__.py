"""Sources of samples, opened by one string.

>>> for chunk in open_source("glyphs:A-E").chunks():
...     print(chunk.rows.shape, chunk.position)
...     break
(1337, 784) {'row': 1337}
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from streamgmm.streams.base import Bad, Chunk, Position, Source, SourceError, first_row, rows_per_chunk

__all__ = ["Bad", "Chunk", "Position", "Source", "SourceError", "open_source"]

FILES = "a .npy, .npz, .csv, .ndjson, .parquet or .arrow file (text also .gz), a folder or .zip of images"
KINDS = f"{FILES}, '-', kafka://host:port/topic, glyphs:A-J, or drift:sudden:5000:FIRST|SECOND"


class _GlyphSource(Source):
    grows = True

    def __init__(self, phases: str, seed: int) -> None:
        from streamgmm.streams.glyphs import SIDE, Glyphs

        self.name, self._glyphs, self._size = f"glyphs:{phases}", Glyphs(phases, seed=seed), rows_per_chunk(SIDE * SIDE)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        at = first_row(start)
        while True:
            stop = at + self._size
            yield Chunk(self._glyphs.take(at, self._size)[0], np.arange(at, stop), {"row": stop})
            at = stop


def open_source(
    text: str,
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    skip_bad: bool = False,
    missing: bool = False,
    follow: bool = False,
    seed: int = 0,
) -> Source:
    """The source that ``text`` names: a file, a folder, ``-`` for standard input, ``kafka://…``, ``glyphs:A-E,F-J``, or
    ``drift:KIND:ROWS:FIRST|SECOND``.

    ``missing`` lets text leave out numbers: they become NaN. ``follow`` is for files that grow while they are read.
    """
    settings: dict[str, Any] = {"columns": columns, "id_column": id_column, "skip_bad": skip_bad, "missing": missing}
    source = _open(text, settings, follow, seed)
    source.skip_bad = skip_bad
    if source.name == Path(text).name and Path(text).is_file():
        source.path = Path(text)
    return source


def _open(text: str, settings: dict[str, Any], follow: bool, seed: int) -> Source:
    from streamgmm.streams import arrays, images, lines
    from streamgmm.streams.columns import Columns
    from streamgmm.streams.text import PipeText

    kinds: dict[str, type[lines.Csv] | type[lines.Ndjson]] = {
        ".csv": lines.Csv,
        ".ndjson": lines.Ndjson,
        ".jsonl": lines.Ndjson,
    }
    columns, id_column, skip_bad = settings["columns"], settings["id_column"], settings["skip_bad"]
    if id_column is not None and id_column in (columns or ()):
        raise SourceError(f"{id_column!r} cannot be both a feature (--columns) and the id of a row (--id).")
    if text == "-":
        pipe = PipeText(follow=follow)
        json_like = pipe.peek().lstrip()[:1] in (b"[", b"{")
        return (lines.Ndjson if json_like else lines.Csv)(pipe, follow=follow, **settings)
    kind, colon, rest = text.partition(":")
    if colon and kind == "glyphs":
        if columns or id_column:
            raise SourceError("glyphs have no names of columns; leave --columns and --id away.")
        return _GlyphSource(rest or "A-J", seed)
    if colon and kind == "kafka":
        from streamgmm.streams.kafka import Kafka

        return Kafka(text, **settings)
    if colon and kind == "drift":
        return _drifting(rest, settings, seed)
    path = Path(text)
    if not path.exists():
        raise FileNotFoundError(f"{text} does not exist; expected {KINDS}.")
    ending = (Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix).lower()
    if (columns or id_column) and (path.is_dir() or ending in (".zip", ".npy", ".npz")):
        raise SourceError(f"{text} has no names of columns; leave --columns and --id away.")
    if path.is_dir() or ending == ".zip":
        return images.Images(path, skip_bad=skip_bad, follow=follow)
    if ending in kinds:
        return kinds[ending](path, follow=follow, **settings)
    if ending in (".parquet", ".arrow", ".feather"):
        return Columns(path, columns=columns, id_column=id_column, missing=settings["missing"])
    if ending == ".npy":
        return arrays.open_npy(path)
    if ending == ".npz":
        return arrays.open_npz(path)
    raise SourceError(f"{text} is of a kind that is unknown; expected {KINDS}.")


def _drifting(text: str, settings: dict[str, Any], seed: int) -> Source:
    from streamgmm.streams.drifting import Drifting

    kind, _, rest = text.partition(":")
    every, _, names = rest.partition(":")
    if not every.isdigit():
        raise SourceError(f"drift:{text} does not say after how many rows; expected drift:sudden:5000:FIRST|SECOND.")
    parts = [open_source(name, **settings, seed=seed + i) for i, name in enumerate(names.split("|"))]
    return Drifting(kind, parts, int(every), seed)
