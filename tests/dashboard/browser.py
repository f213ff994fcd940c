"""A real browser and a real server for tests of the page."""

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


def need_chromium() -> str:
    if CHROMIUM is None:
        without = pytest.fail if os.environ.get("CI") else pytest.skip
        without("there is no Chromium on this machine (Debian: apt-get install chromium)")
    return str(CHROMIUM)


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """A browser with an empty profile."""
    path = need_chromium()
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        context = driver.chromium.launch_persistent_context(folder, executable_path=path, args=SWITCHES)
        yield context
        context.close()


@contextmanager
def served(run: Path) -> Iterator[str]:
    """The address of the page of a run; whatever the server says on standard error must not be a traceback."""
    command = [sys.executable, "-m", "streamgmm.cli", "dashboard", str(run), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().split()[0]
    finally:
        server.terminate()
        _, said = server.communicate(timeout=30)
    assert "Traceback" not in said, said
