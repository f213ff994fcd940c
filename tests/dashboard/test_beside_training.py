"""The page that a training starts beside itself."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlsplit

import pytest

pytest.importorskip("bokeh", reason="bokeh is not installed")


def streamgmm(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streamgmm", *arguments]


def test_an_address_of_another_machine_is_refused(tmp_path: Path) -> None:
    command = streamgmm("dashboard", str(tmp_path), "--address", "0.0.0.0")
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "use an SSH tunnel" in " ".join(done.stderr.split())


@pytest.mark.parametrize("command", ["train", "demo"])
def test_trainings_start_a_page(tmp_path: Path, command: str) -> None:
    words = {"train": ["train", "glyphs:A-C", "--samples", "3000"], "demo": ["demo", "--samples", "2000"]}[command]
    arguments = [*words, "--components", "9", "--out", "run", "--dashboard", "--port", "0"]
    done = subprocess.run(streamgmm(*arguments), cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert "dashboard: http://localhost:" in done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()


def test_the_page_ends_with_its_training(tmp_path: Path) -> None:
    arguments = ["train", "glyphs:A-C", "--components", "4", "--out", "run", "--dashboard", "--port", "0"]
    with subprocess.Popen(streamgmm(*arguments), cwd=tmp_path, stderr=subprocess.PIPE, text=True) as training:
        try:
            assert training.stderr is not None
            port = urlsplit(training.stderr.readline().split()[-1]).port
            assert listens(port)
        finally:
            training.kill()
        deadline = time.monotonic() + 30
        while listens(port) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not listens(port)


def listens(port: int | None) -> bool:
    with socket.socket() as visitor:
        return visitor.connect_ex(("127.0.0.1", int(port or 0))) == 0


def test_training_continues_without_a_page(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        arguments = ["train", "glyphs:A-C", "--samples", "2000", "--components", "4", "--out", "run"]
        command = streamgmm(*arguments, "--dashboard", "--port", port)
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True, timeout=120)
    assert "training continues" in done.stderr
    assert (tmp_path / "run" / "model.safetensors").exists()
