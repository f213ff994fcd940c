"""A run that lasts: its metrics, its versions, and what it says about itself."""

from __future__ import annotations

import json
import re
import socket
import sys
import urllib.request
from pathlib import Path

import numpy as np
import pytest

from streamgmm import Mixture, StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.storage.run_folder import MODEL
from streamgmm.storage.versions import versions
from tests.commands.command_line import COMMAND, streamgmm
from tests.commands.processes import following

X = np.random.default_rng(0).normal([300.0, 0.02], [10.0, 0.001], (2000, 2))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("operations")
    np.savetxt(place / "x.csv", X, delimiter=",", header="a,b", comments="")
    command = ["train", "x.csv", "--components", "3", "--checkpoint-every", "1000", "--passes", "1", "--keep", "5"]
    streamgmm(*command, "--half-life", "5000", "--out", "run", folder=place)
    return place


class TestInfo:
    def test_of_a_run(self, folder: Path) -> None:
        known = json.loads(streamgmm("info", "run", "--json", folder=folder).stdout)
        expected = {"components": 3, "features": 2, "feature_names": ["a", "b"], "samples": 2000, "half_life": 5000.0}
        assert known.items() >= {**expected, "rule": "natural", "scale": "auto", "contamination": 0.01}.items()
        assert known["run"].items() >= {"source": "x.csv", "columns": ["a", "b"], "finished": True, "bad": 0}.items()
        assert known["run"]["versions"] == [v.name for v in versions(folder / "run")]
        scores = [row.split(",") for row in streamgmm("score", "run", "x.csv", folder=folder).stdout.splitlines()[1:]]
        assert all((float(row[1]) < known["threshold"]) == (row[-1] == "True") for row in scores)

    def test_for_people(self, folder: Path) -> None:
        text = streamgmm("info", "run", folder=folder).stdout
        assert re.search(r"^components +3 \(\d live\), covariance diag$", text, re.M)
        assert re.search(r"^features +2: a, b$", text, re.M)
        assert re.search(r"^learning +rule natural, scale auto, half-life 5,?000 samples$", text, re.M)
        assert re.search(r"^seen +2,000 samples", text, re.M)
        assert re.search(r"^threshold +-?[\d.]+ nats flags at most 1 % of rows", text, re.M)
        assert re.search(r"^source +x\.csv, in its own order, read to its end$", text, re.M)

    def test_of_a_detector(self, folder: Path) -> None:
        detector = StreamingAnomalyDetector(StreamingGaussianMixture(2, random_state=0), contamination=0.05).fit(X)
        detector.save(folder / "detector.safetensors")
        known = json.loads(streamgmm("info", "detector.safetensors", "--json", folder=folder).stdout)
        assert (known["contamination"], known["run"], known["feature_names"]) == (0.05, None, None)
        assert abs((detector.score_samples(X) < known["threshold"]).mean() - 0.05) < 0.01

    def test_of_a_model_that_knows_no_threshold(self, folder: Path) -> None:
        StreamingGaussianMixture(2, random_state=0).fit(X).save(folder / "plain.safetensors")
        assert json.loads(streamgmm("info", "plain.safetensors", "--json", folder=folder).stdout)["threshold"] is None
        assert "unknown for 1 % of rows" in streamgmm("info", "plain.safetensors", folder=folder).stdout

    def test_names_cannot_command_the_terminal(self, tmp_path: Path) -> None:
        np.savetxt(tmp_path / "x.csv", X, delimiter=",", header="a\x1b[2J,b", comments="")
        streamgmm("train", "x.csv", "--components", "2", "--out", "run", folder=tmp_path)
        assert "\x1b" not in streamgmm("info", "run", folder=tmp_path).stdout


def test_a_run_keeps_versions(folder: Path) -> None:
    found = versions(folder / "run")
    assert [v.samples for v in found] == [1000, 2000, 2000]
    assert found[-1].path.samefile(folder / "run" / MODEL)


def test_metrics_of_a_run_that_goes_on(folder: Path, tmp_path: Path) -> None:
    pytest.importorskip("prometheus_client", reason="prometheus-client is not installed")
    command = ["train", str(folder / "x.csv"), "--follow", "--components", "3", "--metrics-port", "0", "--log-json"]
    with following([*COMMAND, *command, "--out", str(tmp_path / "run")], errors=True) as (_, line):
        address = json.loads(line())["message"].removeprefix("metrics: ").removesuffix("/metrics")

        def get(path: str) -> str:
            with urllib.request.urlopen(address + path, timeout=30) as answer:
                return str(answer.read().decode())

        while "streamgmm_samples_total 2000.0" not in (text := get("/metrics")):
            pass
        assert "streamgmm_components 3.0" in text
        assert re.search(r"^streamgmm_max_component -?\d", text, re.M)
        assert json.loads(get("/healthz"))["status"] == "ok"
        with (folder / "x.csv").open("a") as file:
            file.write("300,0.02\n")
        while "streamgmm_samples_total 2001.0" not in get("/metrics"):
            pass


def test_a_port_in_use_is_told_with_the_option(folder: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        command = ["train", "x.csv", "--metrics-port", port, "--out", tmp_path / "run"]
        assert "Choose another port with --metrics-port" in streamgmm(*command, folder=folder, fails=True).words
    assert not (tmp_path / "run").exists()


def test_a_missing_extra_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    words = streamgmm(
        "train", "x.csv", "--metrics-port", "0", "--out", tmp_path / "run", folder=folder, fails=True
    ).words
    assert "Metrics require prometheus-client: pip install 'streamgmm[metrics]'" in words
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(ImportError, match=r"to_onnx requires onnx: pip install 'streamgmm\[onnx\]'"):
        Mixture.from_parameters([1.0], [[0.0]], [[1.0]]).to_onnx()
