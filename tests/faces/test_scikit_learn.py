"""The scikit-learn contract, and what its users expect."""

from __future__ import annotations

import copy
import pickle
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler
from sklearn.utils.estimator_checks import check_estimator

from streamgmm import SGD, Natural, StochasticEM, StreamingGaussianMixture
from streamgmm.estimators.weights import check_counts

quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
METHODS = [
    "fit",
    "partial_fit",
    "predict",
    "predict_proba",
    "score_samples",
    "score",
    "sample",
    "fit_predict",
    "bic",
    "aic",
    "save",
    "load",
    "max_component_score_samples",
    "explain",
    "to_sklearn",
]
ATTRIBUTES = [
    "weights_",
    "means_",
    "precisions_",
    "covariances_",
    "sigma_",
    "learning_rate_",
    "n_samples_seen_",
    "mixture_",
]


@pytest.fixture
def blobs() -> np.ndarray:
    rng = np.random.default_rng(0)
    centres = np.array([[0.2, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.8]])
    return rng.normal(centres[rng.integers(4, size=6000)], 0.04)


SHUFFLED = {"check_sample_weight_equivalence_on_dense_data": "compares fits on rows in two different random orders"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("rule", "allow_nan"),
    [
        *(("natural", False), ("sgd", True)),
        *(
            pytest.param(rule, allow, marks=pytest.mark.soak)
            for rule, allow in [("natural", True), ("sem", True), ("sgd", False), ("sem", False)]
        ),
    ],
)
def test_check_estimator(rule: str, allow_nan: bool) -> None:
    results = check_estimator(StreamingGaussianMixture(rule=rule, allow_nan=allow_nan), expected_failed_checks=SHUFFLED)
    assert {r["status"] for r in results} <= {"passed", "skipped", "xfail"}
    assert sum(r["status"] == "passed" for r in results) >= 40


@quiet
def test_names_of_the_contract(blobs: np.ndarray) -> None:
    model = StreamingGaussianMixture()
    for name in ATTRIBUTES:
        assert not hasattr(model, name)
    for name in METHODS:
        assert callable(getattr(model, name))
    model.fit(blobs)
    assert model.n_features_in_ == 2
    assert model.n_samples_seen_ % 6000 == 0
    assert StreamingGaussianMixture(n_epochs=1).fit(blobs).n_samples_seen_ == 6000
    for name in ("weights_", "means_", "precisions_", "covariances_"):
        values = getattr(model, name)
        assert not values.flags.writeable
        assert not np.shares_memory(values, model.trainer_.parameters.buffers["means"])
    assert model.weights_.sum() == pytest.approx(1)
    np.testing.assert_allclose(model.covariances_ * model.precisions_, 1)


def test_it_finds_the_blobs(blobs: np.ndarray) -> None:
    model = StreamingGaussianMixture(4, precision_max=1000, random_state=1).fit(blobs)
    rivals = GaussianMixture(4, covariance_type="diag", random_state=0).fit(blobs)
    assert model.score(blobs) > rivals.score(blobs) - 0.1
    labels = model.predict(blobs)
    np.testing.assert_array_equal(labels, model.predict_proba(blobs).argmax(1))
    found = model.means_[np.lexsort(model.means_.round(1).T[::-1])]
    np.testing.assert_allclose(found, [[0.2, 0.2], [0.2, 0.8], [0.8, 0.2], [0.8, 0.8]], atol=0.02)
    assert model.score_samples(model.sample(500)[0]).mean() > model.score(blobs) - 0.5


@quiet
def test_criteria_are_scikit_learns(blobs: np.ndarray) -> None:
    model = StreamingGaussianMixture(4, random_state=0).fit(blobs)
    theirs = model.to_sklearn()
    assert model.bic(blobs) == pytest.approx(theirs.bic(blobs), rel=1e-9)
    assert model.aic(blobs) == pytest.approx(theirs.aic(blobs), rel=1e-9)
    assert model.score(blobs) == pytest.approx(theirs.score(blobs), rel=1e-9)
    assert (model.max_component_score_samples(blobs) <= model.score_samples(blobs)).all()


@quiet
def test_float_types(blobs: np.ndarray) -> None:
    single = StreamingGaussianMixture(4).fit(blobs.astype(np.float32))
    assert single.means_.dtype == single.weights_.dtype == np.float32
    single.partial_fit(blobs[:10])
    assert single.means_.dtype == np.float32
    whole = StreamingGaussianMixture(4).fit((blobs * 10).astype(np.uint8))
    assert whole.means_.dtype == np.float64
    half = StreamingGaussianMixture(4).fit(blobs.astype(np.float16))
    assert half.means_.dtype == np.float64


