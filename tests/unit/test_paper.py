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
from streamgmm.paper.plan import Plan, Table, better, expected_seconds, shown, summary, verdict
from streamgmm.paper.published import Value
from streamgmm.paper.runs import Run
from streamgmm.paper.training_runs import _patch


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


def test_every_published_table_has_every_data_set() -> None:
    assert set(published.INITIALISATION) == set(published.STREAMING) == set(published.NAMES)
    assert len(streaming.GRID) == 27


def test_fruits_get_three_seeds_and_quick_gets_one(tmp_path: Path) -> None:
    plan = Plan(["mnist", "fruits360"], 10, 2, tmp_path)
    assert [len(plan.seeds_of(n)) for n in plan.names] == [10, 3]
    assert len(Plan(["mnist"], 10, 2, tmp_path, quick=True).seeds_of("mnist")) == 1


def test_what_has_a_record_takes_no_time(tmp_path: Path) -> None:
    plan = Plan(["mnist"], 1, 1, tmp_path)
    run = Run("mnist", "sgd", 0, 3, {"rule": "sgd"}, {})
    assert plan.seconds([run, run]) > 0.5
    (tmp_path / run.file).write_text('{"results": {}}')
    assert plan.seconds([run]) == 0
    assert expected_seconds(Run("fruits360", "sgd", 0, 3)) > 10 * expected_seconds(Run("mnist", "sgd", 0, 1))


def test_patches_come_from_the_middle() -> None:
    images = np.arange(2 * 4 * 4, dtype=np.uint8).reshape(2, 16)
    data = Dataset("mnist", images, np.zeros(2, np.int64), images, np.zeros(2, np.int64), (4, 4))
    cut = _patch(data, 2)
    assert cut.x_train.tolist() == [[5, 6, 9, 10], [21, 22, 25, 26]]
    assert cut.shape == (2, 2)
