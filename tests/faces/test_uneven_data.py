"""Weights, missing values, absurd samples and drift, as users of the estimator meet them."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm import SGD, Natural, StochasticEM, StreamingAnomalyDetector, StreamingGaussianMixture
from tests.conftest import make_trainer

RULES = ["sgd", "natural", "sem"]
SMALL = {"n_components": 9, "period": 50, "random_state": 0}
both_scales = pytest.mark.parametrize("scale", ["auto", "none"])
quiet = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(count: int, features: int = 6, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(rng.choice([0.2, 0.8], (count, 1)), 0.1, (count, features))


def assert_same(here: StreamingGaussianMixture, there: StreamingGaussianMixture) -> None:
    for name in ("weights_", "means_", "precisions_"):
        np.testing.assert_array_equal(getattr(here, name), getattr(there, name))


class TestWeights:
    @both_scales
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("threads", [1, 2])
    def test_integers_are_repeats(self, rule: str, threads: int, scale: str) -> None:
        x, weights = rows(300), np.random.default_rng(1).integers(0, 5, 300)
        one, other = (StreamingGaussianMixture(rule=rule, n_jobs=threads, scale=scale, **SMALL) for _ in range(2))
        assert_same(one.partial_fit(x, sample_weight=weights), other.partial_fit(np.repeat(x, weights, axis=0)))
        assert one.n_samples_seen_ == weights.sum()

    @quiet
    @both_scales
    @pytest.mark.parametrize("rule", RULES)
    def test_fit_shuffles_the_repeats(self, rule: str, scale: str) -> None:
        x, weights = rows(300), np.random.default_rng(1).integers(0, 5, 300)
        one, other = (StreamingGaussianMixture(rule=rule, scale=scale, **SMALL) for _ in range(2))
        assert_same(one.fit(x, sample_weight=weights), other.fit(np.repeat(x, weights, axis=0)))

    def test_a_rest_is_a_smaller_step(self) -> None:
        x = rows(1)
        start = {"means_init": np.zeros((1, 6)), "precisions_init": np.full((1, 6), 2.0), "n_components": 1}

        def mean_after(weight: float) -> np.ndarray:
            model = StreamingGaussianMixture(rule=SGD(0.01, 0.01), scale="none", random_state=0, **start)
            return model.partial_fit(x, sample_weight=[weight]).means_[0]

        np.testing.assert_allclose(mean_after(0.25), 0.25 * mean_after(1.0), rtol=1e-12)
        np.testing.assert_allclose(mean_after(0.25), 0.01 * 0.25 * 2 * x[0], rtol=1e-12)
        assert (abs(mean_after(1.5)) > abs(mean_after(1.0))).all()

    @pytest.mark.filterwarnings("ignore:data reach")
    @both_scales
    @given(
        cuts=st.lists(st.integers(0, 400), max_size=6), batch_size=st.sampled_from([1, 7]), rule=st.sampled_from(RULES)
    )
    def test_chunks_do_not_matter(self, cuts: list[int], batch_size: int, rule: str, scale: str) -> None:
        x = rows(400)
        x[np.random.default_rng(2).random(x.shape) < 0.2] = np.nan
        x[17] = np.nan
        x[40] = 1e6
        weights = np.random.default_rng(3).choice([0, 0.3, 1, 2.5], 400)
        weights[40] = 1
        settings = {"rule": rule, "batch_size": batch_size, "allow_nan": True, "scale": scale, **SMALL}
        whole = StreamingGaussianMixture(**settings).partial_fit(x, sample_weight=weights)
        parts = StreamingGaussianMixture(**settings)
        edges = sorted({0, 400, *cuts})
        for a, b in pairwise(edges):
            if weights[a:b].any():
                parts.partial_fit(x[a:b], sample_weight=weights[a:b])
        assert_same(whole, parts)

    def test_score_is_weighted(self) -> None:
        x = rows(200)
        model = StreamingGaussianMixture(**SMALL).partial_fit(x)
        values, weights = model.score_samples(x), np.arange(200.0)
        assert model.score(x, sample_weight=weights) == pytest.approx((values @ weights) / weights.sum())

    @pytest.mark.parametrize(
        ("weights", "message"),
        [
            (np.full(50, -1.0), "[Nn]egative"),
            (np.ones(49), "has 49 entries; expected 50"),
            (np.ones((50, 1)), "shape"),
            (np.zeros(50), "zero"),
            (np.full(50, np.nan), "NaN"),
        ],
    )
    def test_bad_weights_leave_the_model_alone(self, weights: np.ndarray, message: str) -> None:
        model = StreamingGaussianMixture(**SMALL)
        for method in (model.partial_fit, model.fit):
            with pytest.raises(ValueError, match=message):
                method(rows(50), sample_weight=weights)
        assert not hasattr(model, "means_")
        model.partial_fit(rows(50))
        before = model.means_
        with pytest.raises(ValueError, match=message):
            model.partial_fit(rows(50), sample_weight=weights)
        with pytest.raises(ValueError, match=message):
            model.score(rows(50), sample_weight=weights)
        np.testing.assert_array_equal(model.means_, before)

    def test_large_weights_need_little_memory(self) -> None:
        import tracemalloc

        x = rows(2, 2000).astype(np.float32)
        model = StreamingGaussianMixture(1, random_state=0).partial_fit(x)
        tracemalloc.start()
        model.partial_fit(x, sample_weight=[20_000, 20_000])
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak < 150e6  # the rows themselves would be 320 MB
        assert model.n_samples_seen_ == 40_002

    def test_weights_that_were_divided_by_their_sum_are_warned_of(self) -> None:
        x = np.random.default_rng(0).random((500, 3))
        with pytest.warns(UserWarning, match=r"largest sample weight is 0\.002; weights are counts"):
            StreamingGaussianMixture(4, random_state=0).partial_fit(x, sample_weight=np.full(500, 1 / 500))


class TestMissingValues:
    def test_the_tag_follows(self) -> None:
        for allowed in (False, True):
            model = StreamingGaussianMixture(allow_nan=allowed)
            assert model.__sklearn_tags__().input_tags.allow_nan is allowed
            assert StreamingAnomalyDetector(model).__sklearn_tags__().input_tags.allow_nan is allowed
        assert not StreamingAnomalyDetector().__sklearn_tags__().input_tags.allow_nan

    def test_without_leave_the_remedy_is_named(self) -> None:
        x = rows(50)
        x[3, 2] = np.nan
        with pytest.raises(ValueError, match=r"row 3 of X contains NaN at feature 2.*allow_nan=True"):
            StreamingGaussianMixture(**SMALL).partial_fit(x)

    def test_infinity_never_passes(self) -> None:
        x = rows(50)
        x[3, 1], x[3, 2] = np.nan, np.inf
        with pytest.raises(ValueError, match=r"row 3 of X contains inf at feature 2"):
            StreamingGaussianMixture(allow_nan=True, **SMALL).partial_fit(x)

    @both_scales
    @pytest.mark.parametrize("rule", RULES)
    def test_empty_rows_are_counted_and_skipped(self, rule: str, scale: str, tmp_path: Path) -> None:
        x = rows(300)
        holes = x.copy()
        holes = np.insert(holes, [0, 50, 50], np.nan, axis=0)
        settings = {"rule": rule, "allow_nan": True, "batch_size": 3, "scale": scale, **SMALL}
        with_holes, without = (StreamingGaussianMixture(**settings).partial_fit(d) for d in (holes, x))
        assert_same(with_holes, without)
        assert (with_holes.n_rows_skipped_, without.n_rows_skipped_) == (3, 0)
        with_holes.partial_fit(np.array([[0.5, np.nan, 0, 0, 0, 0]]))
        with_holes.save(tmp_path / "m.safetensors")
        again = StreamingGaussianMixture.load(tmp_path / "m.safetensors")
        assert again.n_rows_skipped_ == 3
        assert_same(again.partial_fit(x), with_holes.partial_fit(x))

    @both_scales
    @pytest.mark.parametrize("rule", RULES)
    def test_gaps_hardly_hurt(self, rule: str, scale: str) -> None:
        x, test = rows(20_000), rows(2000, seed=1)
        holes = np.where(np.random.default_rng(1).random(x.shape) < 0.3, np.nan, x)
        settings = {"rule": rule, "n_components": 4, "random_state": 0, "allow_nan": True, "precision_max": 200}
        settings["scale"] = scale
        whole, parts = (StreamingGaussianMixture(**settings).partial_fit(d).score(test) for d in (x, holes))
        assert parts == pytest.approx(whole, abs=0.4 if rule == "sgd" else 0.15)  # fewer steps for each feature

    @both_scales
    @pytest.mark.parametrize("rule", RULES)
    def test_allowing_gaps_changes_nothing_where_there_are_none(self, rule: str, scale: str) -> None:
        settings = {"rule": rule, "scale": scale, **SMALL}
        one, other = (
            StreamingGaussianMixture(allow_nan=allow, **settings).partial_fit(rows(500)) for allow in (False, True)
        )
        assert_same(one, other)

    def test_a_k_means_start_cannot(self) -> None:
        with pytest.raises(ValueError, match="k-means start does not support missing values"):
            StreamingGaussianMixture(rule=StochasticEM(start_from="kmeans"), allow_nan=True).partial_fit(rows(100))

    def test_a_detector_takes_them(self) -> None:
        x = rows(4000)
        x[np.random.default_rng(0).random(x.shape) < 0.1] = np.nan
        detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, allow_nan=True, random_state=0)).fit(x)
        assert 0.005 < (detector.predict(x) == -1).mean() < 0.015


class TestAbsurdSamples:
    @pytest.mark.filterwarnings("ignore:data reach")
    @both_scales
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("at", [0, 30, 3000])
    @pytest.mark.parametrize("batch_size", [1, 8])
    def test_a_burst_is_forgotten(self, rule: str, at: int, batch_size: int, scale: str) -> None:
        x, test = rows(12_000), rows(1000, seed=1)
        settings = {"rule": rule, "batch_size": batch_size, "scale": scale, **SMALL}
        clean = StreamingGaussianMixture(**settings).partial_fit(x).score(test)
        x[at : at + 100] = 1e6
        burst = StreamingGaussianMixture(**settings).partial_fit(x)
        assert burst.score(test) == pytest.approx(clean, abs=0.35)
        assert abs(burst.means_).max() < 10

    def test_a_burst_among_the_first_rows_is_learned_in_any_chunks(self, tmp_path: Path) -> None:
        """Where it is unclear which of the first rows are absurd, more of them are awaited."""
        x = rows(1000)
        x[20:120] = 1e6 * np.random.default_rng(1).normal(size=(100, 6))
        whole, parts = (StreamingGaussianMixture(batch_size=3, **SMALL) for _ in range(2))
        whole.partial_fit(x)
        for part in np.split(x, [1, 199, 200, 201, 390, 400, 770]):
            parts.partial_fit(part).save(tmp_path / "m")
            parts = StreamingGaussianMixture.load(tmp_path / "m")
        assert_same(whole, parts)
        assert whole.n_rows_damped_ == parts.n_rows_damped_ == 100
        assert abs(whole.means_).max() < 10

    @pytest.mark.parametrize("value", [1e3, 1e6, 1e12])
    def test_a_change_of_units_is_no_burst(self, value: float) -> None:
        model = StreamingGaussianMixture(4, half_life=1000, random_state=0).partial_fit(rows(3000))
        model.partial_fit(value * rows(6000, seed=1))
        plain = StreamingGaussianMixture(4, half_life=1000, random_state=0).partial_fit(value * rows(6000, seed=1))
        test = value * rows(1000, seed=2)
        assert model.score(test) > plain.score(test) - 0.5

    @pytest.mark.parametrize("rule", RULES)
    def test_a_stream_that_moves_is_followed(self, rule: str) -> None:
        far = 3 if rule == "sgd" else 50  # the steps of SGD depend on the scale of the data
        model = StreamingGaussianMixture(4, rule=rule, period=200, random_state=0, reheat=True).partial_fit(
            rows(10_000)
        )
        model.partial_fit(rows(20_000) + far)
        assert model.score(rows(1000) + far) > -8


class TestDrift:
    @pytest.mark.parametrize("rule", RULES)
    @pytest.mark.parametrize("threads", [1, 2])
    def test_a_change_is_noticed_once(self, rule: str, threads: int) -> None:
        trainer = make_trainer(6, threads=threads, n_components=4, rule=rule, period=200)
        before = trainer.feed(rows(20_000))
        after = trainer.feed(1 - 2 * rows(20_000, seed=1))
        assert not any(check.drift for check in before)
        assert [20_000 < c.samples <= 21_500 for c in after if c.drift] == [True]

    @pytest.mark.parametrize("rule", ["sgd", "natural"])
    def test_reheating_widens_and_narrows(self, rule: str) -> None:
        model = StreamingGaussianMixture(16, rule=rule, period=200, reheat=True, random_state=0)
        model.partial_fit(rows(40_000))
        assert model.sigma_ == 0.01
        checks = model.trainer_.feed(1 - 2 * rows(40_000, seed=1))
        at = next(i for i, check in enumerate(checks) if check.drift)
        assert checks[at].sigma == pytest.approx(0.2)
        assert checks[at].learning_rate > 0.005
        assert checks[-1].sigma == 0.01

    def test_recruits_go_where_samples_fall_and_reheating_forgets(self) -> None:
        rng = np.random.default_rng(0)
        old = rng.normal(rng.random((40, 20))[rng.integers(40, size=30_000)], 0.05)
        new = rng.normal(1.0 + rng.random((8, 20))[rng.integers(8, size=2000)], 0.05)

        def after(**settings: object) -> tuple[int, float]:
            model = StreamingGaussianMixture(49, random_state=0, precision_max=400, **settings).partial_fit(old)
            model.partial_fit(new)
            return len(np.unique(model.predict(new))), model.score(old[:2000])

        plain, recruiting, reheated = after(), after(rule=Natural(recruits=0.18)), after(reheat=True)
        assert recruiting[0] > plain[0]
        assert recruiting[1] > reheated[1] + 10
