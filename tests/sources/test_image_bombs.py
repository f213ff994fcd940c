"""Images that declare more pixels than their files can hold, and files that are no images."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from pathlib import Path

import pytest
from PIL import Image

from streamgmm.sources import SourceError, open_source

FORMS = ("png", "gif", "bmp", "jpeg", "webp")
WIDTH, HEIGHT = 3000, 2000


@pytest.mark.parametrize("form", FORMS)
def test_pages_of_one_colour_are_read(tmp_path: Path, form: str) -> None:
    lossless = {"lossless": True} if form == "webp" else {}
    Image.new("1", (WIDTH, HEIGHT), 1).save(tmp_path / "page.png", form, **lossless)
    assert [chunk.rows.mean() for chunk in open_source(str(tmp_path)).chunks()] == [255]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("packed", [False, True])
def test_images_that_do_not_fit_into_their_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, packed: bool
) -> None:
    (tmp_path / "x").mkdir()
    Image.new("L", (5, 4)).save(tmp_path / "x" / "a.png")
    Image.new("L", (5, 4)).save(small := io.BytesIO(), form)
    (tmp_path / "x" / "b.png").write_bytes(_declaring(small.getvalue(), form, WIDTH, HEIGHT))
    if packed:
        with zipfile.ZipFile(tmp_path / "x.zip", "w") as archive:
            for name in ("a.png", "b.png"):
                archive.write(tmp_path / "x" / name, name)
    place = str(tmp_path / ("x.zip" if packed else "x"))
    with pytest.raises(SourceError, match=r"b\.png of \S+ declares 3000 x 2000 pixels .* set STREAMGMM_MOST_BYTES to"):
        list(open_source(place).chunks())
    [chunk] = open_source(place, skip_bad=True).chunks()
    assert (chunk.ids, [bad.row for bad in chunk.bad]) == (("a.png",), [1])
    monkeypatch.setenv("STREAMGMM_MOST_BYTES", str(3 * WIDTH * HEIGHT))
    with pytest.raises(SourceError, match=r"b\.png of \S+ (cannot be read|has shape)"):
        list(open_source(place).chunks())


def _declaring(content: bytes, form: str, width: int, height: int) -> bytes:
    """Return a small image with another size in its header."""
    if form == "png":
        header = struct.pack(">4sII", b"IHDR", width, height) + content[24:29]
        return content[:12] + header + struct.pack(">I", zlib.crc32(header)) + content[33:]
    if form == "jpeg":
        place, size = content.index(b"\xff\xc0") + 5, struct.pack(">HH", height, width)
    else:
        place, layout = {"gif": (6, "<HH"), "bmp": (18, "<ii"), "webp": (26, "<HH")}[form]
        size = struct.pack(layout, width, height)
    return content[:place] + size + content[place + len(size) :]


def test_formats_other_than_those_of_the_names_are_not_opened(tmp_path: Path) -> None:
    """Pillow would run Ghostscript on PostScript, whatever the file is called."""
    for form in ("eps", "tiff"):
        Image.new("L", (5, 4)).save(tmp_path / "a.png", form)
        with pytest.raises(SourceError, match=r"a\.png of \S+ cannot be read"):
            open_source(str(tmp_path))