@quiet
def test_data_frames_keep_their_names(blobs: np.ndarray) -> None:
    frame = pd.DataFrame(blobs, columns=["east", "north"])
    model = StreamingGaussianMixture(4, random_state=0).fit(frame)
    assert model.feature_names_in_.tolist() == ["east", "north"]
    assert model.to_sklearn().feature_names_in_.tolist() == ["east", "north"]
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["north", "east"]])
    np.testing.assert_array_equal(
        model.predict(frame), StreamingGaussianMixture(4, random_state=0).fit(blobs).predict(blobs)
    )


@quiet
def test_copies_are_independent(blobs: np.ndarray) -> None:
    model = StreamingGaussianMixture(4, batch_size=7, random_state=0).partial_fit(blobs[:1000])
    before = model.means_.copy()
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
    for twin in twins:
        np.testing.assert_array_equal(twin.means_, before)
        twin.partial_fit(blobs[1000:])
    np.testing.assert_array_equal(model.means_, before)
    model.partial_fit(blobs[1000:])
    for twin in twins:
        np.testing.assert_array_equal(twin.means_, model.means_)
    assert not hasattr(clone(model), "means_")


@quiet
def test_pipelines_and_searches(blobs: np.ndarray) -> None:
    pipeline = make_pipeline(MinMaxScaler(), StreamingGaussianMixture(random_state=0))
    pipeline.fit(100 * blobs)
    assert np.isfinite(pipeline.score(100 * blobs))
    search = GridSearchCV(StreamingGaussianMixture(period=100, random_state=0), {"n_components": [1, 4]}, cv=2).fit(
        blobs[:2000]
    )
    assert search.best_params_ == {"n_components": 4}


@quiet
def test_given_starts(blobs: np.ndarray) -> None:
    start = {
        "weights_init": [0.1, 0.2, 0.3, 0.4],
        "means_init": np.arange(8.0).reshape(4, 2) / 8,
        "precisions_init": np.full((4, 2), 9.0),
    }
    slow = SGD(learning_rate_init=1e-9, learning_rate_min=1e-9)
    for settings, count in (({"scale": "none"}, 1), ({}, 300)):
        tiny = StreamingGaussianMixture(4, rule=slow, **start, **settings).partial_fit(blobs[:count])
        np.testing.assert_allclose(tiny.weights_, start["weights_init"], rtol=1e-6)
        np.testing.assert_allclose(tiny.means_, start["means_init"], atol=1e-6)
        np.testing.assert_allclose(tiny.precisions_, 9, rtol=1e-6)
    with pytest.warns(UserWarning, match="precisions_init reaches 9.*Raise precision_max"):
        capped = StreamingGaussianMixture(4, precision_max=5, scale="none", **start).partial_fit(blobs[:1])
    assert capped.precisions_.max() <= 5 * (1 + 1e-12)
    with pytest.raises(ValueError, match=r"means_init has shape \(3, 2\); expected \(4, 2\)"):
        StreamingGaussianMixture(4, means_init=np.zeros((3, 2))).fit(blobs)


@quiet
def test_rules_and_random_states(blobs: np.ndarray) -> None:
    by_name = StreamingGaussianMixture(4, rule="sgd", learning_rate_init=0.05, random_state=0).fit(blobs)
    by_object = StreamingGaussianMixture(4, rule=SGD(learning_rate_init=0.05), random_state=0).fit(blobs)
    np.testing.assert_array_equal(by_name.means_, by_object.means_)
    for make in (lambda: np.random.RandomState(0), lambda: np.random.default_rng(0)):
        a, b = (StreamingGaussianMixture(4, random_state=make()).fit(blobs) for _ in range(2))
        np.testing.assert_array_equal(a.means_, b.means_)
    still = StreamingGaussianMixture(4, rule="sgd", annealing=False, random_state=0).fit(blobs)
    assert (still.sigma_, still.learning_rate_) == (0.01, 0.001)
    ring = StreamingGaussianMixture(4, grid="ring", random_state=0).fit(blobs)
    assert (ring.trainer_.grid.rows, ring.trainer_.grid.columns) == (1, 4)


def test_warnings_name_the_remedy(blobs: np.ndarray) -> None:
    with pytest.warns(ConvergenceWarning, match=r"sigma is 2 after 900 samples. Raise n_epochs \(now 1\)"):
        StreamingGaussianMixture(rule="sgd", n_epochs=1).fit(blobs[:900])
    with pytest.warns(UserWarning, match="data reach 1.*StandardScaler.*precision_max"):
        StreamingGaussianMixture(4, scale="none").partial_fit(100 * blobs)
    with pytest.warns(UserWarning, match="largest variance of a feature is .*StandardScaler"):
        StreamingGaussianMixture(4, scale="none").partial_fit(0.01 * blobs)
    with pytest.raises(ValueError, match=r"sigma_init is 0\.1, below sigma_min, 0\.2"):
        StreamingGaussianMixture(4, sigma_init=0.1, sigma_min=0.2).partial_fit(blobs)


