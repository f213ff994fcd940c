"""A run that prints, as JSON, the highest value of its memory in each quarter: KIND FOLDER ROWS SHUFFLE [KEPT].

``KEPT`` is a number of bytes to keep for every chunk, to see that the measure finds it.
"""

from __future__ import annotations

import io
import json
import os
import sys
import zipfile
from pathlib import Path

import numpy as np

from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import open_source, shuffled
from tests.sources.brokers import Brokers

WIDTH = 9


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Made:
    """A source of about so many rows; what must live while it is read."""

    def __init__(self, kind: str, folder: Path, rows: int) -> None:
        x = np.random.default_rng(0).random((1000, WIDTH)).round(3).astype(np.float32)
        path, times = folder / f"x.{kind}", rows // 1000
        self.name, self.passes = str(path), 1
        if kind == "npy":
            np.save(path, np.tile(x, (times, 1)))
        elif kind == "npz":
            np.savez(path, x=x)
            self.passes = times
        elif kind in ("csv", "stdin"):
            path.write_text("".join(",".join(map(str, row)) + "\n" for row in x.tolist()) * times)
            if kind == "stdin":
                sys.stdin = path.open()
                self.name = "-"
        elif kind == "ndjson":
            path.write_text("".join(json.dumps(row) + "\n" for row in x.tolist()) * times)
        elif kind in ("parquet", "arrow"):
            self._columns(path, x, times)
        elif kind == "images":
            self._images(folder / "x.zip", x)
            self.name, self.passes = str(folder / "x.zip"), times
        elif kind == "kafka":
            self.brokers = Brokers()
            self.name = self.brokers.fill("x", (row.tobytes() for row in np.tile(x, (50, 1))))
            self.passes = max(1, times // 50)
        else:
            self.name = "glyphs:A-C"

    def _columns(self, path: Path, x: np.ndarray, times: int) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.table({str(i): x[:, i] for i in range(WIDTH)})
        parquet = path.suffix == ".parquet"
        with pq.ParquetWriter(path, table.schema) if parquet else pa.ipc.new_file(str(path), table.schema) as writer:
            for _ in range(times):
                writer.write_table(table)

    def _images(self, path: Path, x: np.ndarray) -> None:
        from PIL import Image

        with zipfile.ZipFile(path, "w") as archive:
            for i, row in enumerate(x):
                picture = io.BytesIO()
                Image.fromarray((255 * row).astype(np.uint8).reshape(3, 3)).save(picture, "PNG")
                archive.writestr(f"{i:04}.png", picture.getvalue())


def highest_by_quarter(kind: str, folder: Path, rows: int, shuffle: str, kept: int = 0) -> list[int]:
    """Train on rows and return the highest value of memory in each quarter of them."""
    shuffled.BUFFER_BYTES = 1 << 20
    made = Made(kind, folder, rows)
    out = folder / "run"
    out.mkdir()
    options = RunOptions(passes=made.passes, checkpoint_every=max(1000, rows // 8), shuffle=shuffle)
    run = TrainingRun(out, open_source(made.name), Settings(4), Serial(), options)
    run.stop = lambda: run.progress.samples >= rows
    highest, keep = [0, 0, 0, 0], []
    for status in run.go():
        keep.append(np.ones(kept, np.uint8))
        quarter = min(3, 4 * status.samples // rows)
        highest[quarter] = max(highest[quarter], resident())
    assert run.progress.samples >= rows
    return highest


if __name__ == "__main__":
    kind, folder, rows, shuffle, kept = sys.argv[1:]
    print(json.dumps(highest_by_quarter(kind, Path(folder), int(rows), shuffle, int(kept))))
