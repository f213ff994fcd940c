"""The trainer by itself: its size, its state in and out, its reaction to drift, and bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm import Natural, StochasticEM
from streamgmm.core.settings import Settings
from streamgmm.core.trainer import REHEATED, Trainer
from streamgmm.engines import engine_for
from streamgmm.errors import SettingError
from tests.conftest import assert_same_training, make_trainer, scales

RULES = ["natural", "sgd", "sem"]
rules = pytest.mark.parametrize("rule", RULES)
threads = pytest.mark.parametrize("threads", [1, 2])


def rows(count: int, features: int = 5, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.normal(rng.choice([0.2, 0.8], (count, 1)), 0.1, (count, features))


def trained(rule: Any, threads: int, count: int = 3017, **settings: Any) -> Trainer:
    trainer = make_trainer(5, threads=threads, n_components=9, rule=rule, period=100, **settings)
    trainer.feed(rows(count))
    return trainer


class TestResize:
    @rules
    @threads
    @scales
    @pytest.mark.parametrize("chosen", [[0, 4, 7, 8], [8, 7, 6, 5, 4, 3, 2, 1, 0], [0, 0, 1, 2, 2, 2], [3], [4] * 12])
    def test_everything_follows(self, rule: str, threads: int, scale: str, chosen: list[int]) -> None:
        trainer = trained(rule, threads, scale=scale)
        trainer.settle()
        before = {name: value.copy() for name, value in trainer.tensors().items()}
        weights = trainer.parameters.weights[chosen] / np.bincount(chosen)[chosen]
        trainer.resize(chosen)
        after = trainer.tensors()
        assert trainer.n_components == trainer.settings.n_components == trainer.grid.size == len(chosen)
        for name in (
            "parameters.means",
            "parameters.scales",
            "rule.moments.variances",
            "rule.counts",
            "rule.evidence",
        ):
            if name in before:
                np.testing.assert_array_equal(after[name], before[name][chosen], err_msg=name)
        np.testing.assert_allclose(trainer.parameters.weights, weights / weights.sum(), rtol=1e-12)
        for name in ("rule.weights", "rule.masses", "usage"):
            if name in after:
                assert after[name].sum() == pytest.approx(1), name
        assert {len(v) for n, v in after.items() if n in ("rule.received", "wins", "usage")} <= {len(chosen)}
        assert trainer.n_samples == 3017

    @rules
    @threads
    @scales
    def test_training_continues(self, rule: str, threads: int, scale: str) -> None:
        trainer = trained(rule, threads, scale=scale)
        score = trainer.mixture.log_prob(rows(500, seed=1)).mean()
        for chosen in ([*range(9), *range(9)], [0, 1, 2, 3, 4, 5, 6, 7, 8, 0], [9, 3, 1, 0]):
            trainer.resize(chosen)
            checks = trainer.feed(rows(2000, seed=2))
            assert len(checks) == 20
            assert np.isfinite(trainer.parameters.means).all()
            assert trainer.parameters.weights.sum() == pytest.approx(1)
            assert trainer.mixture.log_prob(rows(500, seed=1)).mean() > score - 2
        assert trainer.n_samples == 3017 + 6000

    @rules
    @threads
    @scales
    def test_copies_change_no_density(self, rule: str, threads: int, scale: str) -> None:
        """Also not at the next check, where a rule writes its own weights into the parameters."""
        trainer, x = trained(rule, threads, 3000, scale=scale), rows(200, seed=3)
        before = trainer.mixture.log_prob(x)
        trainer.resize([0, 0, *range(1, 9), 5])
        np.testing.assert_allclose(trainer.mixture.log_prob(x), before, rtol=1e-9)
        weights = trainer.parameters.weights
        trainer.feed(rows(100, seed=4))
        np.testing.assert_allclose(trainer.parameters.weights, weights, atol=0.05)

    @rules
    @threads
    @scales
    def test_a_resized_training_can_be_restored(self, rule: str, threads: int, scale: str) -> None:
        trainer = trained(rule, threads, batch_size=4, scale=scale)
        trainer.resize([1, 1, 5, 0])
        trainer.feed(rows(33, seed=1))
        again = Trainer.restore(trainer.facts(), trainer.tensors(), engine_for(threads))
        for one in (trainer, again):
            one.feed(rows(500, seed=2))
        assert_same_training(trainer, again)

    @pytest.mark.parametrize("chosen", [[], [9], [-1], [[0, 1]]])
    def test_components_that_do_not_exist(self, chosen: Any) -> None:
        trainer = trained("natural", 1, 200)
        with pytest.raises(ValueError, match="expected numbers from 0 to 8"):
            trainer.resize(chosen)
        assert trainer.n_components == 9

    @pytest.mark.parametrize(("scale", "count"), [("none", 50), ("auto", 200)])
    def test_components_that_never_win(self, scale: str, count: int) -> None:
        start = [[0.5] * 5, [90.0] * 5]
        trainer = make_trainer(5, n_components=2, period=count, annealing=False, means_init=start, scale=scale)
        trainer.feed(rows(count))
        trainer.resize([1, 1])
        assert trainer.usage.tolist() == [0.5, 0.5]
        assert np.isfinite(trainer.parameters.weights).all()


class TestAddFeatures:
    @rules
    @threads
    @scales
    def test_old_features_stay_and_new_ones_are_learned(self, rule: str, threads: int, scale: str) -> None:
        trainer = trained(rule, threads, allow_nan=True, scale=scale)
        x = rows(4000, features=7, seed=1)
        before, means = trainer.mixture.log_prob(x[:, :5]), trainer.mixture.means.copy()
        trainer.add_features(2)
        assert trainer.n_features == 7
        unknown = trainer.mixture.log_prob(np.column_stack([x[:, :5], np.full((len(x), 2), np.nan)]))
        np.testing.assert_array_equal(trainer.mixture.means[:, :5], means)
        if (rule, scale) == ("natural", "auto"):  # counts have fallen: it relies more on variances of all components
            assert unknown.mean() == pytest.approx(before.mean(), abs=0.03)
        else:
            np.testing.assert_allclose(unknown, before, rtol=1e-9)
        assert np.abs(trainer.parameters.means[:, 5:]).max() <= 0.1
        if scale == "auto":  # of which nothing is known yet: their values count as missing
            np.testing.assert_array_equal(trainer.mixture.log_prob(x), unknown)
        trainer.feed(x)
        learned = trainer.mixture
        np.testing.assert_allclose(learned.weights @ learned.means[:, 5:], x[:, 5:].mean(0), atol=0.1)
        assert trainer.n_samples == 3017 + 4000

    @threads
    @scales
    def test_it_can_be_restored(self, threads: int, scale: str) -> None:
        trainer = trained("natural", threads, allow_nan=True, batch_size=4, scale=scale)
        trainer.add_features(1)
        trainer.feed(rows(101, features=6, seed=1))
        again = Trainer.restore(trainer.facts(), trainer.tensors(), engine_for(threads))
        assert_same_training(trainer, again)

    @threads
    @scales
    def test_an_incomplete_batch_is_not_lost(self, threads: int, scale: str) -> None:
        trainer = trained("natural", threads, 3017, batch_size=4, scale=scale)
        assert trainer.n_pending == 1
        trainer.add_features(1)
        assert (trainer.n_pending, trainer.n_samples) == (0, 3017)


class TestState:
    @threads
    @pytest.mark.parametrize("rule", [*RULES, StochasticEM(start_from="kmeans", accumulate=300)], ids=str)
    @pytest.mark.parametrize(
        ("scale", "count"),
        [
            pytest.param("none", 0, id="start"),
            pytest.param("none", 50, id="mid-round"),
            pytest.param("none", 203, id="mid-batch"),
            pytest.param("none", 1117, id="annealed"),
            pytest.param("auto", 50, id="warm-up"),
            pytest.param("auto", 250, id="standardised-mid-round"),
            pytest.param("auto", 1117, id="standardised-annealed"),
        ],
    )
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_round_trip(self, rule: Any, threads: int, scale: str, count: int, dtype: type) -> None:
        options = {"n_components": 9, "rule": rule, "period": 100, "batch_size": 8, "scale": scale}
        trainer = make_trainer(5, dtype, threads=threads, **options)
        x = rows(2000).astype(dtype)
        if count:
            trainer.feed(x[:count], more=True)  # replicas are not merged
        assert trainer.n_samples == count
        assert trainer.n_pending == (count % 8 if scale == "none" or count >= 200 else 0)
        facts, tensors = trainer.facts(), {name: value.copy() for name, value in trainer.tensors().items()}
        again = Trainer.restore(facts, tensors, engine_for(threads))
        assert_same_training(again, trainer)
        assert again.current()[:1] + again.current()[3:] == trainer.current()[:1] + trainer.current()[3:]
        assert again.feed(x[count:]) == trainer.feed(x[count:])
        assert_same_training(again, trainer)

    @threads
    @pytest.mark.parametrize(("scale", "count"), [("none", 203), ("auto", 163), ("auto", 311)])
    def test_shares_and_gaps_of_an_incomplete_batch(self, threads: int, scale: str, count: int) -> None:
        x, shares = rows(count), np.random.default_rng(1).uniform(0.1, 1, count)
        x[np.random.default_rng(0).random(x.shape) < 0.2] = np.nan
        x[::50] = np.nan
        trainer = make_trainer(5, threads=threads, n_components=4, batch_size=8, allow_nan=True, scale=scale)
        trainer.feed(x, shares=shares)
        again = Trainer.restore(trainer.facts(), trainer.tensors(), engine_for(threads))
        assert again.n_skipped == trainer.n_skipped > 0
        again.feed(x, shares=shares)
        trainer.feed(x, shares=shares)
        assert_same_training(again, trainer)

    @pytest.mark.parametrize(("scale", "count"), [("none", 3017), ("auto", 150), ("auto", 3017)])
    def test_given_starts_survive(self, scale: str, count: int) -> None:
        start = {"means_init": rows(9), "weights_init": np.full(9, 1 / 9), "precisions_init": np.full((9, 5), 5.0)}
        trainer = trained("natural", 1, count, scale=scale, **start)
        again = Trainer.restore(trainer.facts(), trainer.tensors(), engine_for(1))
        np.testing.assert_array_equal(again.settings.means_init, start["means_init"])
        assert_same_training(again, trainer)
        for one in (trainer, again):
            one.feed(rows(500, seed=2))
        assert_same_training(again, trainer)


class TestDrift:
    @rules
    @pytest.mark.parametrize("threads", [1, 2, 3])
    @pytest.mark.parametrize("reheat", [False, True])
    @scales
    def test_reheating_widens_what_anneals(self, rule: str, threads: int, reheat: bool, scale: str) -> None:
        """In 0.1 threads did not tell that stochastic EM does not anneal."""
        trainer = make_trainer(6, threads=threads, n_components=4, rule=rule, period=200, reheat=reheat, scale=scale)
        assert not any(check.drift for check in trainer.feed(rows(20_000, 6)))
        assert trainer.sigma == trainer.schedule.sigma_min
        checks = trainer.feed(1 - 2 * rows(3000, 6, seed=1))
        [noticed] = [check for check in checks if check.drift]
        widened = reheat and rule != "sem"
        assert trainer.rule.anneals == (rule != "sem")
        assert noticed.sigma == (pytest.approx(REHEATED * trainer.grid.widest) if widened else 0.01)
        assert all(check.sigma == 0.01 for check in checks) != widened

    @threads
    @scales
    def test_recruits_wait_for_a_drift(self, threads: int, scale: str) -> None:
        options = {"n_components": 4, "rule": Natural(recruits=0.5), "period": 200, "scale": scale}
        trainer = make_trainer(6, threads=threads, **options)
        trainer.feed(rows(20_000, 6))
        assert trainer.tensors()["rule.recruits_left"] == 0
        for start in range(0, 3000, 200):
            if any(check.drift for check in trainer.feed(1 - 2 * rows(3000, 6, seed=1)[start : start + 200])):
                break
        trainer.settle()
        assert trainer.tensors()["rule.recruits_left"] == 2


@pytest.mark.parametrize("rule", [*RULES, StochasticEM(start_from="kmeans", accumulate=50)], ids=str)
@pytest.mark.parametrize("batch_size", [1, 8])
@scales
def test_training_on_bytes(rule: Any, batch_size: int, scale: str) -> None:
    x, factor = np.random.default_rng(0).integers(256, size=(700, 40), dtype=np.uint8), 1 / 255
    options = {"n_components": 9, "rule": rule, "batch_size": batch_size, "scale": scale}
    here, there = (make_trainer(40, np.float32, **options) for _ in range(2))
    for piece in np.split(x, [7, 100, 211, 500]):
        here.feed(piece, factor)
        there.feed(piece.astype(np.float32) * np.float32(factor))
    assert_same_training(here, there)


@pytest.mark.parametrize(("scale", "unreported"), [("none", 0), ("auto", 200)])
def test_reports_and_the_typical_loss(scale: str, unreported: int) -> None:
    trainer, reports = make_trainer(5, n_components=9, batch_size=4, scale=scale), []
    trainer.feed(rows(1001), reports=reports)
    assert sum(len(steps.losses) for steps in reports) == (1000 - unreported) // 4
    assert sum(steps.wins.sum() for steps in reports) == 1000 - unreported
    level, deviation = trainer.typical_loss
    assert np.isfinite(level)
    assert deviation > 0
    assert trainer.finished
    assert not make_trainer(5, n_components=9).finished
    trainer.flush()
    assert (trainer.n_pending, trainer.n_samples) == (0, 1001)


class TestReheating:
    """Without annealing there is nothing to widen, and rates stay bounded."""

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
    @pytest.mark.parametrize("replicas", [1, 2])
    @pytest.mark.parametrize("settings", [{"annealing": False}, {"sigma_init": 0.05}], ids=str)
    @scales
    def test_neither_width_nor_rate_goes_beyond_its_start(
        self, rule: str, replicas: int, settings: dict[str, Any], scale: str
    ) -> None:
        rng = np.random.default_rng(0)
        period = 150 if rule == "sgd" else 100  # it absorbs a change before that counts as lasting
        options = Settings(4, rule=rule, reheat=True, period=period, scale=scale, **settings)
        trainer = Trainer(options, 3, engine=engine_for(replicas), seed=0)
        trainer.feed(rng.normal(0.2, 0.1, (6000, 3)))
        checks = trainer.feed(rng.normal(3.0, 0.1, (3000, 3)))
        if replicas == 1:
            assert any(check.drift for check in checks)
        assert max(check.sigma for check in checks) <= trainer.schedule.sigma_init
        if rule == "sgd":
            assert max(check.learning_rate for check in checks) <= 0.1 * (1 + 1e-9)


def test_rows_of_another_width_are_refused_whatever_the_batch() -> None:
    for batch_size in (1, 16):
        trainer = Trainer(Settings(4, batch_size=batch_size), 3, engine=engine_for(1), seed=0)
        with pytest.raises(ValueError, match=r"samples have shape \(5, 1\); expected \(samples, 3\)"):
            trainer.feed(np.ones((5, 1)))


@scales
def test_parameters_show_everything_after_a_row_that_completes_no_batch(scale: str) -> None:
    x = np.random.default_rng(0).random((500, 3))
    one, two = (Trainer(Settings(4, batch_size=16, scale=scale), 3, engine=engine_for(2), seed=0) for _ in range(2))
    one.feed(x[:499], more=True)
    one.feed(x[499:])
    two.feed(x)
    np.testing.assert_array_equal(one.parameters.means, two.parameters.means)


def test_resizing_forgets_initial_arrays() -> None:
    start = np.random.default_rng(0).random((4, 3))
    trainer = Trainer(Settings(4, means_init=start), 3, engine=engine_for(1), seed=0)
    trainer.resize([0, 1, 2])
    assert trainer.settings.means_init is None


@pytest.mark.parametrize("name", ["tol", "sigma_init", "half_life", "learning_rate_init"])
def test_infinite_settings_are_refused(name: str) -> None:
    with pytest.raises(SettingError, match=f"{name} is inf"):
        Settings(**{name: float("inf")}).check()


class TestAdapt:
    """A training that is told to follow its stream otherwise."""

    X = np.random.default_rng(0).normal(0, 1, (3000, 4))

    @scales
    @pytest.mark.parametrize("rule", ["natural", "sem"])
    def test_before_the_first_sample_it_is_as_if_it_had_been_so_from_the_start(self, rule: str, scale: str) -> None:
        here, there = (make_trainer(4, n_components=4, rule=rule, scale=scale, half_life=h) for h in (None, 500.0))
        here.adapt(half_life=500.0, reheat=False)
        for trainer in (here, there):
            trainer.feed(self.X)
        assert_same_training(here, there)

    @scales
    def test_back_and_forth_changes_nothing(self, scale: str) -> None:
        here, there = (make_trainer(4, n_components=4, scale=scale, threads=2) for _ in range(2))
        for trainer in (here, there):
            trainer.feed(self.X[:2000])
        here.adapt(half_life=100.0, reheat=True)
        here.adapt(half_life=None, reheat=False)
        there.adapt(half_life=None, reheat=False)
        for trainer in (here, there):
            trainer.feed(self.X[2000:])
        assert_same_training(here, there)

    def test_the_past_counts_less(self) -> None:
        kept, forgets = (make_trainer(1, n_components=1) for _ in range(2))
        for trainer in (kept, forgets):
            trainer.feed(np.zeros((2000, 1)) + self.X[:2000, :1])
        forgets.adapt(half_life=100.0, reheat=False)
        for trainer in (kept, forgets):
            trainer.feed(5 + self.X[2000:, :1])
        assert kept.mixture.means[0, 0] < 4 < forgets.mixture.means[0, 0]

    def test_a_bad_value_changes_nothing(self) -> None:
        trainer = make_trainer(4, n_components=4)
        with pytest.raises(ValueError, match="half_life is 0"):
            trainer.adapt(half_life=0, reheat=True)
        assert (trainer.settings.half_life, trainer.settings.reheat) == (None, False)


def test_a_period_may_be_longer_than_any_stream() -> None:
    x = np.random.default_rng(0).normal(size=(10_000, 5))
    trainer = make_trainer(5, n_components=3, period=10**12)
    for chunk in (x[:300], x[300:301], x[301:]):
        trainer.feed(chunk)
    assert trainer.n_samples == len(x)
    assert np.isfinite(trainer.parameters.means).all()
