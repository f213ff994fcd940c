"""Raw data: what features are measured in changes nothing but the units of the answers."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from streamgmm import StreamingGaussianMixture
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import Trainer
from streamgmm.engines import engine_for

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def rows(count: int = 3000, features: int = 4, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(5).normal(0, 2, (5, features))
    return rng.normal(centres[rng.integers(5, size=count)], 0.7)


def trained(x: np.ndarray, threads: int = 1, **changes: object) -> Trainer:
    options = Settings(**{"n_components": 6, "scale": "auto", **changes})  # type: ignore[arg-type]
    trainer = Trainer(options, x.shape[1], x.dtype, engine=engine_for(threads), seed=3)
    trainer.feed(x)
    return trainer


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("batch_size", [1, 16])
@given(powers=st.lists(st.integers(-20, 20), min_size=4, max_size=4), mirrored=st.integers(0, 15))
@settings(max_examples=10)
def test_powers_of_two_change_no_winner(dtype: type, batch_size: int, powers: list[int], mirrored: int) -> None:
    x = rows(1500).astype(dtype)
    a = np.array([(-1.0 if mirrored >> i & 1 else 1.0) * 2.0**p for i, p in enumerate(powers)], dtype)
    here, there = trained(x, batch_size=batch_size), trained(x * a, batch_size=batch_size)
    np.testing.assert_array_equal(here.parameters.means, there.parameters.means)
    np.testing.assert_array_equal(here.parameters["scales"], there.parameters["scales"])
    np.testing.assert_array_equal(here.mixture.predict(x), there.mixture.predict(x * a))


@given(
    logs=st.lists(st.floats(-9, 9), min_size=4, max_size=4),
    signs=st.lists(st.booleans(), min_size=4, max_size=4),
    shifts=st.lists(st.floats(-1000, 1000), min_size=4, max_size=4),
)
@settings(max_examples=30)
def test_any_units_shift_the_likelihood(logs: list[float], signs: list[bool], shifts: list[float]) -> None:
    x = rows(2000)
    a = np.array([(-1.0 if s else 1.0) * 10.0**p for p, s in zip(logs, signs, strict=True)])
    y = a * (x + shifts * x.std(0))
    here, there = trained(x), trained(y)
    assert (here.mixture.predict(x) == there.mixture.predict(y)).mean() >= 0.999
    expected = here.mixture.log_prob(x) - np.log(np.abs(a)).sum()
    close = np.abs(there.mixture.log_prob(y) - expected) <= 1e-6 * np.maximum(1, np.abs(expected))
    assert close.mean() >= 0.999


@given(log=st.floats(-9, 9), shift=st.integers(-1000, 1000), negative=st.booleans())
@settings(max_examples=30)
def test_units_of_features_that_wake_or_change_shift_no_loss(log: float, shift: int, negative: bool) -> None:
    """What counts as extreme, and when annealing goes on, depends on losses of samples, in no unit."""
    x = rows(2500, 8)
    x[:700, :3] = x[:, 3][x[:, 3] < 1] = 0.0  # three features wake, and zeros are frequent in the fourth
    x[1500:, 4] *= 1000
    a = (-1.0 if negative else 1.0) * 10.0**log
    y = a * (x + shift)
    here, there = trained(x), trained(y)
    np.testing.assert_allclose(there.tensors()["typical_loss"], here.tensors()["typical_loss"], rtol=1e-6)
    assert (here.mixture.predict(x) == there.mixture.predict(y)).mean() >= 0.999
    expected = here.mixture.log_prob(x) - 8 * np.log(np.abs(a))
    close = np.abs(there.mixture.log_prob(y) - expected) <= 1e-6 * np.maximum(1, np.abs(expected))
    assert close.mean() >= 0.999


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch_size", [1, 16])
@pytest.mark.parametrize("chunk", [1, 7, 500])
def test_chunks_change_nothing(threads: int, batch_size: int, chunk: int) -> None:
    x = rows(1500) * [1, 1e6, 1e-3, 50] + [0, 5, 1, -1e4]
    whole, cut = trained(x, threads, batch_size=batch_size), trained(x[:0], threads, batch_size=batch_size)
    for start in range(0, len(x), chunk):
        cut.feed(x[start : start + chunk])
    for name, values in whole.tensors().items():
        np.testing.assert_array_equal(values, cut.tensors()[name], err_msg=name)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("cut", [1, 150, 200, 201, 1234])
def test_saving_in_mid_stream_changes_nothing(tmp_path: Path, threads: int, cut: int) -> None:
    x = rows(2500) * [1, 1e6, 1e-3, 50]
    make: dict[str, Any] = {"scale": "auto", "n_jobs": threads, "random_state": 0}
    whole = StreamingGaussianMixture(6, **make).partial_fit(x)
    half = StreamingGaussianMixture(6, **make).partial_fit(x[:cut])
    half.save(tmp_path / "half.safetensors")
    for other in (StreamingGaussianMixture.load(tmp_path / "half.safetensors"), pickle.loads(pickle.dumps(half))):
        other.partial_fit(x[cut:])
        np.testing.assert_array_equal(other.means_, whole.means_)
        np.testing.assert_array_equal(other.precisions_, whole.precisions_)
        np.testing.assert_array_equal(other.score_samples(x), whole.score_samples(x))


@pytest.mark.parametrize(("replicas", "batch_size"), [(2, 4), (5, 4), (4, 1)])
def test_one_batch_each_is_one_large_batch(replicas: int, batch_size: int) -> None:
    """A round ends with every check while the annealing is wide."""
    together = replicas * batch_size
    x = rows(400) * [1, 1e6, 1e-3, 50]
    wide: dict[str, Any] = {"period": together, "sigma_init": 1.0, "tol": 1e-300}
    many, one = trained(x, replicas, batch_size=batch_size, **wide), trained(x, batch_size=together, **wide)
    assert many.sigma == one.sigma == 1.0
    np.testing.assert_allclose(many.mixture.means, one.mixture.means, rtol=1e-10)
    np.testing.assert_allclose(many.mixture.precisions, one.mixture.precisions, rtol=1e-10)


class TestAnswers:
    """Answers are in the units of the data, and equal the formula on the public parameters at every moment."""

    @pytest.mark.parametrize("count", [1, 5, 199, 200, 450, 3000])
    @pytest.mark.parametrize("batch_size", [1, 16])
    def test_scores_are_the_formula(self, count: int, batch_size: int) -> None:
        x = rows(count) * [1, 1e6, 1e-3, 50] + 7
        model = StreamingGaussianMixture(6, scale="auto", batch_size=batch_size, random_state=0).partial_fit(x)
        w, m, p = model.weights_, model.means_, model.precisions_
        z = -0.5 * (p * (x[:50, None] - m) ** 2).sum(2) + 0.5 * np.log(p / (2 * np.pi)).sum(1) + np.log(w)
        top = z.max(1)
        expected = top + np.log(np.exp(z - top[:, None]).sum(1))
        np.testing.assert_allclose(model.score_samples(x[:50]), expected, rtol=1e-6, atol=1e-6)

    def test_an_unfinished_model_is_no_worse_than_a_gaussian_by_much(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal(rng.normal(0, 1, (8, 10))[rng.integers(8, size=3000)], 1.0) * 100
        model = StreamingGaussianMixture(64, scale="auto", random_state=0).partial_fit(x[:1000])
        assert model.sigma_ > model.sigma_min
        gaussian = -0.5 * (np.log(2 * np.pi * x.var(0)) + 1).sum()
        assert model.score(x[1000:]) > gaussian - 1

    def test_samples_and_starts_are_in_the_units_of_the_data(self) -> None:
        x = rows(4000) * [1, 1e6, 1e-3, 50] + [0, 1e7, 3, 0]
        model = StreamingGaussianMixture(6, scale="auto", random_state=0).partial_fit(x)
        drawn, _ = model.sample(4000)
        np.testing.assert_allclose(drawn.mean(0), x.mean(0), atol=0.2 * x.std(0).max(), rtol=0.2)
        np.testing.assert_allclose(drawn.std(0), x.std(0), rtol=0.2)
        again = StreamingGaussianMixture(
            6, scale="auto", annealing=False, means_init=model.means_, precisions_init=model.precisions_, random_state=0
        ).partial_fit(x[:300])
        assert again.score(x) > model.score(x) - 1.5

    def test_a_cap_is_in_the_units_of_the_data(self) -> None:
        x = np.random.default_rng(0).normal([5, 100], [1e-3, 10], (4000, 2))
        model = StreamingGaussianMixture(2, scale="auto", precision_max=100.0, random_state=0).partial_fit(x)
        assert model.precisions_[:, 0] == pytest.approx(100.0, rel=1e-4)
        assert (model.precisions_[:, 1] < 0.1).all()


class TestFeaturesThatMisbehave:
    def model(self, **changes: object) -> StreamingGaussianMixture:
        return StreamingGaussianMixture(4, **{"scale": "auto", "random_state": 0, **changes})  # type: ignore[arg-type]

    def check(self, model: StreamingGaussianMixture, now: np.ndarray, within: float = 1.0) -> None:
        gaussian = -0.5 * (np.log(2 * np.pi * now.var(0)) + 1).sum()
        assert model.score(now) > gaussian - within

    def test_flat_at_first_and_alive_later(self) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal([1, 50, 7], [1, 10, 2], (15_000, 3))
        x[:5000, 2] = 3.25
        model = self.model().partial_fit(x[:5000])
        plain = self.model().partial_fit(x[:5000, :2])
        np.testing.assert_allclose(model.score(x[:5000]), plain.score(x[:5000, :2]), atol=0.2)
        self.check(model.partial_fit(x[5000:]), x[8000:])

    @pytest.mark.parametrize(("factor", "added", "within"), [(1000, 0, 1.5), (1, 500, 1.5), (0.001, 0, 4)])
    def test_another_unit_or_level_in_mid_stream(self, factor: float, added: float, within: float) -> None:
        rng = np.random.default_rng(0)
        x = rng.normal([1, 50, 7], [1, 10, 2], (20_000, 3))
        x[8000:, 1] = factor * x[8000:, 1] + added
        model = self.model(half_life=2000).partial_fit(x[:8000])
        self.check(model.partial_fit(x[8000:]), x[16_000:], within)

    def test_integers_and_booleans(self) -> None:
        rng = np.random.default_rng(0)
        x = np.stack([rng.integers(0, 5, 8000), rng.random(8000) < 0.3], axis=1).astype(float)
        model = self.model().partial_fit(x)
        assert np.isfinite(model.score_samples(x)).all()
        self.check(model, x)

    @pytest.mark.parametrize("magnitude", [1e-12, 1e12])
    def test_magnitudes(self, magnitude: float) -> None:
        x = rows(3000)
        plain, scaled = self.model().partial_fit(x), self.model().partial_fit(x * magnitude)
        assert scaled.score(x * magnitude) + 4 * np.log(magnitude) == pytest.approx(plain.score(x), abs=1e-3)

    def test_no_limit_on_deviations(self) -> None:
        x = np.random.default_rng(0).normal(0, 3000, (20_000, 2))
        model = StreamingGaussianMixture(1, scale="auto", random_state=0).partial_fit(x)
        np.testing.assert_allclose(np.sqrt(model.covariances_), 3000, rtol=0.05)

    @pytest.mark.parametrize(
        "first",
        [np.zeros((50, 3)), np.full((50, 3), 1e30), np.ones((1, 3)), np.eye(3) * 1e-200],
        ids=["zeros", "huge", "one", "tiny"],
    )
    def test_one_row_at_a_time_is_always_finite(self, first: np.ndarray) -> None:
        x = np.concatenate([first, np.random.default_rng(0).normal(0, 1, (600, 3))])
        model = self.model()
        for row in x:
            model.partial_fit(row[None])
            assert np.isfinite(model.score_samples(row[None])).all()
            assert np.isfinite(model.means_).all()
        assert np.isfinite(model.score_samples(x)).all()


def test_fit_is_refined_until_it_is_as_good_as_batch_em() -> None:
    """Few rows, many passes: defaults of ours on raw data against a tuned scikit-learn on standardised data."""
    from sklearn.datasets import load_wine
    from sklearn.mixture import GaussianMixture

    x = load_wine().data
    order = np.random.default_rng(0).permutation(len(x))
    train, test = x[order[:130]], x[order[130:]]
    mean, deviation = train.mean(0), train.std(0)
    theirs = max(
        GaussianMixture(4, covariance_type="diag", reg_covar=reg, random_state=0)
        .fit((train - mean) / deviation)
        .score((test - mean) / deviation)
        for reg in (1e-3, 1e-2, 3e-2, 0.1, 0.3)
    )
    model = StreamingGaussianMixture(4, scale="auto", n_epochs="auto", random_state=0).fit(train)
    assert model.score(test) > theirs - np.log(deviation).sum() - 0.03 * x.shape[1]
    model.partial_fit(train)  # and it can be continued
    assert np.isfinite(model.score(test))


def test_overlapping_clusters_in_one_pass() -> None:
    from sklearn.mixture import GaussianMixture

    for features in (1, 2, 5):
        rng = np.random.default_rng(features)
        centres = rng.normal(0, 1.5, (4, features))
        x, test = (100 * rng.normal(centres[rng.integers(4, size=n)], 1) + 1e4 for n in (40_000, 10_000))
        ours = StreamingGaussianMixture(4, scale="auto", random_state=0).partial_fit(x)
        theirs = GaussianMixture(4, covariance_type="diag", random_state=0).fit(x)
        assert ours.score(test) > theirs.score(test) - 0.01


@pytest.mark.parametrize("rule", ["sgd", "sem"])
def test_other_rules_learn_raw_data(rule: str) -> None:
    """They need more samples; units change nothing for them, either, and an unfinished model is no worse than a
    Gaussian by much."""
    x = rows(20_000)
    a, b = np.array([1, 1e6, 1e-3, -50]), np.array([0, 1e7, 3, 0])
    here, there = (StreamingGaussianMixture(6, rule=rule, random_state=0).partial_fit(y) for y in (x, a * x + b))
    expected = here.score_samples(x) - np.log(np.abs(a)).sum()
    np.testing.assert_allclose(there.score_samples(a * x + b), expected, rtol=1e-6, atol=1e-6)
    gaussian = -0.5 * (np.log(2 * np.pi * x.var(0)) + 1).sum()
    assert here.score(x) > gaussian - 0.1
    begun = StreamingGaussianMixture(6, rule=rule, random_state=0).partial_fit(x[:500])
    assert begun.score(x) > gaussian - 0.5


def test_resizing_keeps_the_frame() -> None:
    x = rows(2000) * [1, 1e6, 1e-3, 50] + 7
    trainer = trained(x)
    before = trainer.mixture.log_prob(x).mean()
    trainer.resize([5, 4, 3, 2, 1, 0])
    assert trainer.mixture.log_prob(x).mean() == pytest.approx(before, rel=1e-9)
    trainer.feed(x)
    assert trainer.mixture.log_prob(x).mean() > before - 1


@pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
@pytest.mark.parametrize("before", [150, 3000])
def test_new_features_join(rule: str, before: int) -> None:
    x = rows(9000) * [1, 1e6, 1e-3, 50] + 7
    trainer = trained(x[:before, :3], allow_nan=True, rule=rule)
    trainer.add_features(1)
    trainer.feed(x[before:])
    gaussian = -0.5 * (np.log(2 * np.pi * x.var(0)) + 1).sum()
    assert trainer.mixture.log_prob(x).mean() > gaussian - 0.5
    np.testing.assert_allclose(trainer.mixture.sample(5000, 0)[0].std(0), x.std(0), rtol=0.3)


def test_the_page_shows_means_in_the_units_of_the_data(tmp_path: Path) -> None:
    from streamgmm.dashboard.follower import read_model

    x = rows(1500) * [1, 1e6, 1e-3, 50] + 7
    model = StreamingGaussianMixture(6, scale="auto", random_state=0).partial_fit(x)
    model.save(tmp_path / "model.safetensors")
    shown = read_model(tmp_path / "model.safetensors")
    assert shown is not None
    np.testing.assert_allclose(shown.means, model.means_, rtol=1e-5, atol=1e-3)


def test_rows_of_weight_zero_do_not_count() -> None:
    x = rows(300)
    weights = np.ones(300)
    weights[:100] = 0
    model = StreamingGaussianMixture(4, scale="auto", n_epochs="auto", random_state=0)
    assert np.isfinite(model.fit(x, sample_weight=weights).score(x))
