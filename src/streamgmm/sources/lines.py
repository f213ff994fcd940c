"""Text with one row per line, from a file or from standard input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from streamgmm.errors import SourceError
from streamgmm.sources.base import Chunk, Position, ReadOptions, Source, check_position, rows_per_chunk
from streamgmm.sources.line_parser import LineError, LineParser
from streamgmm.sources.text import TextFile, TextPipe

LINES_PER_CHUNK = 1000
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineSource(Source):
    """Rows of a text file or of standard input.

    Parameters
    ----------
    text : Path or TextPipe
        A file, or standard input.
    parser : subclass of LineParser
        The format.
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    grows = True

    def __init__(self, text: Path | TextPipe, parser: type[LineParser], options: ReadOptions | None = None) -> None:
        options = options or ReadOptions()
        self.name = text.name if isinstance(text, Path) else "standard input"
        self.skip_bad = options.skip_bad
        self._text, self._follow = text, options.follow
        self._parser = parser(self.name, options)
        self._started = False

    def expect(self, names: list[str] | None, width: int) -> None:
        self._parser.expect(names, width)
        self.feature_names = self._parser.feature_names

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        if isinstance(self._text, TextPipe):
            yield from self._chunks(self._text, start)
        else:
            with closing(TextFile(self._text, follow=self._follow)) as file:
                yield from self._chunks(file, start)

    def _chunks(self, text: TextFile | TextPipe, start: Position | None) -> Iterator[Chunk]:
        waiting = self._first_line(text)
        row = 0 if start is None else int(start["row"])
        if isinstance(text, TextFile) and text.seekable and start is not None:
            check_position(start, "byte", self.name)
            text.seek(int(start["byte"]))
            waiting = []
        else:
            waiting = _skip(text, waiting, row - text.rows)
        while True:
            width = self._parser.width
            size = LINES_PER_CHUNK if width is None else min(LINES_PER_CHUNK, rows_per_chunk(width))
            lines = waiting + text.take(size - len(waiting), wait=not waiting)
            waiting = []
            if not lines:
                return
            first, row = row, row + len(lines)
            text.rows = row
            chunk = self._parser.chunk(lines, first, {"row": row, "byte": text.tell()})
            self.feature_names = self._parser.feature_names
            yield chunk

    def _first_line(self, text: TextFile | TextPipe) -> list[bytes]:
        """Read the first line that is not blank; return it unless it is a heading."""
        if isinstance(text, TextPipe) and self._started:
            return []
        while (lines := text.take(1)) and not lines[0].strip():
            pass
        if not lines:
            return []
        line = lines[0].removeprefix(BYTE_ORDER_MARK)
        try:
            is_heading = self._parser.read_heading(line)
        except LineError as problem:
            raise SourceError(f"the first line of {self.name} {problem.reason}.") from None
        self._started, self.feature_names = True, self._parser.feature_names
        return [] if is_heading else [line]


def _skip(text: TextFile | TextPipe, waiting: list[bytes], count: int) -> list[bytes]:
    """Skip ``count`` lines, waiting ones first; return the waiting lines that are left."""
    left = count - len(waiting)
    while left > 0 and (lines := text.take(min(left, LINES_PER_CHUNK))):
        left -= len(lines)
    return waiting[max(0, count) :]
