"""Resident memory does not grow with the stream, whatever the source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

FEWER = {"images": 10, "glyphs": 10, "kafka": 2}  # so many times fewer rows: these take longer to make
KINDS = ["npy", "npz", "csv", "ndjson", "parquet", "arrow", "stdin", "images", "kafka", "glyphs"]
ROOT = Path(__file__).parents[2]
PROMPT = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536", "ARROW_DEFAULT_MEMORY_POOL": "system"}
"""What makes glibc return memory at once, so that its reserves are not taken for growth."""

pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read from /proc")


def grows_by(kind: str, folder: Path, rows: int, shuffle: str = "no", kept: int = 0) -> int:
    """Bytes by which the highest value of memory grows from one quarter of a run to the next, the least of three.

    What is kept of each row grows in every quarter; chunks that wait make single steps.
    """
    command = [sys.executable, "-m", "tests.chaos.memory_driver", kind, str(folder), str(rows), shuffle, str(kept)]
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **PROMPT}, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    highest = json.loads(done.stdout)
    assert min(highest) > 0
    return int(np.diff(highest).min())


@pytest.mark.services
@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays(tmp_path: Path, kind: str) -> None:
    assert grows_by(kind, tmp_path, 200_000 // FEWER.get(kind, 1)) < 500_000


@pytest.mark.services
@pytest.mark.parametrize(
    "kind", ["npy", "csv", "parquet", *(pytest.param(kind, marks=pytest.mark.soak) for kind in ("ndjson", "arrow"))]
)
def test_memory_stays_for_shuffled_files(tmp_path: Path, kind: str) -> None:
    """At most a buffer is added, however many there are."""
    assert grows_by(kind, tmp_path, 200_000, "yes") < 500_000


def test_growth_is_seen(tmp_path: Path) -> None:
    """The measure finds a run that keeps a megabyte of each of its twenty chunks."""
    assert grows_by("npy", tmp_path, 200_000, kept=1 << 20) > 3_000_000


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_memory_stays_for_millions(tmp_path: Path, kind: str) -> None:
    grown = grows_by(kind, tmp_path, 2_000_000)
    print(f"{kind}: 2 million rows, {grown / 1e6:+.1f} MB from a quarter to the next")
    assert grown < 500_000
