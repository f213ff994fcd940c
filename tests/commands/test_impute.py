"""``streamgmm impute``, and training with covariances that couple features."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture
from tests.commands.command_line import streamgmm


@pytest.fixture(scope="module")
def sensors(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three sensors that depend on each other, a comment, and a run that has learned them."""
    folder = tmp_path_factory.mktemp("sensors")
    rng = np.random.default_rng(0)
    level = rng.normal(20, 3, 3000)
    rows = np.column_stack([level, 2 * level + rng.normal(0, 0.1, 3000), rng.normal(5, 1, 3000)])
    lines = ["time,flow,pressure,noise,load"]
    lines += [f"t{i},{a:.4f},{b:.4f},{c:.4f},{i % 7}" for i, (a, b, c) in enumerate(rows)]
    (folder / "all.csv").write_text("\n".join(lines))
    gaps = ["time,flow,pressure,noise,load", "a,20.5,,5.0,3", "b,,50.0,4.0,1", "c,21.0,42.1,6.0,2"]
    (folder / "gaps.csv").write_text("\n".join(gaps) + "\n")
    streamgmm(
        "train", str(folder / "all.csv"), "--id", "time", "--columns", "flow,pressure,noise", "--covariance", "full",
        "--components", "2", "--out", str(folder / "run"),
    )  # fmt: skip
    return folder


def test_gaps_are_filled_and_everything_else_stays(sensors: Path) -> None:
    out = sensors / "complete.csv"
    done = streamgmm("impute", str(sensors / "run"), str(sensors / "gaps.csv"), "--id", "time", "--out", str(out))
    assert "3 rows completed" in done.words
    lines = [line.split(",") for line in out.read_text().splitlines()]
    assert lines[0] == ["time", "flow", "pressure", "noise", "load"]
    assert [line[0] for line in lines[1:]] == ["a", "b", "c"]
    assert float(lines[1][2]) == pytest.approx(41.0, abs=0.3)
    assert float(lines[2][1]) == pytest.approx(25.0, abs=0.3)
    assert [float(v) for v in lines[3][1:]] == [21.0, 42.1, 6.0, 2.0]
    assert [float(line[4]) for line in lines[1:]] == [3.0, 1.0, 2.0]


def test_a_whole_column_is_predicted_from_the_others(sensors: Path) -> None:
    (sensors / "empty.csv").write_text("time,flow,pressure,noise\na,20.5,,5.0\nb,25.0,,4.0\n")
    done = streamgmm("impute", str(sensors / "run"), str(sensors / "empty.csv"), "--id", "time")
    found = [float(line.split(",")[2]) for line in done.stdout.splitlines()[1:]]
    np.testing.assert_allclose(found, [41.0, 50.0], atol=0.3)


def test_ndjson_goes_to_standard_output(sensors: Path) -> None:
    done = streamgmm("impute", str(sensors / "run"), str(sensors / "gaps.csv"), "--id", "time", "--json", "--quiet")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["time"] for row in rows] == ["a", "b", "c"]
    assert rows[1]["flow"] == pytest.approx(25.0, abs=0.3)


def test_the_run_has_full_covariances_and_pictures_of_them(sensors: Path) -> None:
    model = StreamingGaussianMixture.load(sensors / "run" / "model.safetensors")
    assert model.covariances_.shape == (2, 3, 3)
    done = streamgmm("plot", str(sensors / "run"), "--json")
    assert any(name.endswith("directions.png") for name in json.loads(done.stdout))


def test_mistakes_are_said_in_one_line(sensors: Path) -> None:
    wrong = streamgmm(
        "train", str(sensors / "all.csv"), "--covariance", "tied", "--out", str(sensors / "no"), fails=True
    )
    assert "covariance_type='tied' is not supported; use 'full' or 'low_rank'" in wrong.words
    same = streamgmm(
        "impute", str(sensors / "run"), str(sensors / "gaps.csv"), "--out", str(sensors / "gaps.csv"), fails=True
    )
    assert "would overwrite the input" in same.words
    StreamingGaussianMixture(2).fit(np.eye(5)[:, :2]).save(sensors / "narrow.safetensors")
    wide = streamgmm("impute", str(sensors / "narrow.safetensors"), str(sensors / "gaps.csv"), fails=True)
    assert "rows of gaps.csv have 4 features; the model has 2." in wide.words
