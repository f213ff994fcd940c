"""Kills while versions are made, and during a rollback: there is always a model, the old one or the new one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from streamgmm.storage import load_model
from streamgmm.storage.run_folder import MODEL
from streamgmm.storage.versions import versions
from tests.chaos.test_kills import kill_and_resume
from tests.commands.command_line import streamgmm

MOMENTS = 60  # more than there are calls in which a process can be killed
KILL = """
import os, shutil, sys
from pathlib import Path
from streamgmm.storage import load_model
from streamgmm.storage.run_folder import MODEL, latest_checkpoint
from streamgmm.storage.versions import add_version, find_version, roll_back, versions

run, copy, action = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
ACTIONS = {
    "rollback": lambda: roll_back(copy, find_version(copy)),
    "rollback at the present position": lambda: roll_back(copy, find_version(copy), keep_position=True),
    "version": lambda: add_version(copy, 2),
}

def killed_at(moment):
    '''Do it in a process of its own that ends before one of its calls to the system; return whether it did.'''
    calls = 0

    def counted(call):
        def do(*args, **kwargs):
            nonlocal calls
            calls += 1
            if calls == moment:
                os._exit(9)
            return call(*args, **kwargs)
        return do

    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    for name in ("replace", "link", "unlink", "fsync", "open", "mkdir"):
        setattr(os, name, counted(getattr(os, name)))
    ACTIONS[action]()
    os._exit(0)

for moment in range(1, 1000):
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(run, copy)
    was_killed = killed_at(moment)
    print(moment, load_model(copy / MODEL).trainer.n_samples, latest_checkpoint(copy)[1].progress.samples,
          len(versions(copy)), sum(load_model(v.path).run is not None for v in versions(copy)), flush=True)
    ACTIONS[action]()
    assert latest_checkpoint(copy)[1].progress.samples <= 3000
    if not was_killed:
        break
"""


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with three versions, and a model that is not among them."""
    place = tmp_path_factory.mktemp("versions")
    np.savetxt(place / "x.csv", np.random.default_rng(0).normal(0, 1, (3000, 2)), delimiter=",")
    command = ["train", "x.csv", "--out", "run", "--components", "2", "--passes", "1", "--shuffle", "no"]
    streamgmm(*command, "--checkpoint-every", "1000", "--keep", "5", folder=place)
    folder = place / "run"
    for version in versions(folder):
        if version.samples == 3000:
            version.path.unlink()
    assert [v.samples for v in versions(folder)] == [1000, 2000]
    assert load_model(folder / MODEL).trainer.n_samples == 3000
    return folder


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize("action", ["rollback", "rollback at the present position", "version"])
def test_a_kill_at_every_moment(run: Path, tmp_path: Path, action: str) -> None:
    command = [sys.executable, "-W", "error", "-c", KILL, str(run), str(tmp_path / "copy"), action]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [list(map(int, line.split())) for line in done.stdout.splitlines()]
    assert 5 < len(lines) < MOMENTS
    before, after = (3000, 3000) if action == "version" else (3000, 2000)
    found = [model for _, model, *_ in lines]
    assert found == sorted(found, reverse=True)
    assert {found[0], found[-1]} == {before, after}
    for _, model, latest, kept, usable in lines:
        assert model == latest
        assert model in (before, after)
        assert 2 <= kept <= 3
        assert usable == kept
    if action == "version":
        assert lines[-1][3] == 2


def test_two_kills_of_a_run_that_keeps_versions(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, "csv", 6_000, 2, "--keep", "3")
    found = versions(tmp_path / "killed")
    assert 1 <= len(found) <= 3
    assert found[-1].samples == load_model(tmp_path / "killed" / MODEL).trainer.n_samples
    shutil.rmtree(tmp_path / "whole")
