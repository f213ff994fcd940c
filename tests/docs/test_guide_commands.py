"""Commands of the guide: those that need no service run, page by page and in their order, on small files."""

from __future__ import annotations

import csv
import json
import shlex
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest

from streamgmm import DeepStreamingMixture
from tests.commands.command_line import invoke
from tests.docs.pages import DOCS, blocks

pytestmark = pytest.mark.source
ROWS = 400
# a broker, a cluster, an administrator, or a dashboard, which other tests have
ELSEWHERE = ("kafka://", "s3://", "sudo ", "docker ", "journalctl ", "pip install", " --dashboard", "gmm dashboard ")
SHORTER = {  # less data, and an end to what follows a source
    "drift:sudden:60000:": "drift:sudden:1000:",
    "--samples 120000": "--samples 2000",
    "--follow --json": "--follow --json --samples 5",
}
FIRST_VERSION = "20260131T06"  # as the page calls the one to return to


def rows(seed: int, wrong: int = 0, count: int = ROWS) -> np.ndarray:
    x = np.random.default_rng(seed).normal([300.0, 1e5, 2.0], [40.0, 2e4, 0.5], (count, 3))
    x[:wrong] += [2000.0, 0.0, 0.0]
    return x


def write_csv(name: str, x: np.ndarray, missing: float = 0.0, mode: str = "w") -> None:
    rng = np.random.default_rng(9)
    with open(name, mode, newline="") as file:
        lines = csv.writer(file)
        if mode == "w":
            lines.writerow(["time", "temperature", "pressure", "flow"])
        for i, row in enumerate(x):
            lines.writerow([i, *(f"{value:.6g}" if rng.random() >= missing else "" for value in row)])


def run_lines(
    page: str, between: Callable[[int, str], str] | None = None, codes: dict[int, int] | None = None
) -> list[str]:
    """Run the commands of a page; return the output of each. ``between`` is called before each, and may change it."""
    outputs: list[str] = []
    for line in "".join(blocks(DOCS / "guide" / page, "sh")).splitlines():
        if not line or any(mark in line for mark in ELSEWHERE):
            continue
        for long, short in SHORTER.items():
            line = line.replace(long, short)
        if between:
            line = between(len(outputs), line)
        program, *arguments = shlex.split(line)
        assert program == "streamgmm"
        done = invoke(*arguments)
        assert done.code == (codes or {}).get(len(outputs), 0), f"{line}\n{done.stderr}"
        outputs.append(done.stdout)
    return outputs


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_anomalies() -> None:
    write_csv("past.csv", rows(0), missing=0.02)
    write_csv("today.csv", rows(1, wrong=5), missing=0.02)
    assert len(run_lines("anomalies.md")) == 2
    with open("scores.csv") as file:
        scores = list(csv.DictReader(file))
    assert len(scores) == ROWS
    assert [score["anomaly"] for score in scores[:5]].count("True") >= 4
    assert json.loads(scores[1]["explain"])[0]["feature"] == "temperature"


def test_missing() -> None:
    write_csv("readings.csv", rows(0), missing=0.1)
    assert len(run_lines("missing.md")) == 2
    before, after = (list(csv.reader(Path(name).read_text().splitlines())) for name in ("readings.csv", "complete.csv"))
    assert after[0] == before[0]
    assert sum(cell == "" for row in before for cell in row) > ROWS // 10
    assert not any(cell == "" for row in after for cell in row)


def test_streams() -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    for name, seed in (("readings.parquet", 0), ("today.parquet", 1)):
        parquet.write_table(pyarrow.table(dict(zip("abc", rows(seed).T, strict=True))), name)
    assert len(run_lines("streams.md")) == 3
    assert parquet.read_table("scores.parquet").num_rows == ROWS


def test_images() -> None:
    image = pytest.importorskip("PIL.Image", reason="pillow is not installed")
    pixels = np.random.default_rng(0).integers(0, 256, (60, 8, 8), np.uint8)
    with zipfile.ZipFile("pictures.zip", "w") as archive:
        for i, picture in enumerate(pixels):
            data = BytesIO()
            image.fromarray(picture).save(data, "png")
            archive.writestr(f"{i:02}.png", data.getvalue())
    stack = DeepStreamingMixture.from_shape((8, 8), n_components=4, random_state=0)
    stack.fit(pixels.reshape(60, -1)).save("stack.safetensors")
    assert len(run_lines("images.md")) == 2
    assert list(Path("pictures").glob("*.png"))
    assert Path("run/model.safetensors").exists()


def test_drift() -> None:
    assert len(run_lines("drift.md")) == 1
    events = [json.loads(line) for line in Path("run/events.jsonl").read_text().splitlines()]
    assert events[-1]["samples"] == 2000


def test_plots() -> None:
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    write_csv("readings.csv", rows(0))
    assert invoke("train", "readings.csv", "--id", "time", "--components", "4", "--out", "run").code == 0
    assert len(run_lines("plots.md")) == 2
    assert {"centroids.png", "scores.png"} <= {path.name for path in Path("run").glob("*.png")}
    assert Path("samples.png").read_bytes().startswith(b"\x89PNG")


def test_deploy() -> None:
    """A run by a file of settings, which keeps versions while its log grows, and goes back to the first of them."""
    settings = blocks(DOCS / "guide" / "deploy.md", "toml")[0]
    settings = settings.replace("kafka://broker:9092/sensors", "sensors.csv").replace("follow = true", "follow = false")
    Path("run.toml").write_text("components = 4\n" + settings)
    write_csv("sensors.csv", rows(0, count=3000))
    write_csv("batch.csv", rows(1, wrong=5))

    def between(number: int, line: str) -> str:
        if number == 1:
            write_csv("sensors.csv", rows(2), mode="a")
        if FIRST_VERSION in line:
            versions = json.loads(invoke("rollback", "run", "--list", "--json").stdout)
            assert len(versions) >= 2
            oldest = min(versions, key=lambda version: version["samples"])
            return line.replace(FIRST_VERSION, oldest["version"])
        return line

    outputs = run_lines("deploy.md", between, codes={6: 3})  # 3: the batch has anomalies
    assert len(outputs) == 7
    assert len(outputs[5].splitlines()) == 5  # scores, as long as rows come
    assert Path("run/settings.toml").exists()


def test_no_page_is_left_out() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    pages = {path.stem for path in (DOCS / "guide").glob("*.md") if blocks(path, "sh")}
    assert pages <= tested
