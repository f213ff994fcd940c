"""``streamgmm datasets``: what is there, and how to get the rest."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm import datasets
from tests.commands.command_line import streamgmm


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of data sets with one of them."""
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    x, y = np.zeros((3, 2, 2), np.uint8), np.zeros(3, np.uint8)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return tmp_path


def test_for_people(folder: Path) -> None:
    lines = streamgmm("datasets").stdout.splitlines()
    assert lines[0] == f"Looked for in {folder}, then {folder / 'cache' / 'streamgmm'}."
    assert f"mnist        {folder / 'mnist.npz'}" in lines
    [checksum] = [line for line in lines if "results may differ" in line]
    assert datasets.SHA256["mnist"] in checksum
    assert "svhn         missing" in lines
    assert sum(line.startswith("  get it ") for line in lines) == 6
    assert lines[-1] == ("1 of 7 are there; missing: fashionmnist, notmnist, devanagari, svhn, isolet, fruits360.")


def test_for_programs(folder: Path) -> None:
    found = {known["name"]: known for known in json.loads(streamgmm("datasets", "--json").stdout)}
    assert list(found) == list(datasets.FILES)
    assert found["mnist"]["place"] == str(folder / "mnist.npz")
    assert found["svhn"] == {
        "name": "svhn",
        "place": None,
        "sha256": None,
        "expected": datasets.SHA256["svhn"],
        "origin": found["svhn"]["origin"],
    }
    assert "train_32x32.mat" in found["svhn"]["origin"]
