"""Bad input gets an error with values and a remedy, and leaves the model as it was."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from safetensors.numpy import load_file, save_file
from scipy import sparse

from streamgmm import ModelFileError, StochasticEM, StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.errors import DataWarning

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def with_value(value: float) -> np.ndarray:
    x = np.random.default_rng(1).random((30, 3))
    x[17, 2] = value
    return x


BAD: dict[str, tuple[Any, str]] = {
    "nan": (with_value(np.nan), "row 17 of X contains NaN at feature 2"),
    "inf": (with_value(-np.inf), "row 17 of X contains inf at feature 2"),
    "nan in a frame": (pd.DataFrame(with_value(np.nan), columns=["a", "b", "c"]), "17 of X contains NaN in column 'c'"),
    "huge": (with_value(1e200), r"row 17 of X contains 1e\+200, too large"),
    "empty": (np.empty((0, 3)), r"0 sample\(s\)"),
    "no features": (np.empty((5, 0)), r"0 feature\(s\)"),
    "one-dimensional": (np.zeros(3), "Reshape your data"),
    "three-dimensional": (np.zeros((2, 2, 3)), "dim 3"),
    "strings": (np.array([["a", "b", "c"]]), "could not convert|numeric"),
    "complex": (np.zeros((4, 3), complex), "Complex data not supported"),
    "sparse": (sparse.csr_array(np.eye(3)), "[Ss]parse"),
}
WRONG_WIDTH = (np.zeros((4, 5)), "X has 5 features, but StreamingGaussianMixture is expecting 3 features")
WRONG_NAMES = (pd.DataFrame(np.zeros((4, 3)), columns=["a", "b", "z"]), "feature names")


def snapshot(model: StreamingGaussianMixture) -> tuple[dict[str, np.ndarray], list[Any]]:
    trainer = model.trainer_
    tensors = {name: value.copy() for name, value in trainer.tensors().items()}
    return tensors, [trainer.facts(), model.n_features_in_, model.feature_names_in_.tolist()]


def assert_untouched(model: StreamingGaussianMixture, before: tuple[dict[str, np.ndarray], list[Any]]) -> None:
    tensors, facts = snapshot(model)
    assert facts == before[1]
    assert tensors.keys() == before[0].keys()
    for name, value in tensors.items():
        np.testing.assert_array_equal(value, before[0][name], err_msg=name)


@pytest.fixture(params=["sgd", "natural", "sem"])
def model(request: pytest.FixtureRequest) -> StreamingGaussianMixture:
    frame = pd.DataFrame(np.random.default_rng(0).random((333, 3)), columns=["a", "b", "c"])
    return StreamingGaussianMixture(4, rule=request.param, batch_size=2, random_state=0).partial_fit(frame)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("method", ["fit", "partial_fit", "predict", "score_samples"])
@pytest.mark.parametrize("name", [*BAD, "wrong width", "wrong names"])
def test_bad_data(model: StreamingGaussianMixture, method: str, name: str) -> None:
    if name in ("wrong width", "wrong names"):
        if method == "fit":
            pytest.skip("fit starts anew: any width and names will do")
        data, message = WRONG_WIDTH if name == "wrong width" else WRONG_NAMES
    else:
        data, message = BAD[name]
    before = snapshot(model)
    with pytest.raises((ValueError, TypeError), match=message):
        getattr(model, method)(data)
    assert_untouched(model, before)


@pytest.mark.parametrize("name", BAD)
def test_bad_data_at_the_start(name: str) -> None:
    data, message = BAD[name]
    model = StreamingGaussianMixture(4)
    with pytest.raises((ValueError, TypeError), match=message):
        model.partial_fit(data)
    assert not model.__sklearn_is_fitted__()
    assert not hasattr(model, "n_features_in_")


@pytest.mark.parametrize(
    "settings",
    [
        {"n_components": 0},
        {"n_components": 2.5},
        {"batch_size": 0},
        {"rule": "adam"},
        {"grid": "hexagon"},
        {"covariance_type": "ball"},
        {"learning_rate_init": 0},
        {"sigma_min": -1},
        {"tol": 0},
        {"period": 0},
        {"precision_max": 0},
        {"n_epochs": 0},
        {"random_state": "seed"},
        {"annealing": "yes"},
    ],
)
def test_bad_settings(settings: dict[str, Any]) -> None:
    model = StreamingGaussianMixture(**settings)
    with pytest.raises(ValueError, match=f"^{next(iter(settings))} is .*; expected "):
        model.fit(np.zeros((5, 2)))


def test_a_failed_fit_keeps_the_old_model(model: StreamingGaussianMixture) -> None:
    before = snapshot(model)
    model.set_params(means_init=np.zeros((1, 1)))
    with pytest.raises(ValueError, match="means_init"):
        model.fit(np.zeros((5, 2)))
    assert_untouched(model, before)


def metadata_of(path: Path) -> dict[str, str]:
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8 : 8 + size])["__metadata__"]


def change_header(place: str, value: Any) -> Callable[[Path], None]:
    """Set an entry of the header, given by the keys that lead to it."""
    *keys, last = place.split(".")

    def change(path: Path) -> None:
        header = json.loads(metadata_of(path)["streamgmm"])
        part = header
        for key in keys:
            part = part[key]
        part[last] = value
        save_file(load_file(path), path, {"streamgmm": json.dumps(header)})

    return change


def change_tensor(name: str, edit: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        metadata, tensors = metadata_of(path), load_file(path)
        tensors[name] = np.ascontiguousarray(edit(tensors[name]))
        save_file(tensors, path, metadata)

    return change


UNKNOWN = {"name": "adam", "module": "mine.rules"}
DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:-40]), "damaged or not a model file"),
    "empty": (lambda p: p.write_bytes(b""), "damaged or not a model file"),
    "not a model": (lambda p: p.write_text("a,b,c\n1,2,3\n" * 50), "damaged or not a model file"),
    "other safetensors": (lambda p: save_file({"w": np.zeros(3)}, p), "not a streamgmm model"),
    "newer": (change_header("format", 99), "format version 99; this streamgmm reads versions 2 to 3"),
    "no version": (change_header("format", "x"), "format version 'x'"),
    "other rule": (change_header("rule", UNKNOWN), "rule 'adam', which is not registered. Import mine.rules"),
    "other rule in the settings": (
        change_header("trainer.settings.rule", {"name": "adam"}),
        "damaged: rule.name is .*, but the settings say .adam.",
    ),
    "other engine": (
        change_header("engine", {"name": "cluster", "module": "my_cluster"}),
        "trained with engine 'cluster', which is not registered. Import my_cluster",
    ),
    "other size": (
        change_header("trainer.settings.n_components", 9),
        r"tensor 'parameters.means' is float64 \(4, 3\); expected float64 \(9, 3\)",
    ),
    "wrong annealing": (change_header("trainer.annealing", {"heat": 1}), "damaged"),
    "wrong shape": (change_tensor("parameters.scales", lambda a: a[:, :2]), r"'parameters.scales' is float64 \(4, 2\)"),
    "wrong pending": (change_tensor("pending.rows", lambda a: a[:, :1]), "pending rows have shape"),
    "nan": (change_tensor("parameters.means", lambda a: a * np.nan), "'parameters.means' .* not finite"),
    "negative scale": (change_tensor("parameters.scales", lambda a: -a), "'scales' holds values from -"),
    "nan in the state": (change_tensor("usage", lambda a: a * np.nan), "'usage' holds values that are not finite"),
    "nan in the header": (change_header("trainer.settings.precision_max", float("nan")), "the header holds NaN"),
    "no rows in a batch": (change_header("trainer.settings.batch_size", 0), "batch_size is 0; expected"),
    "no grid": (change_header("trainer.settings.grid", "hexagon"), "grid is 'hexagon'; expected"),
    "no scale": (change_header("trainer.settings.precision_max", -1.0), "precision_max is -1.0; expected"),
    "bad generator": (change_header("trainer.rng", {"bit_generator": "PCG64", "state": -1}), "damaged"),
    "no settings": (change_header("trainer", {}), "damaged: trainer has no 'n_features'"),
    "wrong settings": (change_header("estimator.n_epochs", -1), "damaged: estimator.n_epochs is -1; expected"),
    "too few names": (change_header("feature_names", ["a"]), "damaged: 1 feature names for 3 features"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_bad_files(model: StreamingGaussianMixture, tmp_path: Path, name: str) -> None:
    path = tmp_path / "model.safetensors"
    model.save(path)
    StreamingGaussianMixture.load(path)
    damage, message = DAMAGE[name]
    damage(path)
    with pytest.raises(ModelFileError, match=message):
        StreamingGaussianMixture.load(path)


def test_a_rules_state_of_the_wrong_kind(model: StreamingGaussianMixture, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    name = next(n for n in sorted(model.trainer_.tensors()) if n.startswith("rule."))
    for edit in (lambda a: np.append(a, a), lambda a: a.astype(np.int8)):
        model.save(path)
        change_tensor(name, edit)(path)
        with pytest.raises(ModelFileError, match=f"tensor '{name.removeprefix('rule.')}' is .*; expected"):
            StreamingGaussianMixture.load(path)


def test_settings_from_numpy_can_be_saved(tmp_path: Path) -> None:
    whole = {"n_components": np.int64(4), "period": np.int64(50), "batch_size": np.int64(2)}
    real = {"sigma_init": np.float32(1), "precision_max": np.float32(9)}
    model = StreamingGaussianMixture(**whole, **real).partial_fit(np.eye(3))
    model.save(tmp_path / "m")
    assert StreamingGaussianMixture.load(tmp_path / "m").get_params()["period"] == 50


def test_a_fit_that_fails_on_the_way_keeps_the_old_model(model: StreamingGaussianMixture) -> None:
    before = snapshot(model)
    model.set_params(n_components=20, rule=StochasticEM(start_from="kmeans"))
    with pytest.raises(ValueError, match="k-means start of 20 components"):
        model.fit(np.random.default_rng(0).random((10, 5)))
    assert_untouched(model, before)
    fresh = StreamingGaussianMixture(4)
    with pytest.raises(TypeError, match="str"):
        fresh.partial_fit(pd.DataFrame(np.zeros((4, 3)), columns=["a", 1, "b"]))
    assert not fresh.__sklearn_is_fitted__()


def test_missing_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="expected a model file"):
        StreamingGaussianMixture.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="not a file"):
        StreamingGaussianMixture.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(model: StreamingGaussianMixture, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model.save(path)
    before = path.read_bytes()
    model.trainer_.rng = object()  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_files_contain_no_pickle(model: StreamingGaussianMixture, tmp_path: Path) -> None:
    frame = pd.DataFrame(np.random.default_rng(0).random((99, 3)), columns=["a", "b", "c"])
    model.set_params(random_state=np.random.RandomState(0), means_init=np.zeros((4, 3))).fit(frame)
    model.save(tmp_path / "m")
    loaded = StreamingGaussianMixture.load(tmp_path / "m")
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.means_init, np.zeros((4, 3)))
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    tensors = load_file(tmp_path / "m")
    assert {"parameters.means", "parameters.scales", "parameters.logits"} <= set(tensors)


def test_a_model_that_waits_for_more_rows_is_saved_with_their_gaps(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(400, 3))
    x[::7, 1] = np.nan
    whole, cut = (StreamingGaussianMixture(2, allow_nan=True, random_state=0).partial_fit(x[:50]) for _ in range(2))
    cut.save(tmp_path / "m")
    cut = StreamingGaussianMixture.load(tmp_path / "m")
    np.testing.assert_array_equal(cut.partial_fit(x[50:]).means_, whole.partial_fit(x[50:]).means_)


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("detector", [False, True])
def test_a_warning_of_weights_names_the_line_that_passed_them(learn: str, detector: bool) -> None:
    x = np.random.default_rng(0).normal(size=(500, 2))
    model = StreamingAnomalyDetector(StreamingGaussianMixture(2)) if detector else StreamingGaussianMixture(2)
    with pytest.warns(DataWarning, match="weights are counts") as told:
        getattr(model, learn)(x, sample_weight=np.full(500, 1 / 500))
    found = [warning for warning in told if "counts" in str(warning.message)]
    assert len(found) == 1
    if not (detector and learn == "fit"):  # which calls fit of the mixture
        assert found[0].filename == __file__
