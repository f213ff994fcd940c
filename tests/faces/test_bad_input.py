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

from streamgmm import ModelFileError, StochasticEM, StreamingGaussianMixture

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def with_value(value: float) -> np.ndarray:
    x = np.random.default_rng(1).random((30, 3))
    x[17, 2] = value
    return x


BAD: dict[str, tuple[Any, str]] = {
    "nan": (with_value(np.nan), "row 17 of X contains NaN at feature 2"),
    "inf": (with_value(-np.inf), "row 17 of X contains inf at feature 2"),
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


def snapshot(model: StreamingGaussianMixture) -> list[Any]:
    s = model._training
    arrays = [
        s.parameters.means,
        s.parameters.scales,
        s.parameters.logits,
        s.pending.rows,
        s.wins,
        *s.rule_state.values(),
    ]
    return [*(a.copy() for a in arrays), s.annealing, model.n_features_in_, model.feature_names_in_.tolist()]


def assert_untouched(model: StreamingGaussianMixture, before: list[Any]) -> None:
    for a, b in zip(snapshot(model), before, strict=True):
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b


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
        {"covariance_type": "full"},
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
    with pytest.raises(ValueError, match=f"'{next(iter(settings))}' parameter"):
        model.fit(np.zeros((5, 2)))


def test_a_failed_fit_keeps_the_old_model(model: StreamingGaussianMixture) -> None:
    before = snapshot(model)
    model.set_params(means_init=np.zeros((1, 1)))
    with pytest.raises(ValueError, match="means_init"):
        model.fit(np.zeros((5, 2)))
    assert_untouched(model, before)


def change_header(**changes: Any) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        raw = path.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        header = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["streamgmm"])
        save_file(load_file(path), path, {"streamgmm": json.dumps({**header, **changes})})

    return change


def change_tensor(name: str, edit: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        raw = path.read_bytes()
        size = int.from_bytes(raw[:8], "little")
        metadata = json.loads(raw[8 : 8 + size])["__metadata__"]
        tensors = load_file(path)
        tensors[name] = np.ascontiguousarray(edit(tensors[name]))
        save_file(tensors, path, metadata)

    return change


DAMAGE: dict[str, tuple[Callable[[Path], Any], str]] = {
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:-40]), "truncated or not a model"),
    "empty": (lambda p: p.write_bytes(b""), "truncated or not a model"),
    "not a model": (lambda p: p.write_text("a,b,c\n1,2,3\n" * 50), "truncated or not a model"),
    "other safetensors": (lambda p: save_file({"w": np.zeros(3)}, p), "not a streamgmm model"),
    "newer": (change_header(format=99), "format version 99; this streamgmm reads version 2"),
    "no version": (change_header(format="x"), "format version 'x'"),
    "other rule": (change_header(rule={"name": "adam"}), "damaged: rule 'adam' is unknown"),
    "other grid": (change_header(grid=[3, 3]), r"tensor 'means' has shape \(4, 3\); its header wants \(9, 3\)"),
    "wrong annealing": (change_header(annealing={"heat": 1}), "damaged"),
    "wrong shape": (change_tensor("scales", lambda a: a[:, :2]), r"tensor 'scales' has shape \(4, 2\)"),
    "wrong pending": (change_tensor("pending", lambda a: a[:, :1]), "tensor 'pending'"),
    "nan": (change_tensor("means", lambda a: a * np.nan), "not finite"),
    "negative scale": (change_tensor("scales", lambda a: -a), "not positive"),
    "nan in the state": (change_tensor("usage", lambda a: a * np.nan), "'usage' holds values that are not finite"),
    "nan in the header": (change_header(scale_max=float("nan")), "the header holds NaN"),
    "no rows in a batch": (change_header(batch_size=0), "batch size 0"),
    "no grid": (change_header(grid=[-2, -2]), "grid is -2×-2"),
    "no scale": (change_header(scale_max=-1.0), "out of range"),
    "bad generator": (change_header(rng={"bit_generator": "PCG64", "state": -1}), "damaged"),
    "no settings": (change_header(facts={}), "no settings of this estimator"),
    "wrong settings": (change_header(facts={"params": {"n_components": -1}, "feature_names": None}), "no settings"),
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
    name = next(n for n in sorted(model._training.rule_state) if n not in model._training.rule.varying)
    for edit in (lambda a: np.append(a, a), lambda a: a.astype(np.int8)):
        model.save(path)
        change_tensor(f"rule.{name}", edit)(path)
        with pytest.raises(ModelFileError, match=f"tensor 'rule.{name}' is"):
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
    with pytest.raises(FileNotFoundError, match="expected a model written by save"):
        StreamingGaussianMixture.load(tmp_path / "nothing")
    with pytest.raises(FileNotFoundError, match="not a file"):
        StreamingGaussianMixture.load(tmp_path)


def test_a_failed_save_leaves_the_old_file(model: StreamingGaussianMixture, tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    model.save(path)
    before = path.read_bytes()
    model._training.rng = object()  # type: ignore[assignment]
    with pytest.raises(AttributeError):
        model.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model.safetensors"]


def test_files_contain_no_pickle(model: StreamingGaussianMixture, tmp_path: Path) -> None:
    model.set_params(random_state=np.random.RandomState(0), means_init=np.zeros((4, 3)))
    model.save(tmp_path / "m")
    loaded = StreamingGaussianMixture.load(tmp_path / "m")
    assert loaded.random_state is None
    np.testing.assert_array_equal(loaded.means_init, np.zeros((4, 3)))
    assert loaded.feature_names_in_.tolist() == ["a", "b", "c"]
    tensors = load_file(tmp_path / "m")
    assert {"means", "scales", "logits"} <= set(tensors)
