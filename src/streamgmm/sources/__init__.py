"""Sources of rows, opened by name.

>>> for chunk in open_source("glyphs:A-E").chunks():
...     print(chunk.rows.shape, chunk.position)
...     break
(1337, 784) {'row': 1337}
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from streamgmm.errors import Remedy, SourceError
from streamgmm.sources.base import BadRow, Chunk, Position, ReadOptions, Source
from streamgmm.sources.fingerprints import FINGERPRINT_BYTES, ReplacedError, fingerprint, has_fingerprint
from streamgmm.sources.reader_thread import read_ahead, read_source
from streamgmm.sources.remote import File, is_url
from streamgmm.sources.seekable import SeekableSource
from streamgmm.sources.selection import drop_rows, drop_unfit, select_columns
from streamgmm.sources.shuffled import BUFFER_BYTES, ShuffledSource
from streamgmm.transports.broker_urls import without_secrets

__all__ = [
    "BUFFER_BYTES",
    "FINGERPRINT_BYTES",
    "BadRow",
    "Chunk",
    "Position",
    "ReadOptions",
    "ReplacedError",
    "SeekableSource",
    "ShuffledSource",
    "Source",
    "SourceError",
    "drop_rows",
    "drop_unfit",
    "fingerprint",
    "has_fingerprint",
    "open_source",
    "open_with",
    "read_ahead",
    "read_source",
    "select_columns",
    "without_secrets",
]

_FILES = "a .csv, .tsv, .ndjson, .parquet, .arrow, .npy or .npz file (text also .gz), a folder of such files or images"
_BROKERS = "kafka://host:port/topic, redis://host:port/stream, mqtt://host:port/topic/#"
_KINDS = f"{_FILES}, '-', {_BROKERS}, glyphs:A-J, or drift:sudden:5000:FIRST|SECOND"


def open_source(
    text: str,
    *,
    columns: Sequence[str] | None = None,
    id_column: str | None = None,
    skip_bad: bool = False,
    missing: bool = False,
    follow: bool = False,
    seed: int = 0,
    reader: str | None = None,
) -> Source:
    """Open a source by name.

    Parameters
    ----------
    text : str
        A file or a folder of files, here or at a URL such as ``s3://bucket/folder``, a folder or zip file of images,
        ``-`` for standard input, ``kafka://host:port/topic``,
        ``redis://host:port/stream``, ``mqtt://host:port/topic/filter``, ``glyphs:A-E,F-J``, or
        ``drift:KIND:ROWS:FIRST|SECOND``.
    columns : sequence of str or None, default=None
        Names of the features, or their numbers from 0, in the order in which the model learns them; None for all.
    id_column : str or None, default=None
        Column whose values identify rows. It is not a feature.
    skip_bad : bool, default=False
        Whether to skip and report rows that cannot be used; otherwise the first one raises ``SourceError``.
    missing : bool, default=False
        Whether values may be missing. They become NaN.
    follow : bool, default=False
        Whether the source may still grow. A last line without a line break is then left for later.
    seed : int, default=0
        Seed of synthetic sources.
    reader : str or None, default=None
        Name under which a broker remembers what this reader has not yet acknowledged; None to read only what arrives.
    """
    return open_with(text, ReadOptions(columns, id_column, skip_bad, missing, follow, seed, reader))


def open_with(text: str, options: ReadOptions) -> Source:
    """Open a source by name, with all options there are.

    Parameters
    ----------
    text : str
        The source, as in `open_source`.
    options : ReadOptions
        How to read it.
    """
    if options.id_column is not None and options.id_column in (options.columns or ()):
        raise SourceError(f"column {options.id_column!r} is both a feature and the id; expected one or the other.")
    source = _open(text, options)
    source.skip_bad = options.skip_bad
    if source.name == Path(text).name and Path(text).is_file():
        source.path = Path(text)
    return source


def _open(text: str, options: ReadOptions) -> Source:
    if text == "-":
        return _open_standard_input(options)
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "glyphs":
        from streamgmm.sources.synthetic.glyphs import GlyphSource

        _refuse_columns("glyphs", options)
        return GlyphSource(rest or "A-J", options.seed)
    if colon and scheme == "kafka":
        from streamgmm.sources.kafka import KafkaSource

        return KafkaSource(text, options)
    if colon and scheme in ("redis", "rediss"):
        from streamgmm.sources.redis_streams import RedisSource

        return RedisSource(text, options)
    if colon and scheme in ("mqtt", "mqtts"):
        from streamgmm.sources.mqtt import MqttSource

        return MqttSource(text, options)
    if colon and scheme == "drift":
        return _open_drift(text, options)
    if is_url(text):
        return _open_url(text, options)
    if not Path(text).exists():
        raise FileNotFoundError(f"{without_secrets(text)} does not exist; expected {_KINDS}.")
    return _open_path(text, options)


def _open_standard_input(options: ReadOptions) -> Source:
    from streamgmm.sources.csv_lines import CsvParser
    from streamgmm.sources.json_lines import JsonParser
    from streamgmm.sources.lines import LineSource
    from streamgmm.sources.text import TextPipe

    pipe = TextPipe(follow=options.follow)
    is_json = pipe.peek().lstrip()[:1] in (b"[", b"{")
    return LineSource(pipe, JsonParser if is_json else CsvParser, options)


def _open_url(text: str, options: ReadOptions) -> Source:
    from streamgmm.sources.files import TABLES, FilesSource
    from streamgmm.sources.remote import list_files

    files = list_files(text, TABLES)
    if len(files) > 1:
        return FilesSource(without_secrets(text), files, lambda file: _open_file(file, options))
    source = _open_file(files[0], options)
    source.name = without_secrets(text)
    return source


def _open_path(text: str, options: ReadOptions) -> Source:
    from streamgmm.sources import images
    from streamgmm.sources.files import TABLES, FilesSource

    path = Path(text)
    if path.is_dir():
        files = sorted(p for p in path.rglob("*") if p.suffix.lower() in TABLES and p.is_file())
        if files:
            return FilesSource(path.name, files, lambda file: _open_file(file, options))
        if not options.follow and not any(p.suffix.lower() in images.SUFFIXES for p in path.rglob("*")):
            expected = ", ".join((*TABLES, *images.SUFFIXES))
            raise SourceError(f"{text} contains no tables or images; expected files ending in {expected}.")
    if path.is_dir() or path.suffix.lower() == ".zip":
        _refuse_columns(text, options)
        return images.ImageSource(path, options)
    return _open_file(path, options)


def _open_file(path: File, options: ReadOptions) -> Source:
    from streamgmm.sources import arrow_files, numpy_files
    from streamgmm.sources.csv_lines import CsvParser
    from streamgmm.sources.json_lines import JsonParser
    from streamgmm.sources.lines import LineSource

    suffix = (Path(path.stem).suffix if path.suffix.lower() == ".gz" else path.suffix).lower()
    if suffix in (".npy", ".npz"):
        _refuse_columns(path.name, options)
    if suffix in (".csv", ".tsv"):
        return LineSource(path, CsvParser, options)
    if suffix in (".ndjson", ".jsonl"):
        return LineSource(path, JsonParser, options)
    if suffix == ".parquet":
        return arrow_files.ParquetSource(path, options)
    if suffix in (".arrow", ".feather"):
        return arrow_files.ArrowSource(path, options)
    if suffix == ".npy":
        return numpy_files.open_npy(path)
    if suffix == ".npz":
        return numpy_files.open_npz(path)
    raise SourceError(f"{path.name} has an unknown format; expected {_KINDS}.")


def _open_drift(text: str, options: ReadOptions) -> Source:
    from streamgmm.sources.synthetic.drift import DriftSource

    _, kind, every, names = [*text.split(":", 3), "", "", ""][:4]
    if not every.isdecimal():
        raise SourceError(f"{text} does not say after how many rows; expected drift:sudden:5000:FIRST|SECOND.")
    parts = [
        _open(name, replace(options, follow=False, reader=None, seed=options.seed + i))
        for i, name in enumerate(names.split("|"))
    ]
    return DriftSource(kind, parts, int(every), options.seed)


def _refuse_columns(name: str, options: ReadOptions) -> None:
    if options.names_columns:
        raise SourceError(f"the columns of {name} have no names.", Remedy.DROP_COLUMNS)
