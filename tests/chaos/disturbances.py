"""What months bring beside failing disks: sources that change while they are read, stops, clocks, moved folders.

Each function disturbs one run in a folder and returns what happened, in words; it fails if anything was lost, learned
twice or kept silent. ``docs/reliability.md`` is made of these words.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest.mock import patch

import numpy as np
from safetensors.numpy import load_file

from streamgmm.sources.text import TextFile
from streamgmm.storage.run_folder import MODEL, latest_checkpoint
from streamgmm.storage.versions import add_version, versions
from tests.chaos.test_kills import assert_same, events
from tests.commands.command_line import COMMAND, invoke, streamgmm

SETTINGS = ["--components", "4", "--checkpoint-every", "1000", "--passes", "1", "--shuffle", "no"]


def write_rows(folder: Path, rows: int = 3000, seed: int = 0) -> Path:
    """Write a table of numbers."""
    x = np.random.default_rng(seed).normal(size=(rows, 2))
    path = folder / "x.csv"
    path.write_text("a,b\n" + "".join(f"{a:.4f},{b:.4f}\n" for a, b in x))
    return path


def _change_while_reading(folder: Path, change: Callable[[Path], None]) -> tuple[int, str]:
    """Change the source after its first thousand rows; return exit code and messages of the run."""
    source, real, calls = write_rows(folder), TextFile.take, [0]
    streamgmm("train", source, "--out", folder / "whole", *SETTINGS)

    def take(self: TextFile, count: int, wait: bool = True) -> list[bytes]:
        calls[0] += 1
        if calls[0] == 3:
            change(source)
        return real(self, count, wait)

    with patch.object(TextFile, "take", take):
        done = invoke("train", source, "--out", folder / "run", *SETTINGS)
    assert "Traceback" not in done.stderr
    return done.code, done.words


def truncated(folder: Path) -> str:
    def truncate(path: Path) -> None:
        os.truncate(path, path.read_bytes().rindex(b"\n", 0, 30_000) + 1)

    code, words = _change_while_reading(folder, truncate)
    assert code == 1
    assert "became shorter while it was read" in words
    found = latest_checkpoint(folder / "run")
    assert found is not None
    learned = found[1].progress.samples
    write_rows(folder)
    streamgmm("train", folder / "x.csv", "--out", folder / "run", *SETTINGS, "--resume")
    here, there = load_file(folder / "run" / MODEL), load_file(folder / "whole" / MODEL)
    for name in here:  # the rows that the page shows as strangest depend on where chunks end
        if not name.startswith("monitor.row"):
            np.testing.assert_array_equal(here[name], there[name], err_msg=name)
    return f"The run stops with a message and a checkpoint of {learned:,} rows; once the file is restored, same bits."


def deleted(folder: Path) -> str:
    code, _ = _change_while_reading(folder, lambda path: path.unlink())
    assert code == 0
    assert_same(folder / "run", folder / "whole")
    return "The run reads the open file to its end: same bits."


def replaced(folder: Path) -> str:
    def replace(path: Path) -> None:
        (path.parent / "new").mkdir()
        os.replace(write_rows(path.parent / "new", seed=1), path)

    code, _ = _change_while_reading(folder, replace)
    assert code == 0
    assert_same(folder / "run", folder / "whole")
    return "The run reads the file that it has opened to its end: same bits. The new file is another source."


def moved(folder: Path) -> str:
    source = write_rows(folder)
    streamgmm("train", source, "--out", folder / "whole", *SETTINGS)
    streamgmm("train", source, "--out", folder / "run", *SETTINGS, "--samples", "1500")
    (folder / "run").rename(folder / "elsewhere")
    streamgmm("train", source, "--out", folder / "elsewhere", *SETTINGS, "--resume")
    assert_same(folder / "elsewhere", folder / "whole")
    return "The run resumes in its new place to the same bits."


def clock_steps(folder: Path) -> str:
    source, real, calls = write_rows(folder), time.time, [0]
    streamgmm("train", source, "--out", folder / "whole", *SETTINGS)

    def jumping() -> float:
        calls[0] += 1
        return real() + (86_400 if calls[0] % 2 else -86_400)

    with patch("time.time", jumping):
        streamgmm("train", source, "--out", folder / "run", *SETTINGS)
    assert_same(folder / "run", folder / "whole")
    assert all(
        b["samples"] >= a["samples"] for a, b in zip(events(folder / "run"), events(folder / "run")[1:], strict=False)
    )
    start = datetime(2026, 1, 1, tzinfo=UTC)
    for step in (0, 60, -86_400, 120, 86_400, 180):
        add_version(folder / "run", 3, start + timedelta(seconds=step))
    assert 1 <= len(versions(folder / "run")) <= 3
    return "Results do not depend on the clock: same bits. Dated versions stay within their number."


def stopped(folder: Path, seconds: float = 1.5) -> str:
    source = write_rows(folder, 60_000)
    streamgmm("train", source, "--out", folder / "whole", *SETTINGS)
    command = [*COMMAND, "train", str(source), "--out", str(folder / "run"), *SETTINGS]
    going = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while going.poll() is None and not (folder / "run" / MODEL).exists():
        time.sleep(0.005)
    going.send_signal(signal.SIGSTOP)
    time.sleep(seconds)
    going.send_signal(signal.SIGCONT)
    assert going.wait(timeout=120) == 0
    assert_same(folder / "run", folder / "whole")
    return "The run continues when it is woken: same bits."


LIMITED = """
import resource, sys
from pathlib import Path
from tests.commands.command_line import invoke
small, room, *command = sys.argv[1:]
invoke("train", small, "--out", small + "-run")  # imports everything that a training needs
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + int(room), resource.RLIM_INFINITY))
done = invoke(*command)
print(done.code, done.words)
"""


def little_memory(folder: Path, room: int = 24 << 20) -> str:
    source, small = folder / "x.npy", folder / "small.npy"
    x = np.random.default_rng(0).normal(size=(1200, 2000)).astype(np.float32)
    np.save(source, x)
    np.save(small, x[:, :3])
    settings = ["--components", "600", "--passes", "1", "--shuffle", "no", "--out"]
    streamgmm("train", source, *settings, folder / "whole")
    streamgmm("train", source, *settings, folder / "run", "--samples", "500")
    before = (folder / "run" / MODEL).read_bytes()
    command = ["train", str(source), *settings, str(folder / "run"), "--resume"]
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, str(small), str(room), *command],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
    )
    assert done.stdout.startswith("1 "), done.stdout + done.stderr
    assert "there is not enough memory" in done.stdout
    assert (folder / "run" / MODEL).read_bytes() == before
    streamgmm("train", source, *settings, folder / "run", "--resume")
    assert_same(folder / "run", folder / "whole")
    return "The run stops with a message, its checkpoint stays, and it resumes with more memory to the same bits."


DISTURBANCES: dict[str, Callable[[Path], str]] = {
    "Source file truncated while it is read": truncated,
    "Source file deleted while it is read": deleted,
    "Source file replaced while it is read": replaced,
    "Run folder moved between stop and resume": moved,
    "Clock steps by a day, forwards and backwards": clock_steps,
    "Process stopped (SIGSTOP) and woken": stopped,
    "Memory limit (RLIMIT_AS) below what the model needs": little_memory,
}