def test_one_value_far_out_is_no_matter_of_scale() -> None:
    x = np.random.default_rng(0).normal(size=(1000, 3))
    x[7, 1] = 15
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        StreamingGaussianMixture(4, scale="none").partial_fit(x)


@quiet
def test_progress_is_shown_on_request(blobs: np.ndarray, capsys: pytest.CaptureFixture[str]) -> None:
    StreamingGaussianMixture(4, verbose=1).fit(blobs)
    shown = capsys.readouterr()
    assert "live 4" in shown.err
    assert shown.out == ""
    StreamingGaussianMixture(4).fit(blobs)
    assert capsys.readouterr().err == ""


def test_unfitted_use_is_refused(blobs: np.ndarray, tmp_path: object) -> None:
    model = StreamingGaussianMixture()
    for ask in (model.predict, model.score_samples, model.predict_proba, model.bic, model.score):
        with pytest.raises(NotFittedError, match="call fit or partial_fit"):
            ask(blobs)
    for do in (model.sample, lambda: model.save("nowhere")):
        with pytest.raises(NotFittedError):
            do()


@pytest.mark.parametrize("jobs", [None, 2])
@pytest.mark.parametrize(
    "settings",
    [
        {"rule": Natural(growth=1)},
        {"rule": Natural(count_init=5, maturity=np.float32(50), half_life=np.int64(1000))},
        {"rule": "sgd", "learning_rate_init": 1, "learning_rate_min": np.float32(0.001)},
        {"rule": SGD(learning_rate_init=np.float32(0.1))},
        {"rule": StochasticEM(step_init=1, accumulate=np.int32(200))},
    ],
    ids=str,
)
def test_settings_may_be_numbers_of_any_kind(tmp_path: Path, settings: dict[str, Any], jobs: int | None) -> None:
    x = np.random.default_rng(0).random((3000, 3))
    model = StreamingGaussianMixture(4, n_jobs=jobs, random_state=0, **settings).partial_fit(x)
    model.save(tmp_path / "model")
    loaded = StreamingGaussianMixture.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.partial_fit(x).means_, model.partial_fit(x).means_)


@pytest.mark.parametrize("settings", [{}, {"rule": "sgd"}, {"rule": "sem"}, {"batch_size": 8}, {"n_jobs": 2}], ids=str)
def test_training_goes_on_in_another_process(tmp_path: Path, settings: dict[str, Any]) -> None:
    """joblib hands over arrays as files that cannot be written."""
    x = np.random.default_rng(0).random((1005, 3))
    model = StreamingGaussianMixture(4, random_state=0, **settings).partial_fit(x)
    joblib.dump(model, tmp_path / "model.joblib")
    other = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
    np.testing.assert_array_equal(other.partial_fit(x).means_, model.partial_fit(x).means_)


def test_what_training_cannot_change_any_more(tmp_path: Path) -> None:
    x = np.random.default_rng(0).random((500, 3))
    model = StreamingGaussianMixture(4, random_state=0).partial_fit(x)
    before = model.means_
    model.set_params(rule="sgd")
    with pytest.raises(ValueError, match=r"rule is 'sgd', but training began with 'natural'.* start again with fit"):
        model.partial_fit(x)
    np.testing.assert_array_equal(model.means_, before)
    model.set_params(allow_nan=True)
    with pytest.raises(ValueError, match="contains NaN"):
        model.score_samples(np.full((1, 3), np.nan))
    model.save(tmp_path / "model")
    assert StreamingGaussianMixture.load(tmp_path / "model").rule == "natural"
    model.set_params(rule="natural", allow_nan=False, n_epochs=3, verbose=0, n_jobs=2).partial_fit(x)
    assert model.set_params(rule="sgd", period=20).fit(x).rule == "sgd"
    model.partial_fit(x)


def test_weights_that_are_no_counts() -> None:
    x = np.random.default_rng(0).random((10, 3))
    with pytest.raises(ValueError, match=r"sum to 1e\+21; .* Divide them by 1e\+20"):
        StreamingGaussianMixture(4).partial_fit(x, sample_weight=np.full(10, 1e20))
    with pytest.warns(UserWarning, match=r"are 1.5e\+05 on average; .* 1.5e\+06 steps"):
        check_counts(np.full(10, 150_000), 10)


def test_bytes_are_the_numbers_they_are() -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(3, size=(500, 20), dtype=np.uint8)
    here = StreamingGaussianMixture(4, random_state=0).partial_fit(rows)
    there = StreamingGaussianMixture(4, random_state=0).partial_fit(rows.astype(np.float64))
    np.testing.assert_array_equal(here.means_, there.means_)
    np.testing.assert_array_equal(here.score_samples(rows), there.score_samples(rows.astype(np.float64)))
