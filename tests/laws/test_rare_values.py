"""Raw data with values that are rare: sparse columns, constants, and absurd values, which must do no harm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm import StreamingAnomalyDetector, StreamingGaussianMixture


def clusters(count: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).normal(0, 2, (5, 6))
    return rng.normal(centres[rng.integers(5, size=count)], 1.0)


def sparse(count: int, seed: int = 0) -> np.ndarray:
    """One column of clusters, and columns of zeros with one value in 20, 200 and 2000."""
    rng = np.random.default_rng(seed)
    zeros = np.where(rng.random((count, 3)) < [0.05, 0.005, 0.0005], rng.uniform(1, 5, (count, 3)), 0.0)
    return np.column_stack([clusters(count, seed)[:, :2], zeros])


class TestSparseColumns:
    def test_rare_values_cost_no_more_than_they_must(self) -> None:
        """A Gaussian with the variance of the column loses about x²/2V for a rare value."""
        x, test = sparse(40_000), sparse(10_000, seed=1)
        model = StreamingGaussianMixture(16, random_state=0).partial_fit(x)
        gaussian = -0.5 * (np.log(2 * np.pi * x.var(0)) + (test - x.mean(0)) ** 2 / x.var(0)).sum(1)
        assert model.score(test) > gaussian.mean()
        found = model.score_samples(test)
        rare = (test[:, 3:] > 0).any(1)
        assert 30 < rare.sum() < 100
        assert (found[rare] > 20 * gaussian[rare]).all()

    def test_every_rare_value_counts(self) -> None:
        """The variance of a column rests on a few of its values, and checks look at all of them."""
        x = sparse(40_000)
        model = StreamingGaussianMixture(4, random_state=0).partial_fit(x)
        drawn, _ = model.sample(20_000)
        np.testing.assert_allclose(drawn[:, 2:4].std(0), x[:, 2:4].std(0), rtol=0.2)

    @pytest.mark.parametrize("passes", [1, 20])
    def test_rows_that_keep_coming_are_learned(self, passes: int) -> None:
        """One row in 70 is far from all others, in a column that is zero elsewhere."""
        rng = np.random.default_rng(0)
        x = np.column_stack([clusters(1400), np.zeros(1400)])
        x[::70, 6] = rng.normal(16, 1, 20)
        model = StreamingGaussianMixture(16, random_state=0)
        for _ in range(passes):
            model.partial_fit(x[rng.permutation(len(x))])
        if passes > 1:
            assert model.score_samples(x[::70]).min() > -150
        assert model.n_rows_damped_ <= 20 * passes
        fitted = StreamingGaussianMixture(16, random_state=0).fit(x)
        assert fitted.score_samples(x[::70]).min() > -100

    @pytest.mark.parametrize("settings", [{}, {"rule": "sgd"}, {"covariance_type": "low_rank"}, {"batch_size": 8}])
    def test_the_first_rare_value_does_not_tell_how_far_others_reach(self, settings: dict[str, Any]) -> None:
        """A pixel that was 1 once, and is 200 in a few other images."""
        x = np.column_stack([clusters(20_000), np.zeros(20_000)])
        x[2000, 6] = 1.0
        x[[3000, 9000, 15_000], 6] = 200.0
        model = StreamingGaussianMixture(4, random_state=0, **settings)
        for _ in range(3):
            model.partial_fit(x)
        assert model.n_rows_damped_ == 0
        variance = model.mixture_.marginal([6]).covariances.ravel()
        assert (variance > 0.01 * x[:, 6].var()).all()
        x[5, 6] = 220.0
        assert model.score_samples(x[5:6]) > -1e6  # a likelihood with the variance of the column: -16 000


class TestConstantColumns:
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8])
    @pytest.mark.parametrize("fit", ["fit", "partial_fit"])
    def test_they_add_nothing_and_a_row_that_differs_is_the_strangest(self, dtype: Any, fit: str) -> None:
        x = (20 * clusters(2000) + 128).clip(0, 255).astype(dtype)
        wide = np.column_stack([x[:, :3], np.full(len(x), 7, dtype), x[:, 3:]])
        plain, model = (getattr(StreamingGaussianMixture(4, random_state=0), fit)(y) for y in (x, wide))
        assert model.score(wide) == pytest.approx(plain.score(x), abs=0.3)
        odd = wide[:5].copy()
        odd[:, 3] = 8
        extreme = wide[:5].copy()
        extreme[:, 0] = 255
        assert model.score_samples(odd).max() < model.score_samples(extreme).min() - 1e5
        np.testing.assert_array_equal(model.predict(odd), model.predict(wide[:5]))
        np.testing.assert_array_equal(model.sample(10)[0][:, 3], 7)
        assert np.flatnonzero(~np.isnan(model.mixture_.constants)).tolist() == [3]

    def test_gaps_do_not_differ(self) -> None:
        x = np.column_stack([clusters(2000), np.full(2000, -3.5)])
        model = StreamingGaussianMixture(4, allow_nan=True, random_state=0).partial_fit(x)
        row = x[:1].copy()
        row[0, 6] = np.nan
        assert model.score_samples(row)[0] == pytest.approx(model.score_samples(x[:1])[0])

    def test_a_detector_flags_it(self) -> None:
        x = np.column_stack([clusters(2000), np.full(2000, -3.5)])
        detector = StreamingAnomalyDetector(StreamingGaussianMixture(4, random_state=0)).fit(x)
        x[0, 6] = -3.4
        assert detector.predict(x[:1]).tolist() == [-1]


@pytest.mark.parametrize("n_components", [4, 64])
@pytest.mark.parametrize("where", ["spread", "start", "early", "middle"])
def test_absurd_values_do_no_harm(n_components: int, where: str) -> None:
    x, test = clusters(30_000), clusters(3000, seed=1)
    places = {
        "spread": np.random.default_rng(0).choice(30_000, 100, replace=False),
        "start": np.arange(100),
        "early": np.arange(300, 400),
        "middle": np.arange(15_000, 15_100),
    }
    clean = StreamingGaussianMixture(n_components, random_state=0).partial_fit(x).score(test)
    x[places[where]] = 1e6
    model = StreamingGaussianMixture(n_components, random_state=0).partial_fit(x)
    assert model.score(test) > clean - 0.2
    assert model.n_rows_damped_ >= 100


def test_many_extreme_rows_are_reported() -> None:
    x = clusters(4000)
    x[::50] = 1e9 * np.random.default_rng(0).normal(0, 1, (80, 6))
    with pytest.warns(UserWarning, match=r"samples were so extreme that they had little influence"):
        StreamingGaussianMixture(4, n_epochs=1, random_state=0).fit(x)


def test_fewer_rows_than_components() -> None:
    x = clusters(30)
    with pytest.warns(UserWarning, match="30 rows are fewer than the 64 components"):
        model = StreamingGaussianMixture(random_state=0).fit(x)
    assert np.isfinite(model.score_samples(clusters(100, seed=2))).all()


def test_losses_follow_the_frame_into_refinement() -> None:
    """What training reports stays in the units of the rows when all of them are measured at the end."""
    x = clusters(3000) * 1e3
    once = StreamingGaussianMixture(4, n_epochs=3, random_state=0).fit(x).trainer_.current().max_component
    refined = StreamingGaussianMixture(4, n_epochs="auto", random_state=0).fit(x).trainer_.current().max_component
    assert refined == pytest.approx(once, abs=0.5)


class TestGlitches:
    """One wrong value, or one wrong row, of thousands."""

    X = np.random.default_rng(0).permutation(
        np.concatenate(
            [np.random.default_rng(i).normal([6 * (i & 1), 3 * (i & 2), 2 * i], 1.0, (750, 3)) for i in range(4)]
        )
    )

    @pytest.mark.parametrize("value", [-999.0, 3e4, 1e6, -2147483648.0, 1e12])
    @pytest.mark.parametrize("place", [5, 1500])
    @pytest.mark.parametrize("whole_row", [False, True])
    @pytest.mark.parametrize("learn", ["fit", "partial_fit"])
    def test_it_does_no_harm(self, value: float, place: int, whole_row: bool, learn: str) -> None:
        """Wherever it is: in the first rows, too, from which scales are learned."""
        spoilt = self.X.copy()
        spoilt[place, : 3 if whole_row else 1] = value
        model, clean = (getattr(StreamingGaussianMixture(8, random_state=0), learn)(x) for x in (spoilt, self.X))
        assert abs(model.score(self.X) - clean.score(self.X)) < 0.03
        detector = getattr(StreamingAnomalyDetector(StreamingGaussianMixture(8, random_state=0)), learn)(spoilt)
        assert detector.predict(self.X[:1] + np.array([40.0, 0.0, 0.0])) == [-1]

    @pytest.mark.parametrize("kind", ["diag", "full", "low_rank"])
    @pytest.mark.parametrize("value", [1e4, 1e6, 1e12])
    def test_many_passes_over_few_rows_do_not_learn_it(self, kind: str, value: float) -> None:
        """The same row comes again in each of a hundred passes: that is no evidence."""
        clean = np.random.default_rng(1).normal(10, 2, (60, 3))
        spoilt, test = clean.copy(), np.random.default_rng(0).normal(10, 2, (2000, 3))
        spoilt[30, 0] = value
        there, here = (
            StreamingGaussianMixture(1, covariance_type=kind, rank=1, random_state=0).fit(x) for x in (clean, spoilt)
        )
        assert here.score(test) > there.score(test) - 0.2

    def test_values_that_are_not_lone_are_data(self) -> None:
        """One sensor in a hundred rows is in another state, from the first rows on."""
        x = self.X.copy()
        x[::50, 0] += 500.0
        model = StreamingGaussianMixture(8, random_state=0).partial_fit(x).partial_fit(x)
        assert model.score_samples(x[::50]).min() > -100


class TestFeaturesWithoutAnyValue:
    @pytest.mark.parametrize("kind", ["diag", "full", "low_rank"])
    @pytest.mark.parametrize("learn", ["fit", "partial_fit"])
    def test_their_values_count_as_missing(self, kind: str, learn: str) -> None:
        x = np.column_stack([clusters(2000), np.full(2000, np.nan)])
        model = StreamingGaussianMixture(4, covariance_type=kind, allow_nan=True, random_state=0)
        getattr(model, learn)(x)
        later = x[:50].copy()
        later[:, 6] = 1e6
        np.testing.assert_array_equal(model.score_samples(later), model.score_samples(x[:50]))
        np.testing.assert_array_equal(model.predict_proba(later), model.predict_proba(x[:50]))
        assert {reason.feature for reasons in model.explain(later, most=3) for reason in reasons} <= set(range(6))
        later[:, 0] = np.nan
        filled = model.impute(later)
        assert (filled[:, 6] == 1e6).all()
        assert np.isnan(model.impute(x[:50])[:, 6]).all()  # rather than a number that nobody has measured
        np.testing.assert_allclose(filled[:, :6], model.impute(np.where(later == 1e6, np.nan, later))[:, :6])
        drawn, _ = model.sample(5)
        assert np.isnan(drawn).all(0).tolist() == [False] * 6 + [True]
        assert np.isinf(model.mixture_.copy().constants).tolist() == [False] * 6 + [True]
        with pytest.raises(ValueError, match=r"no value of feature 6 was learned|not supported by to_onnx"):
            model.mixture_.to_onnx()
        for _ in range(5):
            model.partial_fit(np.column_stack([clusters(2000), np.random.default_rng(1).normal(50, 2, 2000)]))
        assert model.weights_ @ model.means_[:, 6] == pytest.approx(50, abs=1)
