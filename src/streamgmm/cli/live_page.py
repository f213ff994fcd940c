"""The dashboard of a run, served by a separate process during training."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from streamgmm.cli import console

LIVE_SECONDS = 2.0  # between two checkpoints of a run that somebody watches


@contextmanager
def live_page(run: Path, port: int, wanted: bool) -> Iterator[None]:
    """Serve the page of a run during the block; at a terminal, keep it open afterwards until Ctrl-C."""
    if not wanted:
        yield
        return
    command = [sys.executable, "-m", "streamgmm", "dashboard", str(run), "--port", str(port), "--beside"]
    pipe = subprocess.PIPE
    page = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, start_new_session=True)
    assert page.stdout is not None
    try:
        said = page.stdout.readline()
        if said:
            console.say(f"dashboard: {said.split()[0]}")
        else:
            console.say(f"the dashboard did not start; training continues. Try streamgmm dashboard {run}")
        yield
        if said and sys.stdout.isatty():
            console.say("the run is over; the page stays open until Ctrl-C")
            with suppress(KeyboardInterrupt):
                page.wait()
    finally:
        page.terminate()
        page.communicate()
