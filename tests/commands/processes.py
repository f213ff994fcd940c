"""Commands that do not end by themselves."""

from __future__ import annotations

import queue
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

SECONDS = 60.0  # to wait for what must come


@contextmanager
def following(
    command: Sequence[str], folder: Path | str = ".", *, errors: bool = False
) -> Iterator[tuple[subprocess.Popen[str], Callable[[], str]]]:
    """Start a command; give its process, and a function that waits for the next line of output, or of errors."""
    lines = queue.Queue[str]()
    streams = {
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
        "stderr" if errors else "stdout": subprocess.PIPE,
    }
    going = subprocess.Popen(command, cwd=folder, stdin=subprocess.PIPE, text=True, **streams)
    heard = going.stderr if errors else going.stdout
    assert heard is not None
    assert going.stdin is not None

    def read() -> None:
        for line in heard:
            lines.put(line)

    thread = threading.Thread(target=read, daemon=True)
    thread.start()
    try:
        yield going, lambda: lines.get(timeout=SECONDS)
    finally:
        going.kill()
        going.wait()
        thread.join(SECONDS)
        heard.close()
        going.stdin.close()
