"""Options of commands that run on a cluster: mistakes that are told in a line."""

from __future__ import annotations

from pathlib import Path

import pytest

from streamgmm.engines.workers import LocalCluster
from tests.cluster.runs import go, start, write_rows
from tests.commands.command_line import streamgmm


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--workers", 2], "--workers needs --engine ray"),
        (["--round", 100], "--round needs --engine ray"),
        (["--engine", "ray"], "--engine ray needs the number of --workers"),
        (["--engine", "ray", "--workers", 2, "--jobs", 2], "--jobs does not combine with --engine ray"),
    ],
)
def test_options_that_do_not_go_together(tmp_path: Path, options: list[object], told: str) -> None:
    write_rows(tmp_path / "x.npy", 100)
    assert told in streamgmm("train", "x.npy", "--out", "run", *options, folder=tmp_path, fails=True).words


def test_a_run_is_resumed_where_it_was_trained(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "x.npy", 5000)
    go(start(tmp_path / "run", rows, LocalCluster(2)), rounds=5)
    done = streamgmm("train", rows, "--out", tmp_path / "run", "--resume", fails=True)
    assert "resume it with --engine ray --workers 2" in done.words
    streamgmm("train", rows, "--out", tmp_path / "alone", "--samples", 1000, "--components", 4)
    options = ["--engine", "ray", "--workers", 2, "--resume"]
    done = streamgmm("train", rows, "--out", tmp_path / "alone", *options, fails=True)
    assert "resume it without --engine ray" in done.words


def test_scores_go_to_a_folder(tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "x.npy", 3000)
    go(start(tmp_path / "run", rows, LocalCluster(2)))
    options = ["--engine", "ray", "--workers", 2]
    done = streamgmm("score", tmp_path / "run", rows, *options, "--out", tmp_path / "s.csv", fails=True)
    assert "writes a folder of Parquet files" in done.words
    done = streamgmm("score", tmp_path / "run", rows, *options, "--json", fails=True)
    assert "remove --samples, --json" in done.words
