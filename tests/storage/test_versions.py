"""Dated versions of a model, and the way back to one of them."""

from __future__ import annotations

import os
import shutil
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import load_file

from streamgmm.errors import ModelFileError, StreamGMMError
from streamgmm.storage import load_model
from streamgmm.storage.run_folder import MODEL, PREVIOUS, latest_checkpoint, locked
from streamgmm.storage.versions import FOLDER, add_version, find_version, roll_back, superfluous, versions
from tests.commands.command_line import streamgmm

START = datetime(2026, 1, 31, tzinfo=UTC)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose versions have 1000, 2000, 3000 and 4000 samples."""
    place = tmp_path_factory.mktemp("versions")
    np.savetxt(place / "x.csv", np.random.default_rng(0).normal(0, 1, (4000, 3)), delimiter=",")
    plain = ["--components", "4", "--passes", "1", "--shuffle", "no", "--checkpoint-every", "1000"]
    streamgmm("train", "x.csv", "--out", "whole", *plain, folder=place)
    command = ["train", "x.csv", "--out", "run", *plain, "--keep", "9"]
    for samples in range(1000, 5000, 1000):
        streamgmm(*command, "--samples", samples, *(["--resume"] if samples > 1000 else []), folder=place)
    return place


@pytest.fixture
def run(trained: Path, tmp_path: Path) -> Path:
    """A copy of that run, with links as they were."""
    folder = tmp_path / "run"
    shutil.copytree(trained / "run", folder)
    newest = versions(folder)[-1].path
    (folder / MODEL).unlink()
    os.link(newest, folder / MODEL)
    return folder


def samples(folder: Path) -> int:
    return load_model(folder / MODEL).trainer.n_samples


def test_a_version_is_the_checkpoint_of_its_moment(run: Path) -> None:
    found = versions(run)
    assert [v.samples for v in found] == [1000, 2000, 3000, 4000]
    assert [load_model(v.path).trainer.n_samples for v in found] == [v.samples for v in found]
    assert all(abs(datetime.now(UTC) - v.time) < timedelta(hours=1) for v in found)
    assert found[-1].path.samefile(run / MODEL)


def test_ages_double() -> None:
    times: list[float] = []
    for minute in range(5000):
        times.append(60.0 * minute)
        if len(times) > 8:
            times.pop(superfluous(times))
    ages = [(times[-1] - t) / 60 for t in reversed(times)]
    assert ages[0] == 0
    assert 64 <= ages[-1] <= 512
    assert all(1.2 <= older / newer <= 5 for newer, older in pairwise(ages[1:]))


def test_what_is_superfluous_is_removed(run: Path) -> None:
    shutil.rmtree(run / FOLDER)
    times = [START + timedelta(minutes=minute) for minute in range(12)]
    expected: list[datetime] = []
    for time in times:
        add_version(run, 4, time)
        expected.append(time)
        if len(expected) > 4:
            expected.pop(superfluous([t.timestamp() for t in expected]))
        assert [v.time for v in versions(run)] == expected
    assert expected[-1] == times[-1]


@given(st.lists(st.floats(0, 1e9), min_size=2, max_size=30), st.integers(1, 5))
def test_the_newest_version_always_stays(times: list[float], keep: int) -> None:
    left = sorted(times)
    while len(left) > keep:
        number = superfluous(left)
        assert 0 <= number < len(left) - 1
        left.pop(number)
    assert left[-1] == max(times)


def test_other_files_are_no_versions(run: Path) -> None:
    before = [v.name for v in versions(run)]
    (run / FOLDER / "notes.safetensors").write_bytes(b"mine")
    (run / FOLDER / "README.txt").write_text("mine")
    (run / FOLDER / ".20260131T000000.000000Z.safetensors.next").write_bytes(b"torn by a kill")
    assert [v.name for v in versions(run)] == before
    add_version(run, 1)
    assert sorted(p.name for p in (run / FOLDER).iterdir())[1:] == ["README.txt", "notes.safetensors"]


class TestRollBack:
    def test_to_the_version_before(self, run: Path) -> None:
        for expected in (3000, 2000, 1000):
            assert roll_back(run, find_version(run)).progress.samples == expected
            assert samples(run) == expected
        with pytest.raises(StreamGMMError, match=r"no version in .* is older than the model, with 1,000 samples"):
            find_version(run)

    def test_and_resume_as_if_nothing_had_happened(self, trained: Path, run: Path) -> None:
        roll_back(run, find_version(run))
        roll_back(run, find_version(run))
        streamgmm("train", "x.csv", "--out", run, "--checkpoint-every", "1000", "--resume", folder=trained)
        found, expected = (load_file(folder / MODEL) for folder in (run, trained / "whole"))
        for name, values in expected.items():
            if not name.startswith("monitor."):
                np.testing.assert_array_equal(found[name], values, err_msg=name)

    def test_is_undone_by_name(self, run: Path) -> None:
        newest = versions(run)[-1].name
        roll_back(run, find_version(run))
        roll_back(run, find_version(run, newest))
        assert samples(run) == 4000

    def test_keeps_a_model_that_was_no_version(self, run: Path) -> None:
        for version in versions(run):
            if version.samples == 4000:
                version.path.unlink()
        roll_back(run, find_version(run))
        assert samples(run) == 3000
        assert versions(run)[-1].samples == 4000

    def test_at_the_present_position(self, run: Path) -> None:
        earliest = versions(run)[0]
        record = roll_back(run, earliest, keep_position=True)
        assert record.progress.position is not None
        assert (record.progress.samples, record.progress.position["row"]) == (1000, 4000)
        known = latest_checkpoint(run)
        assert known is not None
        assert known[1] == record
        found, expected = load_file(run / MODEL), load_file(earliest.path)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=name)
        assert samples(run) == 1000

    def test_damage_does_not_lead_back_to_what_was_given_up(self, run: Path) -> None:
        roll_back(run, find_version(run))
        (run / MODEL).unlink()
        (run / MODEL).write_bytes(b"damaged")
        with pytest.warns(UserWarning, match="resuming from the previous one"):
            known = latest_checkpoint(run)
        assert known is not None
        assert known[1].progress.samples == 3000

    def test_finishes_what_a_kill_has_left(self, run: Path) -> None:
        """A checkpoint that was written but not named yet is the newest; it must not replace the version afterwards."""
        shutil.copyfile(versions(run)[-1].path, run / f".{MODEL}.next")
        (run / "..rollback.safetensors.next").write_bytes(b"torn")
        roll_back(run, versions(run)[0])
        assert samples(run) == 1000
        known = latest_checkpoint(run)
        assert known is not None
        assert known[1].progress.samples == 1000
        assert not list(run.glob("*rollback*"))

    def test_to_a_damaged_version_changes_nothing(self, run: Path) -> None:
        version = versions(run)[0]
        version.path.write_bytes(b"damaged")
        before = (run / MODEL).read_bytes(), (run / PREVIOUS).read_bytes()
        with pytest.raises(ModelFileError, match="damaged"):
            roll_back(run, version)
        assert before == ((run / MODEL).read_bytes(), (run / PREVIOUS).read_bytes())


class TestNames:
    def test_a_beginning_is_enough(self, run: Path) -> None:
        shutil.rmtree(run / FOLDER)
        for day in range(3):
            add_version(run, 9, START + timedelta(days=day))
        assert find_version(run, "20260201").time == START + timedelta(days=1)
        with pytest.raises(StreamGMMError, match="several versions begin with '202602'"):
            find_version(run, "202602")
        with pytest.raises(StreamGMMError, match=r"no version begins with '2025'.*expected one of 20260131"):
            find_version(run, "2025")


class TestCommand:
    def test_lists(self, run: Path) -> None:
        lines = streamgmm("rollback", run, "--list").stdout.splitlines()
        assert [line.split()[0] for line in lines] == [v.name for v in versions(run)]
        assert lines[-1].split()[1] == "4,000"
        assert samples(run) == 4000

    def test_goes_back(self, run: Path) -> None:
        done = streamgmm("rollback", run, "--json")
        assert '"samples": 3000' in done.stdout
        assert samples(run) == 3000

    def test_refuses_while_a_run_is_writing(self, run: Path) -> None:
        with locked(run):
            assert "another run is writing" in streamgmm("rollback", run, fails=True).words
        assert samples(run) == 4000

    def test_says_how_to_have_versions(self, run: Path) -> None:
        shutil.rmtree(run / FOLDER)
        assert "Train with --keep 10" in streamgmm("rollback", run, fails=True).words
