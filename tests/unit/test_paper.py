"""Parts of the paper tables: clustering indices, comparisons, plans and data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.spatial.distance import cdist

from streamgmm.datasets import Dataset
from streamgmm.paper import published, streaming
from streamgmm.paper.clustering_indices import BLOCK, davies_bouldin, dunn_index
from streamgmm.paper.comparison import better, shown, summary, verdict
from streamgmm.paper.durations import expected_seconds
from streamgmm.paper.layer_runs import auc, right_half_error
from streamgmm.paper.markdown_table import Table
from streamgmm.paper.measurements import feed, index_key, measure, trainer_of
from streamgmm.paper.plan import Plan
from streamgmm.paper.published import Value
from streamgmm.paper.run_data import patches
from streamgmm.paper.runs import Run


def dunn_by_hand(x: np.ndarray, labels: np.ndarray) -> float:
    d = cdist(x, x)
    same = labels[:, None] == labels[None]
    return d[~same].min() / d[same].max()


@given(seed=st.integers(0, 2**32 - 1), count=st.integers(3, 60), clusters=st.integers(2, 5))
def test_the_dunn_index_is_exact(seed: int, count: int, clusters: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 4)).astype(np.float32)
    labels = np.append(np.arange(2), rng.integers(clusters, size=count - 2))
    if len(np.unique(labels)) == count:
        return
    np.testing.assert_allclose(dunn_index(x, labels), dunn_by_hand(x, labels), rtol=1e-9)


def test_the_dunn_index_over_several_blocks() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2 * BLOCK + 100, 3)).astype(np.float32)
    labels = rng.integers(4, size=len(x))
    x[labels == 3] += 50
    np.testing.assert_allclose(dunn_index(x, labels), dunn_by_hand(x, labels), rtol=1e-9)
    far = (labels == 3).astype(np.int64)
    np.testing.assert_allclose(dunn_index(x, far), dunn_by_hand(x, far), rtol=1e-9)


def test_one_cluster_has_no_index() -> None:
    x = np.zeros((5, 2), np.float32)
    assert np.isnan(dunn_index(x, np.zeros(5, np.int64)))
    assert np.isnan(davies_bouldin(x, np.zeros(5, np.int64)))


def test_verdicts_are_computed_not_copied() -> None:
    sgd, sem = published.STREAMING["devanagari"][1:]
    assert verdict(sgd, sem, ("SGD", "sEM")) == "even"  # the paper prints SGD bold although sEM is higher
    assert verdict(*published.STREAMING["svhn"][1:], ("SGD", "sEM")) == "SGD"
    assert verdict(Value(2.0, 0.1), Value(2.2, 0.1), ("a", "b"), more=False) == "a"
    assert not better(Value(1.0, 0.5), Value(0.9, 0.0))
    assert better(Value(1.0, 0.1), Value(0.9, 0.0))


def test_summaries() -> None:
    assert summary([1.0, 3.0]) == Value(2.0, pytest.approx(2**0.5))
    assert summary([1.0, float("nan")]) == Value(1.0, 0.0)
    assert shown(Value(1.26, 0.31)) == "1.3 ± 0.3"
    assert shown(Value(1.26), 2, bold=True) == "**1.26**"
    assert shown(None) == "–"
    table = Table("T", "words", ["a", "b"], [[1, "x"]])
    assert table.markdown().splitlines()[-1] == "| 1 | x |"
    assert Table("T", "words", ["a", "b"], [[1, "–"]]).without_empty_columns() == Table("T", "words", ["a"], [[1]])


def test_every_published_table_has_every_data_set() -> None:
    assert set(published.INITIALISATION) == set(published.STREAMING) == set(published.NAMES)
    assert len(streaming.GRID) == 27


def test_fruits_get_three_seeds_and_quick_gets_one(tmp_path: Path) -> None:
    plan = Plan(["mnist", "fruits360"], 10, 2, tmp_path)
    assert [len(plan.seeds_of(n)) for n in plan.names] == [10, 3]
    assert len(Plan(["mnist"], 10, 2, tmp_path, quick=True).seeds_of("mnist")) == 1


def test_recorded_runs_take_no_time(tmp_path: Path) -> None:
    plan = Plan(["mnist"], 1, 1, tmp_path)
    run = Run("mnist", "sgd", 0, 3, {"rule": "sgd"}, {})
    assert plan.seconds([run, run]) > 0.5
    (tmp_path / run.file).write_text('{"results": {}}')
    assert plan.seconds([run]) == 0
    assert expected_seconds(Run("fruits360", "sgd", 0, 3)) > 10 * expected_seconds(Run("mnist", "sgd", 0, 1))


def test_patches_come_from_the_middle() -> None:
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 16)
    data = Dataset("mnist", images, np.zeros(2, np.int64), images, np.zeros(2, np.int64), (4, 4))
    cut = patches(data, 2)
    assert cut.x_train.tolist() == [[5, 6, 9, 10], [21, 22, 25, 26]]
    assert cut.shape == (2, 2)


def test_bytes_are_learned_like_floats() -> None:
    rows = np.random.default_rng(0).integers(256, size=(500, 10)).astype(np.uint8)
    run, order = Run("mnist", "natural", 3, 1, {"rule": "natural", "n_components": 4}), np.arange(500)
    of_bytes, of_floats = trainer_of(run, 10), trainer_of(run, 10)
    checks = feed(of_bytes, rows, order)
    feed(of_floats, rows.astype(np.float32) * np.float32(1 / 255), order)
    assert len(checks) == 500 // of_bytes.schedule.period
    np.testing.assert_allclose(of_bytes.mixture.means, of_floats.mixture.means, rtol=1e-5)


@pytest.mark.parametrize(
    "run",
    [
        Run("isolet", "sgd", 0, 2, {"rule": "sgd"}),
        Run("isolet", "natural", 0, 1, {"rule": "natural", "natural": {"recruits": 0.1}, "half_life": 500}),
        Run("isolet", "sem", 0, 1, {"rule": "sem", "sem": {"step_init": 0.05}, "period": 100}, {"clusters": [50, 100]}),
        Run(
            "isolet",
            "sgd",
            0,
            1,
            {"rule": "sgd"},
            {"all_but": [0], "start_classes": [0], "rows": 200, "test_on": "all"},
        ),
        Run("isolet", "batch", 0, 3),
    ],
    ids=lambda run: f"{run.method}-{len(run.data)}",
)
def test_runs_are_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: Run) -> None:
    rng = np.random.default_rng(0)
    labels = np.arange(1, 701) % 3 + 1
    x = np.clip(rng.normal(labels[:, None] / 2 - 1, 0.2, (700, 8)), -1, 1).astype(np.float32)
    np.savez(tmp_path / "isolet.npz", x_train=x[:600], y_train=labels[:600], x_test=x[600:], y_test=labels[600:])
    monkeypatch.setenv("STREAMGMM_DATA", str(tmp_path))
    found = measure(run)
    assert len(found["passes"]) == (1 if run.method == "batch" else run.passes)
    last = found["passes"][-1]
    assert last["max_component"] <= last["log_likelihood"]
    assert 0 < last["responsibility"] <= 1
    assert 1 <= last["live"] <= 64
    if run.method != "batch":
        assert last["samples"] == run.passes * (200 if "rows" in run.data else 600)
    for count in (50, 100):
        assert (index_key("dunn", count) in last) == bool(run.data.get("clusters"))
    if run.data.get("test_on") == "all":
        assert last["auc"] > 0.9  # the class left out is far away
        assert last["max_component_seen"] > last["max_component"]


def test_auc_counts_pairs_and_halves_of_ties() -> None:
    usual, strange = np.array([1.0, 2.0, 2.0, 4.0]), np.array([2.0, 0.0])
    pairs = [(s < u) + 0.5 * (s == u) for s in strange for u in usual]
    assert auc(usual, strange) == pytest.approx(np.mean(pairs))
    assert auc(usual, usual + 10) == 0


def test_only_right_halves_count() -> None:
    images, filled = np.zeros((2, 784)), np.zeros((2, 28, 28))
    filled[:, :, :14] = 9
    filled[:, :, 14:] = 2
    assert right_half_error(images, filled.reshape(2, -1)) == 4
