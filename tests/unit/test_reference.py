"""Laws of thresholds and p-values, and of the sample of rows that they come from."""

from __future__ import annotations

from math import floor

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from streamgmm.monitoring.reference import FEWEST, MOST_SCORES, SMALLEST, Reference
from streamgmm.monitoring.reservoir import Reservoir, reservoir_size

seeds = st.integers(0, 2**32 - 1)
shares = st.floats(1e-4, 0.5)


def typical(seed: int, count: int) -> np.ndarray:
    """Scores as a mixture gives them: skewed, all different."""
    return -np.random.default_rng(seed).gamma(3.0, 2.0, count)


class TestThreshold:
    @given(seed=seeds, count=st.integers(FEWEST, MOST_SCORES), share=shares)
    def test_a_share_of_all_rows_is_below(self, seed: int, count: int, share: float) -> None:
        scores = typical(seed, count)
        below = int((scores < Reference.of(scores).threshold(share)).sum())
        assert below == floor(share * (count + 1) * (1 + 1e-12))

    @given(seed=seeds, one=shares, other=shares)
    def test_it_grows_with_the_share(self, seed: int, one: float, other: float) -> None:
        reference = Reference.of(typical(seed, 500))
        assert (reference.threshold(one) <= reference.threshold(other)) == (one <= other) or (
            reference.threshold(one) == reference.threshold(other)
        )

    @given(seed=seeds, share=shares)
    def test_it_agrees_with_p_values(self, seed: int, share: float) -> None:
        reference, new = Reference.of(typical(seed, 1000)), typical(seed + 1, 1000)
        flagged = new < reference.threshold(share)
        unlikely = reference.p_values(new) <= share
        if share >= 0.02:  # above the ten lowest scores, which a fitted tail takes over
            np.testing.assert_array_equal(flagged, unlikely)
        assert abs(int(flagged.sum()) - int(unlikely.sum())) <= 10

    @pytest.mark.parametrize("share", [0.001, 0.01, 0.1])
    def test_unseen_rows_are_flagged_as_often(self, share: float) -> None:
        """In the mean over many references it is the share, exactly."""
        found = [(typical(s + 1000, 2000) < Reference.of(typical(s, 999)).threshold(share)).mean() for s in range(400)]
        assert np.mean(found) == pytest.approx(share, rel=0.15)

    @pytest.mark.parametrize("outliers", [54, 81, 90])
    def test_outliers_in_the_reference_cost_no_false_alarms(self, outliers: int) -> None:
        """0.6, 0.9 and 1 % of 9000 rows: usual rows are not flagged in the place of those that are missing."""
        false, found = [], []
        for seed in range(40):
            scores = typical(seed, 9000)
            scores[:outliers] -= np.random.default_rng(seed).uniform(30, 200, outliers)
            threshold = Reference.of(scores).threshold(0.01)
            false.append((typical(seed + 1000, 9000) < threshold).sum())
            found.append((scores[:outliers] < threshold).mean())
        assert np.mean(false) < 0.1 * outliers
        assert max(false) < 0.2 * outliers
        assert min(found) > 0.95

    def test_few_outliers_do_not_change_what_is_flagged(self) -> None:
        scores = typical(0, 9000)
        scores[:20] -= 100.0
        assert (scores < Reference.of(scores).threshold(0.01)).sum() == 90

    def test_too_few_rows_say_nothing(self) -> None:
        reference = Reference.of(np.arange(FEWEST - 1.0))
        assert not reference.known
        assert reference.threshold(0.01) == -np.inf
        assert reference.p_values(np.array([-1e9, 0.0])).tolist() == [1.0, 1.0]

    def test_rows_that_count_twice(self) -> None:
        scores = typical(0, 300)
        twice, once = Reference.of(np.repeat(scores, 2)), Reference.of(scores, np.full(300, 2.0))
        for share in (0.01, 0.1, 0.3):
            assert twice.threshold(share) == once.threshold(share)


