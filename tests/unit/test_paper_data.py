"""A user's own data in the tables of the paper, and what the claims are decided by."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from streamgmm import StreamGMMError
from streamgmm.core.mixture import Mixture
from streamgmm.paper.claims import exponent, settled
from streamgmm.paper.differences import UNEXPLAINED, Pair
from streamgmm.paper.exact_gradient import Model, ascend
from streamgmm.paper.numerics import failures, scores
from streamgmm.paper.own_data import inspect_file, read_file
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import STREAMING, Value
from streamgmm.paper.readings import random_tens
from streamgmm.paper.responsibilities import largest_share
from streamgmm.paper.run_data import data_of
from streamgmm.paper.runs import Run


def write_table(path: Path, rows: int = 100) -> Path:
    rng = np.random.default_rng(0)
    names = rng.choice(["oak", "ash"], rows)
    lines = [
        f"{a:.3f},{b:.1f},{name}" for (a, b), name in zip(rng.normal([0, 50], [1, 10], (rows, 2)), names, strict=True)
    ]
    path.write_text("\n".join(["x,y,tree", *lines]) + "\n")
    return path


def test_a_table_is_split_and_scaled_by_its_training_part(tmp_path: Path) -> None:
    path = write_table(tmp_path / "trees.csv")
    data = read_file(path, "tree")
    assert (data.x_train.shape, data.x_test.shape) == ((80, 2), (20, 2))
    np.testing.assert_allclose(data.x_train.min(0), 0, atol=1e-6)
    np.testing.assert_allclose(data.x_train.max(0), 1, atol=1e-6)
    assert set(np.unique(data.y_train)) == {0, 1}
    own = inspect_file(path, "tree")
    assert (own.name, own.size, own.classes) == ("trees", (80, 20, 2), 2)


def test_arrays_keep_bytes_and_what_is_within_bounds(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    images = rng.integers(256, size=(60, 4, 4)).astype(np.uint8)
    np.savez(tmp_path / "images.npz", x_train=images[:40], x_test=images[40:])
    data = read_file(tmp_path / "images.npz")
    assert data.x_train.dtype == np.uint8
    assert data.x_train.shape == (40, 16)
    assert inspect_file(tmp_path / "images.npz").classes == 0
    shares = rng.random((60, 3)) * 0.5
    np.savez(tmp_path / "shares.npz", x_train=shares[:40], x_test=shares[40:], y_train=["a"] * 40, y_test=["b"] * 20)
    np.testing.assert_allclose(read_file(tmp_path / "shares.npz").x_train, shares[:40], rtol=1e-6)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": np.zeros((50, 2))}, "has the arrays x, but not x_test, x_train"),
        ({"x_train": np.zeros((50, 2)), "x_test": np.zeros((50, 3))}, "x_train has 2 features of float64, x_test 3"),
        ({"x_train": np.zeros((50, 2)), "x_test": np.zeros((5, 2))}, "a part of 5 rows; expected at least 20"),
        ({"x_train": np.full((50, 2), np.nan), "x_test": np.zeros((50, 2))}, "missing or infinite values"),
        (
            {"x_train": np.zeros((50, 2)), "x_test": np.ones((50, 2)), "y_train": np.zeros(3), "y_test": np.zeros(3)},
            "100 rows and 6 classes",
        ),
    ],
)
def test_unsuitable_arrays_are_refused(tmp_path: Path, arrays: dict, message: str) -> None:
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(StreamGMMError, match=message):
        read_file(tmp_path / "odd.npz")


def test_other_files_and_labels_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StreamGMMError, match=r"unsupported extension; expected \.npz or \.csv"):
        read_file(tmp_path / "table.xlsx")
    with pytest.raises(StreamGMMError, match="expected classes in arrays y_train and y_test"):
        read_file(tmp_path / "a.npz", "species")


def test_records_of_another_content_are_not_reused(tmp_path: Path) -> None:
    plans = []
    for rows in (100, 120):
        own = inspect_file(write_table(tmp_path / "trees.csv", rows), "tree")
        plans.append(Plan([own.name], 2, 1, tmp_path, own=own, components=9))
    runs = [Run("trees", "sgd", 0, 1, plan.settings("sgd"), plan.part("trees")) for plan in plans]
    assert runs[0].file != runs[1].file
    assert runs[0].settings == {"rule": "sgd", "n_components": 9}
    assert len(data_of(runs[1]).x_train) == 96
    assert plans[0].published(STREAMING, "mnist") is None  # nothing is published of other data
    assert plans[0].classes("trees") == 2


def test_published_values_stand_beside_the_same_settings_only(tmp_path: Path) -> None:
    plan = Plan(["mnist"], 2, 1, tmp_path)
    assert plan.published(STREAMING, "mnist") == STREAMING["mnist"]
    assert Plan(["mnist"], 2, 1, tmp_path, components=16).published(STREAMING, "mnist") is None
    assert Plan(["mnist"], 2, 1, tmp_path, rule="natural").published(STREAMING, "mnist") is None


def test_differences_have_a_cause_or_are_unexplained() -> None:
    near = Pair("Initialisation", "mnist", "μ 0.1", Value(205.5, 1.1), Value(206.9, 0.1))
    far = near._replace(ours=Value(207.1, 0.1))
    assert (near.agrees, near.cause) == (True, "")
    assert (far.agrees, far.cause, far.limit) == (False, UNEXPLAINED, 1.5)
    assert Pair("Streaming", "mnist", "SGD", Value(216.6, 0.3), Value(215.9, 0.4)).agrees  # within 2 deviations
    steps = Pair("Streaming", "notmnist", "SGD", Value(-34.7, 1.2), Value(-73.0, 1.0))
    assert "NotMNIST by steps" in steps.cause


def test_exact_and_max_component_gradients_agree_where_components_are_apart() -> None:
    rng = np.random.default_rng(0)
    rows = (rng.integers(2, size=(400, 1)) + rng.normal(0, 0.1, (400, 3))).astype(np.float32)
    start = Model(np.zeros(2), np.array([[0.2] * 3, [0.8] * 3]), np.full((2, 3), 20**0.5))
    exact, top = (ascend(start, rows, objective, 0.002) for objective in ("exact", "max-component"))
    np.testing.assert_allclose(exact.means, top.means, atol=0.01)
    np.testing.assert_allclose(exact.means, [[0.0] * 3, [1.0] * 3], atol=0.06)
    np.testing.assert_array_equal(start.means, [[0.2] * 3, [0.8] * 3])  # the start is left as it is


def test_scores_are_those_of_the_mixture() -> None:
    rng = np.random.default_rng(0)
    mixture = Mixture.from_parameters([0.3, 0.7], rng.random((2, 5)), rng.uniform(1, 20, (2, 5)))
    x = rng.random((20, 5)).astype(np.float32)
    found = scores(mixture, x)
    np.testing.assert_allclose(found.max(1), mixture.max_component(x), rtol=1e-6)
    assert largest_share(found) == pytest.approx(mixture.responsibilities(x).max(1).mean(), rel=1e-6)


def test_only_the_plain_sum_fails_in_single_precision() -> None:
    found = failures(np.array([[-300.0, -301.0], [200.0, 10.0], [1.0, 0.5], [3.0, -101.0]]))
    assert found["sum underflows"] == found["sum overflows"] == 0.25
    assert found["no gradient of the sum"] == 0.5
    assert found["shares that vanish"] == 0.25  # e⁻¹⁹⁰, and the paper's e⁻¹⁰⁴
    assert found["log-sum-exp fails"] == 0
    assert found["log-sum-exp errs"] < 1e-4


def test_convergence_times_and_their_exponent() -> None:
    curve = [[1000.0 * i, 0.0, min(i, 20) / 20, 0.0, 0.0] for i in range(1, 41)]
    record = {"curve": curve, "times": [[10_000.0, 1.0], [40_000.0, 7.0]]}
    samples = settled(record, 0.0, "samples")
    assert 20_000 <= samples <= 24_000
    assert settled(record, 0.0, "seconds") == pytest.approx(1 + 6 * (samples - 10_000) / 30_000)
    assert np.isnan(settled({"curve": curve[:3], "times": []}, 0.0))
    assert exponent({16: 3.0, 64: 6.0, 256: 12.0}) == pytest.approx(0.5)


def test_tens_of_classes_are_drawn_where_there_are_more() -> None:
    tens = random_tens(46)
    assert all(len(set(ten)) == 10 and max(ten) < 46 for ten in tens)
    assert len({tuple(ten) for ten in tens}) == 12
    assert random_tens(10) == [list(range(10))]
