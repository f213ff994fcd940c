"""Resident memory does not grow with the stream, whatever the source."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from streamgmm.core.settings import Settings
from streamgmm.engines import Serial
from streamgmm.runs.options import RunOptions
from streamgmm.runs.train import TrainingRun
from streamgmm.sources import open_source
from tests.sources.brokers import Brokers

WIDTH = 9
FEWER = {"images": 10, "glyphs": 10, "kafka": 2}  # so many times fewer rows: these take longer to make
needs_proc = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


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
            text = "".join(",".join(map(str, row)) + "\n" for row in x.tolist())
            if kind == "csv":
                path.write_text(text * times)
            else:
                (folder / "block").write_text(text)
                feeder = f"import sys\nfor _ in range({times}): sys.stdout.write(open(sys.argv[1]).read())"
                command = [sys.executable, "-c", feeder, str(folder / "block")]
                self.feeder = subprocess.Popen(command, stdout=subprocess.PIPE)
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


KAFKA = pytest.param("kafka", marks=pytest.mark.services)
KINDS = ["npy", "npz", "csv", "ndjson", "parquet", "arrow", "stdin", "images", KAFKA, "glyphs"]


def grows_by(kind: str, folder: Path, rows: int, monkeypatch: pytest.MonkeyPatch, shuffle: str = "no") -> int:
    """Bytes by which the highest value of memory grows from one quarter of a run to the next, the least of three.

    What is kept of each row grows in every quarter; waiting chunks and the allocator's reserves make single steps.
    """
    made = Made(kind, folder, rows)
    if kind == "stdin":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(made.feeder.stdout))
    out = folder / "run"
    out.mkdir()
    options = RunOptions(passes=made.passes, checkpoint_every=max(1000, rows // 8), shuffle=shuffle)
    run = TrainingRun(out, open_source(made.name), Settings(4), Serial(), options)
    run.stop = lambda: run.progress.samples >= rows
    highest = [0, 0, 0, 0]
    for status in run.go():
        quarter = min(3, 4 * status.samples // rows)
        highest[quarter] = max(highest[quarter], resident())
    if kind == "stdin":
        made.feeder.stdout.close()
        made.feeder.wait()
    assert run.progress.samples >= rows
    assert min(highest) > 0
    return int(np.diff(highest).min())


@needs_proc
@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert grows_by(kind, tmp_path, 200_000 // FEWER.get(kind, 1), monkeypatch) < 1e6


@needs_proc
@pytest.mark.parametrize(
    "kind", ["npy", "csv", "parquet", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("ndjson", "arrow"))]
)
def test_memory_stays_for_shuffled_files(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At most a buffer is added, however many there are."""
    monkeypatch.setattr("streamgmm.sources.shuffled.BUFFER_BYTES", 1 << 20)
    assert grows_by(kind, tmp_path, 200_000, monkeypatch, "yes") < 1e6


@needs_proc
def test_growth_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure above finds a run that keeps its rows."""
    kept = []
    rows = TrainingRun.go

    def keep(run: TrainingRun) -> object:
        for status in rows(run):
            kept.append(np.ones(1 << 19))
            yield status

    monkeypatch.setattr(TrainingRun, "go", keep)
    assert grows_by("npy", tmp_path, 200_000, monkeypatch) > 1e6


@pytest.mark.soak
@needs_proc
@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays_for_millions(tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    grown = grows_by(kind, tmp_path, 2_000_000, monkeypatch)
    print(f"{kind}: 2 million rows, {grown / 1e6:+.1f} MB from a quarter to the next")
    assert grown < 1e6
