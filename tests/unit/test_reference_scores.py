"""Thresholds and p-values against their equations."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgmm.core import reference_thresholds as eq
from streamgmm.core.batch_em import Fit, Sheet, iterate
from streamgmm.core.refinement import FEWEST, FOLDS, GONE, ITERATIONS, NEIGHBOURS, cross_validated
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Serial
from streamgmm.monitoring import Reference


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(200, 1900), heavy=st.booleans())
def test_p_values(seed: int, count: int, heavy: bool) -> None:
    """[E32]"""
    rng = np.random.default_rng(seed)
    scores = -(rng.standard_t(2, count) ** 2 if heavy else rng.chisquare(6, count))
    reference = Reference.of(scores)
    asked = np.concatenate([rng.choice(scores, 5), rng.choice(scores, 5) * 1.01, [scores.min() - 5, scores.max() + 1]])
    expected = [max(eq.p_value(float(s), scores), 1e-12) for s in asked]
    np.testing.assert_allclose(reference.p_values(asked), expected, rtol=1e-9)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(20, 1999), share=st.floats(1e-4, 0.49))
def test_the_threshold_flags_the_share_that_was_asked_for(seed: int, count: int, share: float) -> None:
    scores = np.random.default_rng(seed).normal(size=count)
    threshold = Reference.of(scores).threshold(share)
    assert (scores < threshold).sum() == int(share * (count + 1) * (1 + 1e-12))


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(20, 1999),
    values=st.integers(1, 50),
    share=st.floats(1e-3, 0.49),
)
def test_equal_scores_are_flagged_together_or_not_at_all(seed: int, count: int, values: int, share: float) -> None:
    """[E32]"""
    rng = np.random.default_rng(seed)
    scores = -rng.integers(0, values, count).astype(np.float64)
    reference = Reference.of(scores)
    assert (scores < reference.threshold(share)).sum() <= share * (count + 1) * (1 + 1e-12)
    counted = np.sort(scores)[9:]
    asked = np.concatenate([rng.choice(counted, 5), rng.choice(counted, 5) + 0.5])
    np.testing.assert_allclose(reference.p_values(asked), [eq.p_value(float(s), scores) for s in asked], rtol=1e-9)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1200, 1900),
    outliers=st.floats(0.0, 0.02),
    away=st.floats(5.0, 300.0),
    share=st.sampled_from([0.01, 0.02, 0.05]),
    caution=st.sampled_from([1.25, 2.0]),
)
def test_outliers(seed: int, count: int, outliers: float, away: float, share: float, caution: float) -> None:
    """[E44]"""
    rng = np.random.default_rng(seed)
    scores = -rng.chisquare(6, count)
    scores[: int(outliers * count)] -= away * rng.random(int(outliers * count))
    expected, reference = eq.end_of_outliers(scores, share, caution), Reference.of(scores, None, caution)
    evident = 0 if expected is None else int((scores < expected).sum())
    assert reference.outlier_threshold(share) == pytest.approx(-np.inf if expected is None else expected, rel=1e-9)
    flagged = int(share * (count + 1) * (1 + 1e-12))
    if evident >= share / 2 * (count + 1):
        flagged = evident
    assert (scores < reference.threshold(share)).sum() == flagged


def test_cross_validation() -> None:
    """[E31] Each fold is ten iterations of EM from the fit to all samples."""
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(0, 1, (300, 2)), rng.normal(6, 1, (300, 2))])
    trainer = Trainer(Settings(3), 2, engine=Serial(), seed=0)
    trainer.feed(rng.permutation(x))
    trainer.flush()
    p, state = trainer.parameters, trainer._main.state
    assert trainer._standard is not None
    start = Fit(p, state.moments, state.prior, trainer._bounds).copy()  # type: ignore[attr-defined]
    start.prior.evidence[:] = 200.0

    def fit(rows: np.ndarray, fold: int):  # type: ignore[no-untyped-def]
        found = start.copy()
        for _ in range(ITERATIONS):
            iterate(Sheet(rows, np.ones(len(rows))), found)
            found.parameters.logits[found.masses < FEWEST] = GONE
        return lambda some: found.parameters.kind.score(found.parameters, some).log_likelihood

    expected = eq.cross_validated_scores(x, fit, NEIGHBOURS, FOLDS)
    np.testing.assert_array_equal(cross_validated(Sheet(x, np.ones(len(x))), start), expected)
    assert expected[:300].mean() == pytest.approx(expected[300:].mean(), abs=1.0)
