"""How many passes a training makes by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import StreamingGaussianMixture
from streamgmm.core.passes import FINE_PASSES, MOST_PASSES, MOST_REFINED, passes_for
from streamgmm.core.settings import Settings
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
