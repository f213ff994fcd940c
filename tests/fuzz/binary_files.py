"""Tables, arrays and images, as sources read them."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from functools import cache
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from tests.fuzz.formats import Format, cut_bytes, flip_bytes
from tests.fuzz.text_files import CANVAS, read_all


@cache
def _tables() -> list[pa.Table]:
    rng = np.random.default_rng(0)
    names = pa.array(rng.choice(["a", "b"], 40)).dictionary_encode()
    vectors = pa.array(rng.normal(size=(40, 3)).tolist(), pa.list_(pa.float32()))
    return [
        pa.table({"a": rng.normal(size=40), "b": rng.integers(0, 9, 40), "name": names}),
        pa.table({"v": vectors}),
    ]


@cache
def parquet_examples() -> list[bytes]:
    """Return tables of numbers, dictionaries and vectors in several groups of rows."""
    found = []
    for table in _tables():
        for compression in ("snappy", "none"):
            pq.write_table(table, buffer := io.BytesIO(), row_group_size=15, compression=compression)
            found.append(buffer.getvalue())
    return found


@cache
def arrow_examples() -> list[bytes]:
    """Return the same tables as Arrow files."""
    found = []
    for table in _tables():
        with pa.ipc.new_file(buffer := io.BytesIO(), table.schema) as writer:
            writer.write_table(table, 15)
        found.append(buffer.getvalue())
    return found


@cache
def array_examples() -> list[bytes]:
    """Return NumPy arrays of several types."""
    found = []
    for dtype in ("f8", "f4", "u1", ">i4"):
        np.save(buffer := io.BytesIO(), np.arange(60).reshape(20, 3).astype(dtype))
        found.append(buffer.getvalue())
    return found


@cache
def npz_examples() -> list[bytes]:
    """Return the same arrays in files of several, plain and compressed."""
    found = []
    for write in (np.savez, np.savez_compressed):
        write(buffer := io.BytesIO(), x=np.arange(60.0).reshape(20, 3), y=np.arange(20))
        found.append(buffer.getvalue())
    return found


def change_npy_header(rng: Random, content: bytes) -> bytes:
    """Announce another shape or type."""
    other = rng.choice(
        (b"(20, 3)", b"(-1, 3)", b"(2, 30)", b"(20, 3, 99999999999)", b"(99999999999, 3)", b"()", b"(20,)")
    )
    content = content.replace(b"(20, 3)", other, 1)
    return (
        content.replace(b"<f8", rng.choice((b"|O8", b"<c8", b"<U2", b"|V8", b"<f2")), 1)
        if rng.random() < 0.3
        else content
    )


@cache
def image_examples() -> list[bytes]:
    """Return images of several formats: grey, in colour, with a palette, and with 1 and 16 bits per pixel."""
    rng = np.random.default_rng(0)
    images = [Image.fromarray(rng.integers(0, 256, shape, np.uint8)) for shape in ((6, 5), (6, 5, 3))]
    cases = [(image, form) for image in images for form in ("png", "jpeg", "bmp", "gif")]
    cases += [(images[1].quantize(2), "png"), (images[0].convert("1"), "png"), (images[1], "webp")]
    cases.append((Image.fromarray(rng.integers(0, 65536, (6, 5), np.uint16)), "png"))
    found = []
    for image, form in cases:
        image.save(buffer := io.BytesIO(), form)
        found.append(buffer.getvalue())
    return found


def try_image(path: Path) -> None:
    """Read a folder with this image between two others."""
    folder = path.parent / "images"
    folder.mkdir(exist_ok=True)
    for name, content in (("0", image_examples()[0]), ("1", path.read_bytes()), ("2", image_examples()[0])):
        (folder / f"{name}.png").write_bytes(content)
    read_all(folder)


@cache
def zip_examples() -> list[bytes]:
    """Return zip files of images."""
    images, names = image_examples(), ("0.png", "1.jpg", "2.bmp", "3.gif")
    cases = ((images[:4], zipfile.ZIP_STORED), (images[4:8], zipfile.ZIP_DEFLATED))
    return [_packed(list(zip(names, some, strict=True)), compression) for some, compression in cases]


def _packed(members: list[tuple[str, bytes]], compression: int) -> bytes:
    with zipfile.ZipFile(buffer := io.BytesIO(), "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return buffer.getvalue()


def change_image_size(rng: Random, content: bytes) -> bytes:
    """Announce another size in the header of an image."""
    width, height = (rng.choice((0, 1, 5, 6, 900, 9_000, 65_000, 2**24, 2**31 - 1)) for _ in range(2))
    if (at := content.find(b"IHDR")) > 0:
        header = struct.pack(">4sII", b"IHDR", width, height) + content[at + 12 : at + 17]
        return content[:at] + header + struct.pack(">I", zlib.crc32(header)) + content[at + 21 :]
    width, height = min(width, 65_535), min(height, 65_535)
    if (at := content.find(b"\xff\xc0")) > 0:  # of a JPEG
        return content[: at + 5] + struct.pack(">HH", height, width) + content[at + 9 :]
    if content[:3] == b"GIF":
        at = content.find(b",\0\0\0\0") if rng.random() < 0.5 else 1  # of the first frame, or of the whole
        return content[: at + 5] + struct.pack("<HH", width, height) + content[at + 9 :]
    if content[:2] == b"BM":
        return content[:18] + struct.pack("<ii", width, height) + content[26:]
    return content


def change_member(rng: Random, content: bytes) -> bytes:
    """Change an image within a zip file that is otherwise whole."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = {name: archive.read(name) for name in archive.namelist()}
        name = rng.choice(sorted(members))
    except Exception:
        return flip_bytes(rng, content)
    members[name] = rng.choice((flip_bytes, cut_bytes, change_image_size))(rng, members[name])
    return _packed(list(members.items()), rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))


BINARIES = (
    Format("parquet", ".parquet", parquet_examples, (flip_bytes, flip_bytes, cut_bytes), read_all),
    Format("arrow", ".arrow", arrow_examples, (flip_bytes, flip_bytes, cut_bytes), read_all),
    Format("npy", ".npy", array_examples, (flip_bytes, cut_bytes, change_npy_header), read_all),
    Format("npz", ".npz", npz_examples, (flip_bytes, cut_bytes, change_npy_header), read_all),
    Format("image", ".png", image_examples, (flip_bytes, cut_bytes, change_image_size), try_image, CANVAS),
    Format("images", ".zip", zip_examples, (flip_bytes, cut_bytes, *2 * (change_member,)), read_all, CANVAS),
)