class TestPValues:
    @given(seed=seeds, count=st.integers(FEWEST, 3 * MOST_SCORES))
    def test_less_likely_rows_have_smaller_ones(self, seed: int, count: int) -> None:
        reference = Reference.of(typical(seed, count))
        scores = np.concatenate([-np.logspace(9, 1, 50), np.linspace(-10, 1, 200)])
        p = reference.p_values(scores)
        assert (np.diff(p) >= 0).all()
        assert (p >= SMALLEST).all()
        assert (p <= 1).all()

    @given(scores=arrays(np.float64, st.integers(FEWEST, 100), elements=st.floats(-1e6, 1e6)))
    def test_ties_and_constants(self, scores: np.ndarray) -> None:
        reference = Reference.of(scores)
        p = reference.p_values(np.sort(np.append(scores, [-1e7, 1e7])))
        assert (np.diff(p) >= 0).all()
        assert ((p > 0) & (p <= 1)).all()

    @pytest.mark.parametrize("heavy", [False, True])
    def test_one_at_a_time_they_are_the_same(self, heavy: bool) -> None:
        rng = np.random.default_rng(0)
        scores = -rng.pareto(3.0, 3000) if heavy else rng.normal(0, 3, 3000).round(1)  # with ties
        known = Reference.of(scores)
        asked = np.concatenate([scores[:500], known.scores[:30] - 0.05, rng.uniform(-60, 20, 500), [-1e9, 1e9]])
        assert [known.p_value(score) for score in asked.tolist()] == known.p_values(asked).tolist()
        assert Reference.of(scores[:5]).p_value(-9.0) == 1.0

    def test_they_are_uniform_far_into_the_tail(self) -> None:
        """Rows like the reference: below its lowest scores the tail is fitted, and errs on the cautious side."""
        found = np.concatenate([Reference.of(typical(s, 2000)).p_values(typical(500 + s, 100_000)) for s in range(20)])
        for share in (0.1, 0.01):
            assert (found <= share).mean() == pytest.approx(share, rel=0.1), share
        for share in (1e-3, 1e-4, 1e-5):
            assert share / 5 < (found <= share).mean() < 1.5 * share, share

    def test_a_long_reference_is_thinned(self) -> None:
        scores = typical(0, 50_000)
        reference = Reference.of(scores)
        assert len(reference.scores) <= MOST_SCORES
        for share in (0.001, 0.01, 0.2):
            assert (scores < reference.threshold(share)).mean() == pytest.approx(share, rel=0.02)


class TestReservoir:
    @given(seed=seeds, cuts=st.lists(st.integers(0, 700), max_size=6), memory=st.sampled_from([np.inf, 90.0]))
    def test_chunks_leave_no_trace(self, seed: int, cuts: list[int], memory: float) -> None:
        rows = np.arange(700.0)[:, None]
        counts = np.random.default_rng(seed).choice([0.0, 0.5, 1.0, 2.0], 700)
        whole, parts = Reservoir(50, memory), Reservoir(50, memory)
        whole.add(rows, counts)
        for part in np.split(np.arange(700), sorted(cuts)):
            parts.add(rows[part], counts[part])
        np.testing.assert_array_equal(parts.rows, whole.rows)
        assert (parts.seen, parts.weight) == (whole.seen, pytest.approx(whole.weight))

    @given(cut=st.integers(0, 500), memory=st.sampled_from([np.inf, 40.0]))
    def test_a_file_leaves_no_trace(self, cut: int, memory: float) -> None:
        rows = np.arange(1000.0).reshape(500, 2)
        whole, first = Reservoir(30, memory), Reservoir(30, memory)
        whole.add(rows)
        first.add(rows[:cut])
        again = Reservoir.from_tensors(**first.tensors())
        again.add(rows[cut:])
        np.testing.assert_array_equal(again.rows, whole.rows)
        assert again.tensors()["numbers"].tolist() == whole.tensors()["numbers"].tolist()

    def test_every_row_has_the_same_chance(self) -> None:
        """Chi-square over ten parts of a stream: 200 000 rows, 2000 of them kept."""
        sample = Reservoir(2000)
        sample.add(np.arange(200_000.0)[:, None])
        found = np.histogram(sample.rows, bins=10, range=(0, 200_000))[0]
        assert ((found - 200) ** 2 / 200).sum() < 27.9  # 0.1 %
        assert len(np.unique(sample.rows)) == 2000

    def test_a_row_that_counts_more_is_kept_more_often(self) -> None:
        rows = np.tile([[0.0], [1.0]], (50_000, 1))
        sample = Reservoir(2000)
        sample.add(rows, np.tile([1.0, 3.0], 50_000))
        assert sample.rows.mean() == pytest.approx(0.75, abs=0.05)

    def test_rows_that_do_not_count_are_never_kept(self) -> None:
        sample = Reservoir(100)
        sample.add(np.arange(5000.0)[:, None], (np.arange(5000) % 2).astype(np.float64))
        assert (sample.rows % 2 == 1).all()

    def test_the_past_is_forgotten(self) -> None:
        sample = Reservoir(2000, memory=5000)
        sample.add(np.arange(100_000.0)[:, None])
        ages = 100_000 - sample.rows
        assert np.median(ages) == pytest.approx(5000 * np.log(2), rel=0.1)

    def test_its_size(self) -> None:
        assert reservoir_size(12, np.dtype(np.float64), 16 * 12 * 16) == 2000
        assert reservoir_size(3072, np.dtype(np.float32), 0) * 3072 * 4 <= 1 << 22
        assert reservoir_size(10**6, np.dtype(np.float64), 0) == 100

    @pytest.mark.parametrize("numbers", [[1, 0, 5, 5], [5000, 0, 5, 5], [30, -1, 5, 5], [30, 0, 5, -5]])
    def test_damage(self, numbers: list[float]) -> None:
        with pytest.raises(ValueError, match="the sample of rows is damaged"):
            Reservoir.from_tensors(np.zeros((5, 2)), np.array(numbers, np.float64))
