"""Model files that streamgmm 0.1 wrote load and continue; the files in tests/data/format2 were written by it."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.cli.app import app
from streamgmm.storage import load_model
from streamgmm.storage.run_folder import EVENTS, MODEL, latest_checkpoint

FILES = Path(__file__).parents[1] / "data" / "format2"
CUTS = {
    "threads-in-a-round": 733,
    "natural-threads": 733,
    "sem-accumulating": 500,
    "sem-kmeans": 500,
    "sem-threads": 555,
    "batches-given-start": 701,
}
ALIKE = {"rtol": 1e-6, "atol": 1e-9}  # bits depend on the vector width


@pytest.fixture(scope="module")
def expected() -> dict[str, np.ndarray]:
    with np.load(FILES / "expected.npz") as file:
        return {name: file[name] for name in file}


def assert_learned(name: str, model: StreamingGaussianMixture, expected: dict[str, np.ndarray], **alike: float) -> None:
    for attribute in ("weights_", "means_", "precisions_"):
        np.testing.assert_allclose(getattr(model, attribute), expected[f"{name}.{attribute}"], **(alike or ALIKE))


def skip_other_clusters(name: str) -> None:
    """The file was written with scikit-learn 1.9; before, the same seed gave other mini-batches, so other clusters."""
    version = tuple(int(part) for part in sklearn.__version__.split(".")[:2])
    if name == "sem-kmeans" and version < (1, 9):
        pytest.skip("MiniBatchKMeans finds other clusters before scikit-learn 1.9")


@pytest.mark.parametrize("name", CUTS)
def test_training_continues_as_in_the_version_that_wrote_it(name: str, expected: dict[str, np.ndarray]) -> None:
    model = StreamingGaussianMixture.load(FILES / f"{name}.safetensors")
    x = expected["x"]
    assert model.n_samples_seen_ == CUTS[name]
    skip_other_clusters(name)
    model.partial_fit(x[CUTS[name] :])
    assert_learned(name, model, expected)
    np.testing.assert_allclose(model.score_samples(x[:50]), expected[f"{name}.scores"], rtol=1e-6)


def test_names_and_float_type_are_kept(expected: dict[str, np.ndarray]) -> None:
    pd = pytest.importorskip("pandas")
    model = StreamingGaussianMixture.load(FILES / "natural.safetensors")
    assert model.feature_names_in_.tolist() == list("abcd")
    rows = pd.DataFrame(expected["x"].astype(np.float32), columns=list("abcd"))
    model.partial_fit(rows[777:])
    assert model.means_.dtype == np.float32
    assert_learned("natural", model, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", CUTS)
def test_an_old_file_is_saved_in_the_present_format(name: str, tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    StreamingGaussianMixture.load(FILES / f"{name}.safetensors").save(tmp_path / f"{name}.safetensors")
    model = StreamingGaussianMixture.load(tmp_path / f"{name}.safetensors")
    skip_other_clusters(name)
    assert_learned(name, model.partial_fit(expected["x"][CUTS[name] :]), expected)


def test_a_detector_continues(expected: dict[str, np.ndarray]) -> None:
    detector = StreamingAnomalyDetector.load(FILES / "detector.safetensors")
    assert detector.contamination == 0.05
    detector.partial_fit(expected["x"][900:])
    assert detector.offset_ == pytest.approx(float(expected["detector.offset_"]), rel=0.05)
    np.testing.assert_allclose(detector.p_values(expected["x"][:50]), expected["detector.p"], atol=0.1)


def test_a_run_resumes_with_its_scaling(tmp_path: Path, expected: dict[str, np.ndarray]) -> None:
    (tmp_path / "run").mkdir()
    shutil.copy(FILES / "run-scaled.safetensors", tmp_path / "run" / MODEL)
    shutil.copy(FILES / "run-scaled.events.jsonl", tmp_path / "run" / EVENTS)
    shutil.copy(FILES / "raw.csv", tmp_path / "raw.csv")
    saved, record = latest_checkpoint(tmp_path / "run") or (None, None)
    assert saved is not None
    assert record is not None
    assert (saved.scaling is not None and saved.scaling.kind, record.missing) == ("standard", "learn")
    assert record.progress.position is not None
    from typer.testing import CliRunner

    command = ["train", str(tmp_path / "raw.csv"), "--out", str(tmp_path / "run"), "--resume"]
    done = CliRunner().invoke(app, command, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with pytest.warns(UserWarning, match="scaled by 'standard'"):
        model = StreamingGaussianMixture.load(tmp_path / "run" / MODEL)
    assert model.n_samples_seen_ == 1500
    assert_learned("run-scaled", model, expected)


def test_what_a_run_knew_is_there() -> None:
    saved = load_model(FILES / "run-scaled.safetensors")
    assert saved.feature_names == list("abcd")
    assert saved.trainer.n_samples == 1000
    assert saved.monitor is not None
    assert saved.monitor.strangest.rows.shape[1:] in ((4,), (0,))


def test_a_threshold_without_datasketches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Which has no wheel for Python 3.14: the rest of such files loads, and the message says what to install."""
    monkeypatch.setitem(sys.modules, "datasketches", None)
    with pytest.raises(ImportError, match=r"files of streamgmm 0.1 require datasketches: .*streamgmm\[sketches\]"):
        StreamingAnomalyDetector.load(FILES / "detector.safetensors")
    assert (
        StreamingGaussianMixture.load(FILES / "natural-threads.safetensors").n_samples_seen_ == CUTS["natural-threads"]
    )
