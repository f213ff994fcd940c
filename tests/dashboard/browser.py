"""A browser and a server for tests of the page."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SWITCHES = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
SERVE = """
import sys
from pathlib import Path
from streamgmm.dashboard.server import serve

serve(Path(sys.argv[1]), 0, ready=lambda address: print(address, flush=True))
"""


def need_chromium() -> str:
    """Return the path of Chromium; without it, skip the test, or fail on CI."""
    if CHROMIUM is None:
        without = pytest.fail if os.environ.get("CI") else pytest.skip
        without("Chromium is not installed (Debian: apt-get install chromium)")
    return str(CHROMIUM)


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """Start a browser with an empty profile."""
    path = need_chromium()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(folder, executable_path=path, args=SWITCHES)
        yield context
        context.close()


@contextmanager
def served(run: Path) -> Iterator[str]:
    """Serve the page of a run in another process, which must not print a traceback; yield the address."""
    command = [sys.executable, "-c", SERVE, str(run)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        _, errors = server.communicate(timeout=30)
    assert "Traceback" not in errors, errors
