"""Glyphs: an endless, seeded stream of small images of letters, for the demo and for tests.

Letters are drawn once with Pillow, in the fonts that matplotlib ships, at several sizes and angles; the stream then
shifts, dims and perturbs them. Every image is a function of the seed and its number, so any range can be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from streamgmm.errors import MissingExtraError, SourceError
from streamgmm.sources.base import Chunk, Position, Source, rows_per_chunk, start_row

SIDE = 28
LETTERS = "ABCDEFGHIJ"
_MARGIN = 2  # pixels by which a letter may be shifted in each direction
_VARIANTS = 8  # drawings of a letter per font, each with its own size and angle
_BLOCK = 1024  # images that share one random generator
_NOISE = 0.06
_FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmb10", "cmr10", "cmss10", "cmti10", "cmtt10"),
)


class Glyphs:
    """An endless stream of images of letters: 784 values of float32 each, within [0, 1].

    Parameters
    ----------
    phases : str, default="A-J"
        Which letters appear when: "A-E,F-J" shows A to E for ``phase_length`` images, then F to J forever.
    phase_length : int, default=20_000
        Images per phase.
    seed : int, default=0
        Seed of the stream.

    Examples
    --------
    >>> Glyphs("A-C,J", phase_length=500).letters_at(499), Glyphs("A-C,J", phase_length=500).letters_at(500)
    ('ABC', 'J')
    """

    def __init__(self, phases: str = "A-J", *, phase_length: int = 20_000, seed: int = 0) -> None:
        if phase_length < 1:
            raise ValueError(f"phase_length is {phase_length}; expected at least 1.")
        self.phases = [_letters(part) for part in phases.split(",")]
        self.phase_length = phase_length
        self.seed = seed
        self._block_number = -1
        self._block: tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]] | None = None

    def letters_at(self, position: int) -> str:
        """Return the letters that may appear.

        Parameters
        ----------
        position : int
            Number of an image.
        """
        return self.phases[min(position // self.phase_length, len(self.phases) - 1)]

    def take(self, start: int, count: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        """Return images, of shape (count, 784), and their letters, as indices into ``LETTERS``.

        Parameters
        ----------
        start : int
            Number of the first image.
        count : int
            How many images.
        """
        images = np.empty((count, SIDE * SIDE), np.float32)
        letters = np.empty(count, np.int64)
        done = 0
        while done < count:
            number, skip = divmod(start + done, _BLOCK)
            block_images, block_letters = self._make(number)
            stop = min(count, done + _BLOCK - skip)
            images[done:stop] = block_images[skip : skip + stop - done]
            letters[done:stop] = block_letters[skip : skip + stop - done]
            done = stop
        return images, letters

    def chunks(self, size: int = 1000, start: int = 0) -> Iterator[npt.NDArray[np.float32]]:
        """Yield images without end.

        Parameters
        ----------
        size : int, default=1000
            Images per chunk.
        start : int, default=0
            Number of the first image.
        """
        while True:
            yield self.take(start, size)[0]
            start += size

    def _make(self, number: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        if number == self._block_number and self._block is not None:
            return self._block
        rng = np.random.default_rng([self.seed, number])
        first = number * _BLOCK
        allowed = [self.letters_at(first + i) for i in range(_BLOCK)]
        draw = rng.random(_BLOCK)
        letters = np.array([LETTERS.index(a[int(u * len(a))]) for a, u in zip(allowed, draw, strict=True)])
        bank = _bank()
        font, variant = rng.integers(len(_FONTS), size=_BLOCK), rng.integers(_VARIANTS, size=_BLOCK)
        down, right = rng.integers(2 * _MARGIN + 1, size=(2, _BLOCK))
        windows = np.lib.stride_tricks.sliding_window_view(bank, (SIDE, SIDE), axis=(3, 4))
        images = windows[letters, font, variant, down, right].reshape(_BLOCK, -1)
        images *= rng.uniform(0.7, 1.0, (_BLOCK, 1)).astype(np.float32)
        images += _NOISE * rng.standard_normal(images.shape, dtype=np.float32)
        np.clip(images, 0, 1, out=images)
        self._block_number, self._block = number, (images, letters)
        return self._block


class GlyphSource(Source):
    """Glyphs as a source.

    Parameters
    ----------
    phases : str, default="A-J"
        Which letters appear when; see ``Glyphs``.
    seed : int, default=0
        Seed of the stream.
    """

    grows = True

    def __init__(self, phases: str = "A-J", seed: int = 0) -> None:
        self.name, self._glyphs, self._size = f"glyphs:{phases}", Glyphs(phases, seed=seed), rows_per_chunk(SIDE * SIDE)

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        row = start_row(start)
        while True:
            first, row = row, row + self._size
            yield Chunk(self._glyphs.take(first, self._size)[0], np.arange(first, row), {"row": row})


class FiniteGlyphs(Source):
    """The first glyphs of a stream, then the end.

    Parameters
    ----------
    count : int
        Number of images.
    seed : int, default=0
        Seed of the stream.
    name : str, default="glyphs"
        What to call the source.
    """

    def __init__(self, count: int, seed: int = 0, name: str = "glyphs") -> None:
        self.name, self._count, self._endless = name, count, GlyphSource(seed=seed)

    @property
    def n_rows(self) -> int:
        return self._count

    def chunks(self, start: Position | None = None) -> Iterator[Chunk]:
        if start_row(start) >= self._count:
            return
        for chunk in self._endless.chunks(start):
            if chunk.position["row"] >= self._count:
                left = len(chunk.rows) - (chunk.position["row"] - self._count)
                yield Chunk(chunk.rows[:left], chunk.numbers[:left], {"row": self._count})
                return
            yield chunk


def _letters(part: str) -> str:
    first, _, last = part.strip().upper().partition("-")
    ends = LETTERS.find(first), LETTERS.find(last or first)
    if len(first) != 1 or -1 in ends or ends[0] > ends[1]:
        raise SourceError(f"{part!r} is not a range of letters; expected something like A-E or J, within A-J.")
    return LETTERS[ends[0] : ends[1] + 1]


@cache
def _bank() -> npt.NDArray[np.float32]:
    """Draw all letters, with a margin to shift in: (letters, fonts, variants, side, side). Always the same."""
    try:
        import matplotlib
        from PIL import Image, ImageDraw, ImageFont
    except ImportError as problem:
        raise MissingExtraError("Glyphs require matplotlib's fonts and Pillow", "plots") from problem
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    side = SIDE + 2 * _MARGIN
    bank = np.empty((len(LETTERS), len(_FONTS), _VARIANTS, side, side), np.float32)
    rng = np.random.default_rng(0)
    for f, name in enumerate(_FONTS):
        path = folder / f"{name}.ttf"
        if not path.exists():  # matplotlib before 3.11 has no cmti10
            path = folder / "cmmi10.ttf"
        for v in range(_VARIANTS):
            font = ImageFont.truetype(path, int(rng.integers(21, 27)))
            angle = float(rng.uniform(-10, 10))
            for k, letter in enumerate(LETTERS):
                image = Image.new("L", (side, side))
                ImageDraw.Draw(image).text((side / 2, side / 2), letter, fill=255, font=font, anchor="mm")
                bank[k, f, v] = np.asarray(image.rotate(angle, Image.Resampling.BILINEAR), np.float32) / 255
    return bank
