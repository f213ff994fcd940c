"""Text with one row per line, from a file or from standard input."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

import numpy as np

from streamgmm.errors import DataWarning, SourceError
from streamgmm.sources.base import Chunk, Position, ReadOptions, check_position, rows_per_chunk, start_row
from streamgmm.sources.line_blocks import find_blocks
from streamgmm.sources.line_parser import LineError, LineParser
from streamgmm.sources.remote import File
from streamgmm.sources.seekable import Blocks, Range, SeekableSource
from streamgmm.sources.text import TextFile, TextPipe
from streamgmm.storage.schema import COUNT

LINES_PER_CHUNK = 1000
LARGE_BYTES = 1 << 23  # of a file that takes longer to parse than pyarrow takes to load
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class LineSource(SeekableSource):
    """Rows of a text file or of standard input.

    Parameters
    ----------
    text : File or TextPipe
        A file, or standard input.
    parser : subclass of LineParser
        The format.
    options : ReadOptions, default=ReadOptions()
        How to read it.
    """

    grows = True

    def __init__(self, text: File | TextPipe, parser: type[LineParser], options: ReadOptions | None = None) -> None:
        options = options or ReadOptions()
        self.name = "standard input" if isinstance(text, TextPipe) else text.name
        self.skip_bad = options.skip_bad
        self._text, self._follow = text, options.follow
        self._parser = parser(self.name, options)
        self._started, self.live = False, isinstance(text, TextPipe)
        self.polls = isinstance(text, TextPipe) and text.polls
        self.finite = not isinstance(text, TextPipe) and not options.follow
        if self.finite and isinstance(text, Path) and text.stat().st_size >= LARGE_BYTES:
            self._parser.expect_many_lines()
        self.seekable = self.finite and not isinstance(text, TextPipe) and text.suffix.lower() != ".gz"

    def expect(self, names: list[str] | None, width: int) -> None:
        self._parser.expect(names, width)
        self._take_names()

    def _take_names(self) -> None:
        self.feature_names, self.left_out = self._parser.feature_names, self._parser.left_out
        self.heading = self._parser.heading or self.heading

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        if isinstance(self._text, TextPipe):
            self._text.interrupted = self._is_interrupted
            yield from self._chunks(self._text, start)
        else:
            with closing(self._open()) as file:
                yield from self._chunks(file, start)

    def _chunks(self, text: TextFile | TextPipe, start: Position | None) -> Iterator[Chunk]:
        waiting = self._first_line(text)
        row = start_row(start)
        if isinstance(text, TextFile) and text.seekable and start is not None:
            check_position(start, {"byte": COUNT}, self.name)
            text.seek(int(start["byte"]))
            waiting = []
        else:
            waiting, left = _skip(text, waiting, row - text.rows)
            if left and isinstance(text, TextPipe):
                message = (
                    f"{self.name} has only {row - left:,} of the {row:,} rows that were read before: nothing is new."
                )
                warnings.warn(DataWarning(message), stacklevel=2)
        yield from self._parsed(text, waiting, row)

    def _parsed(
        self, text: TextFile | TextPipe, waiting: list[bytes], row: int, stop: int | None = None
    ) -> Iterator[Chunk]:
        """Parse lines from here on; row ``stop`` is the first that is not wanted any more."""
        while stop is None or row < stop:
            width = self._parser.width
            size = LINES_PER_CHUNK if width is None else min(LINES_PER_CHUNK, rows_per_chunk(width))
            size = size if stop is None else min(size, stop - row)
            lines = waiting + text.take(size - len(waiting), wait=not waiting)
            waiting = []
            if not lines:
                self.grows = isinstance(text, TextFile)  # a pipe ends only once
                return
            first, row = row, row + len(lines)
            text.rows = row
            chunk = self._parser.chunk(lines, first, {"row": row, "byte": text.tell()})
            self._take_names()
            yield chunk

    def _is_interrupted(self) -> bool:
        return self.interrupted is not None and self.interrupted()  # which may change while chunks are read

    def has_arrived(self) -> bool:
        return isinstance(self._text, TextPipe) and self._text.has_arrived()

    def row_bytes(self) -> int:
        with closing(self._open()) as file:  # features are those of the first rows, whatever is read next
            width = next((chunk.rows.shape[1] for chunk in self._chunks(file, None) if len(chunk.rows)), 1)
        return width * np.dtype(np.float64).itemsize

    def blocks(self) -> Blocks:
        with closing(self._open()) as file:
            waiting = self._first_line(file)
            return find_blocks(file, len(waiting))

    def read_ranges(self, ranges: Sequence[Range]) -> Iterator[Chunk]:
        with closing(self._open()) as file:
            waiting = self._first_line(file)
            for start, stop in ranges:
                if start["row"]:
                    file.seek(start["byte"])
                    waiting = []
                yield from self._parsed(file, waiting, start["row"], stop)

    def verify(self, end: Position) -> None:
        check_position(end, {"byte": COUNT}, self.name)
        with closing(self._open()) as file:
            file.seek(end["byte"])

    def _open(self) -> TextFile:
        assert not isinstance(self._text, TextPipe)
        return TextFile(self._text, follow=self._follow, known=self.fingerprint)

    def _first_line(self, text: TextFile | TextPipe) -> list[bytes]:
        """Read the first line that is not blank; return it unless it is a heading."""
        if isinstance(text, TextPipe) and self._started:
            return []
        while (lines := text.take(1)) and not lines[0].strip():
            pass
        if not lines:
            return []
        line = lines[0].removeprefix(BYTE_ORDER_MARK)
        self._parser.heading = self.heading
        try:
            is_heading = self._parser.read_heading(line)
        except LineError as problem:
            raise SourceError(f"the first line of {self.name} {problem.reason}.", *problem.remedies) from None
        self._started = True
        self._take_names()
        return [] if is_heading else [line]


def _skip(text: TextFile | TextPipe, waiting: list[bytes], count: int) -> tuple[list[bytes], int]:
    """Skip ``count`` lines, waiting ones first; return the waiting lines that are left, and how many are missing."""
    left = count - len(waiting)
    while left > 0 and (lines := text.take(min(left, LINES_PER_CHUNK))):
        left -= len(lines)
    return waiting[max(0, count) :], max(0, left)
