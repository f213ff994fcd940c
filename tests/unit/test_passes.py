"""How many passes a training makes by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.mixture import GaussianMixture

from streamgmm import StreamingGaussianMixture
from streamgmm.core.passes import (
    FINE_PASSES,
    MOST_PASSES,
    MOST_REFINED,
    MOST_SAMPLED,
    passes_for,
    rows_to_sample,
)
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.runs.train import RunOptions, TrainingRun
from streamgmm.sources import open_source

lengths, periods = st.integers(1, 10**9), st.integers(1, 10**5)


@given(st.integers(1, 10**4), periods, lengths)
def test_a_number_is_taken_as_it_is(passes: int, period: int, length: int) -> None:
    assert passes_for(passes, period, length, 10**6) == passes


@given(periods, lengths, st.integers(0, 10**6))
def test_more_rows_need_no_more_passes_unless_they_are_too_many_to_refine(
    period: int, length: int, numbers: int
) -> None:
    here, there = (passes_for("auto", period, n, numbers) for n in (length, length + 1))
    assert 1 <= here <= MOST_PASSES
    refined = length * numbers <= MOST_REFINED < (length + 1) * numbers
    assert there <= (max(here, FINE_PASSES) if refined else here)
    assert passes_for("auto", period, length) <= here


def test_examples() -> None:
    table, images = 2 * 64 * 24, 2 * 64 * 784
    assert passes_for("auto", 160, 100, table) == 256
    assert passes_for("auto", 160, 60_000, table) == 1  # and batch EM
    assert passes_for("auto", 160, 60_000, images) == 10
    assert passes_for("auto", 160, 300_000, images) == 3
    assert passes_for("auto", 160, 1_000_000, images) == 1
    assert passes_for("auto", 160, 60_000, 9 * images) == 3  # low rank: a pass takes longer
    assert passes_for("auto", 160, 60_000, 400 * images) == 1  # full


@pytest.fixture
def wide() -> np.ndarray:
    rng = np.random.default_rng(0)
    return rng.normal(rng.normal(size=(20, 800))[rng.integers(20, size=2200)], 0.5).astype(np.float32)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_files_and_arrays_get_as_many(wide: np.ndarray, tmp_path: Path) -> None:
    """Whether or not the width of the rows is known before the first chunk."""
    fitted = StreamingGaussianMixture(64, random_state=0).fit(wide)
    expected = passes_for("auto", 160, len(wide), 64 * 800 * 2)
    assert fitted.n_samples_seen_ == expected * len(wide)
    np.save(tmp_path / "x.npy", wide)
    (tmp_path / "run").mkdir()
    source = open_source(str(tmp_path / "x.npy"))
    run = TrainingRun(tmp_path / "run", source, Settings(64), Serial(), RunOptions(passes="auto"))
    for _ in run.go():
        pass
    assert run.progress.samples == run.expected_samples == expected * len(wide)
    assert not run.refined


@given(lengths, st.integers(1, 10**6))
def test_a_sample_has_rows_for_each_number(length: int, numbers: int) -> None:
    some = rows_to_sample(length, numbers)
    assert some * numbers <= MOST_SAMPLED
    assert some <= length
    assert some in (0, length) or some >= numbers


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
def test_correlations_are_refined_on_a_sample_of_many_rows(weighted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal([5, 100], [[1, 0.9], [0.9, 1]], 4000)
    monkeypatch.setattr("streamgmm.core.passes.MOST_REFINED", 2 * 5 * 1000)  # two components of five numbers
    monkeypatch.setattr("streamgmm.core.passes.LEAST_SAMPLED", 1000)
    sizes, refine = list[int](), Trainer.refine
    monkeypatch.setattr(
        Trainer, "refine", lambda self, rows, counts: sizes.append(len(rows)) or refine(self, rows, counts)
    )
    weights = np.full(len(x), 2.0) if weighted else None
    models = {kind: StreamingGaussianMixture(2, covariance_type=kind, random_state=0) for kind in ("full", "diag")}
    full, diag = (model.fit(x, sample_weight=weights) for model in models.values())
    assert sizes == [1000]  # once, before further passes
    assert full.n_samples_seen_ >= 3 * len(x)
    assert full.weights_.sum() == pytest.approx(1.0)
    assert full.score(x) > np.mean(diag.score(x)) + 0.3
    for other in ({"scale": "none"}, {"half_life": 1000.0}, {"n_epochs": 1}):
        StreamingGaussianMixture(2, covariance_type="full", **other).fit(x - x.mean(0))
    assert sizes == [1000]
    StreamingGaussianMixture(2, covariance_type="full", n_epochs=2).fit(x)
    assert sizes == [1000, 1000]


def test_one_pass_after_the_other_would_end_in_a_poor_maximum() -> None:
    """Elongated clusters side by side: annealing lays components across them, and EM on a sample sorts that out."""
    rng = np.random.default_rng(1)
    factors = rng.normal(0, 1, (6, 12, 12)) / 3 + 0.1 * np.eye(12)
    x = np.einsum("nij,nj->ni", factors[rng.integers(6, size=30_000)], rng.normal(size=(30_000, 12)))
    x, test = x[:20_000] + 1000.0, x[20_000:] + 1000.0
    model = StreamingGaussianMixture(6, covariance_type="full", n_epochs=3, random_state=0).fit(x)
    peer = GaussianMixture(6, random_state=0).fit(x - 1000.0)
    assert model.score(test) > peer.score(test - 1000.0) - 0.12


@pytest.mark.parametrize("kind", ["full", "low_rank"])
def test_a_number_of_passes_over_few_rows_is_as_good_as_auto(kind: str) -> None:
    """Rows that come again are no new evidence against the prior: EM on all of them has the last word."""
    rng = np.random.default_rng(0)
    mixing = rng.normal(0, 1, (20, 20)) / 4 + 0.5 * np.eye(20)
    x, test = rng.normal(size=(30, 20)) @ mixing, rng.normal(size=(2000, 20)) @ mixing
    auto, *others = (
        StreamingGaussianMixture(1, covariance_type=kind, n_epochs=n, random_state=0).fit(x).score(test)
        for n in ("auto", 2, 10)
    )
    assert min(others) > auto - 1
