"""Replicas and their merging."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save_file

from streamgmm import ModelFileError, StreamingGaussianMixture
from streamgmm.core.annealing import Schedule
from streamgmm.core.covariance import Bounds, Work
from streamgmm.core.engine import Replica, Round
from streamgmm.core.grid import filters, torus
from streamgmm.core.rules import SGD, Context, Natural, Rule, StochasticEM
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Threads
from streamgmm.native import TYPICAL_NUMBERS, Samples
from tests.conftest import make_trainer, random_parameters, scales

BOUNDS = Bounds(1e-3, 20**0.5)
RULES = [
    SGD(0.01, 0.001),
    Natural(),
    Natural(half_life=20),
    StochasticEM(accumulate=0),
    StochasticEM(),
    StochasticEM(accumulate=0, half_life=50),
]
names = pytest.mark.parametrize("rule", RULES, ids=str)


def begin(rule: Rule, threads: int, **settings: Any) -> Trainer:
    """A training that starts from the same place for any rule."""
    p = random_parameters(np.random.default_rng(0), 9, 12)
    start = {"means_init": p.means, "precisions_init": p["scales"] ** 2, "weights_init": p.weights}
    control = {"sigma_init": 1.0, "tol": 0.05, "scale": "none", **settings}
    return make_trainer(12, threads=threads, n_components=9, rule=rule, **start, **control)


@names
@pytest.mark.parametrize("replicas", [2, 3, 8])
@pytest.mark.parametrize("sigma", [1.0, 0.01])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_one_batch_each_is_one_large_batch(rule: Rule, replicas: int, sigma: float, batch_size: int) -> None:
    """Standardised samples have their own test: tests/laws/test_scale.py."""
    together, alone = replicas * batch_size, rule
    if isinstance(rule, SGD) and sigma < 1.0:  # the rate has come down, so that it can be as much larger
        alone = SGD(rule.learning_rate_init, replicas * rule.learning_rate_min)
    x = np.random.default_rng(2).random((together, 12))
    period = together if sigma == 1.0 else 10**6  # narrow rounds outlast a check
    many = begin(rule, replicas, batch_size=batch_size, period=period, sigma_init=sigma)
    one = begin(alone, 1, batch_size=together, period=period, sigma_init=sigma)
    many.feed(x)
    one.feed(x)
    found = many.tensors()
    for name, expected in one.tensors().items():
        if name.startswith(("parameters.", "rule.")) and name != "rule.rate":  # the typical loss is only averaged
            np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-12, err_msg=name)


def replica(rule: Rule, x: np.ndarray | None = None) -> Replica:
    """A start that is the same for all, or what becomes of it after learning some samples."""
    p = random_parameters(np.random.default_rng(0), 9, 12)
    context = Context(0, 1.0, Schedule(1.0, period=10**6), BOUNDS, np.random.default_rng(1))
    made = Replica(p, rule.start(p, context), np.zeros(TYPICAL_NUMBERS))
    if x is not None:
        samples = Samples(x, typical_loss=made.typical_loss)
        rule.advance(made.state, made.parameters, Work(samples, filters(torus(9), 1.0), BOUNDS))
    return made


def replicas_of(rule: Rule, count: int) -> list[Replica]:
    """Replicas that have learned from different samples."""
    return [replica(rule, np.random.default_rng(r).random((20, 12))) for r in range(count)]


def merged(rule: Rule, replicas: list[Replica]) -> Replica:
    start = replica(rule)
    out = start.copy()
    rule.merge(Round(start, replicas, [20] * len(replicas), BOUNDS), out, range(9))
    return out


def values(made: Replica) -> dict[str, Any]:
    learned = {**made.named(), "log_dets": made.parameters.log_dets}
    del learned["typical_loss"]  # engines average it
    return learned


@names
def test_one_replica_is_itself(rule: Rule) -> None:
    [one] = replicas_of(rule, 1)
    found = values(merged(rule, [one]))
    for name, expected in values(one).items():
        np.testing.assert_allclose(found[name], expected, rtol=1e-12, atol=1e-13, err_msg=name)


@names
def test_order_does_not_matter(rule: Rule) -> None:
    replicas = replicas_of(rule, 4)
    here, there = values(merged(rule, replicas)), values(merged(rule, replicas[::-1]))
    for name, found in here.items():
        np.testing.assert_allclose(found, there[name], rtol=1e-12, atol=1e-14, err_msg=name)


@names
@scales
@pytest.mark.parametrize("replicas", [4, 16])
def test_many_replicas_stay_within_what_they_have_seen(rule: Rule, replicas: int, scale: str) -> None:
    """Adding up the changes of replicas that all went the same way would overshoot."""
    trainer = begin(rule, replicas, period=200 * replicas, scale=scale)
    trainer.feed(np.random.default_rng(0).random((2000 * replicas, 12)) * 0.1 + 5)
    means = trainer.mixture.means
    assert np.isfinite(means).all()
    assert means.min() >= -1e-9
    assert means.max() <= 5.1 + 1e-9


def test_one_replica_needs_no_threads() -> None:
    with pytest.raises(ValueError, match="count is 1; expected at least 2 replicas"):
        Threads(1)


class TestEstimator:
    rng = np.random.default_rng(0)
    x = rng.random((3000, 20)).astype(np.float32)

    def model(self, rule: object = "natural", **settings: Any) -> StreamingGaussianMixture:
        return StreamingGaussianMixture(9, rule=rule, random_state=0, n_jobs=2, **settings)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem", StochasticEM(start_from="kmeans", accumulate=100)])
    @pytest.mark.parametrize("batch_size", [1, 16])
    @pytest.mark.parametrize("chunk", [7, 500, 3000])
    @scales
    def test_chunks_change_nothing(self, rule: object, batch_size: int, chunk: int, scale: str) -> None:
        whole = self.model(rule, batch_size=batch_size, period=150, scale=scale).partial_fit(self.x)
        cut = self.model(rule, batch_size=batch_size, period=150, scale=scale)
        for start in range(0, 3000, chunk):
            cut.partial_fit(self.x[start : start + chunk])
        np.testing.assert_array_equal(whole.means_, cut.means_)
        np.testing.assert_array_equal(whole.precisions_, cut.precisions_)
        np.testing.assert_array_equal(whole.weights_, cut.weights_)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem", StochasticEM(start_from="kmeans", accumulate=100)])
    @pytest.mark.parametrize("cut", [50, 1234])
    @scales
    def test_a_saved_round_goes_on(self, rule: object, cut: int, scale: str, tmp_path: Path) -> None:
        whole = self.model(rule, period=150, scale=scale).partial_fit(self.x)
        first = self.model(rule, period=150, scale=scale).partial_fit(self.x[:cut])
        first.save(tmp_path / "model.safetensors")
        second = StreamingGaussianMixture.load(tmp_path / "model.safetensors").partial_fit(self.x[cut:])
        np.testing.assert_array_equal(whole.means_, second.means_)
        np.testing.assert_array_equal(whole.precisions_, second.precisions_)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
    @scales
    def test_reports_do_not_depend_on_chunks(self, rule: str, scale: str) -> None:
        options = {"n_components": 9, "rule": rule, "period": 100, "scale": scale}
        whole, cut = (make_trainer(20, np.float32, threads=2, **options) for _ in range(2))
        expected = whole.feed(self.x)
        assert [check.samples for check in expected] == list(range(100, 3001, 100))
        found = [c for start in range(0, 3000, 70) for c in cut.feed(self.x[start : start + 70])]
        assert found == expected

    @scales
    def test_checks_that_matter_are_not_left_out(self, scale: str) -> None:
        """Replicas outlast a check only where nothing hangs on it."""
        x = np.tile(self.x, (20, 1))
        one, two = (
            StreamingGaussianMixture(9, rule="sgd", period=200, n_jobs=n, scale=scale, random_state=0) for n in (1, 2)
        )
        assert one.partial_fit(x).learning_rate_ == two.partial_fit(x).learning_rate_ == 0.001
        sem = self.model("sem", period=100, scale=scale).partial_fit(self.x[: 150 if scale == "none" else 250])
        assert not sem.trainer_.tensors()["rule.accumulating"]
        natural = self.model(sigma_init=0.26, period=100, scale=scale).partial_fit(self.x[:1500])
        assert natural.sigma_ == 0.01
        assert natural.trainer_.tensors()["rule.narrow_at"] > 0

    @pytest.mark.parametrize("rule", ["natural", "sem"])
    @scales
    def test_half_life_does_not_depend_on_threads(self, rule: str, scale: str) -> None:
        """After one half-life of new data about half of the way is gone."""
        rng = np.random.default_rng(0)
        old, new = (rng.normal(m, 0.25, (4000, 5)).astype(np.float32) for m in (0.2, 0.8))
        for threads in (1, 2, 4):
            model = StreamingGaussianMixture(
                1, rule=rule, half_life=1000, period=100, n_jobs=threads, scale=scale, random_state=0
            ).partial_fit(old)
            moved = (model.partial_fit(new[:1000]).means_.mean() - 0.2) / 0.6
            assert 0.4 < moved < 0.6, (threads, moved)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
    @pytest.mark.parametrize(("scale", "where"), [("none", 700), ("auto", 70), ("auto", 700)])
    def test_an_absurd_sample_leaves_nothing_that_cannot_be_saved(
        self, rule: str, scale: str, where: int, tmp_path: Path
    ) -> None:
        x = self.x.copy()
        x[where] = 1e30
        model = self.model(rule, period=100, scale=scale).partial_fit(x[:500]).partial_fit(x[500:])
        model.save(tmp_path / "model.safetensors")
        again = StreamingGaussianMixture.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.means_, model.means_)

    def test_twice_the_same(self) -> None:
        np.testing.assert_array_equal(self.model().partial_fit(self.x).means_, self.model().partial_fit(self.x).means_)

    def test_answers_do_not_depend_on_threads(self) -> None:
        model = self.model().partial_fit(self.x)
        answers = model.score_samples(self.x)
        np.testing.assert_array_equal(model.set_params(n_jobs=1).score_samples(self.x), answers)

    def test_the_first_bad_row_is_named(self) -> None:
        x = self.x.copy()
        x[2900, 3] = x[2000, 7] = np.nan
        with pytest.raises(ValueError, match="row 2000 of X contains NaN at feature 7"):
            self.model().partial_fit(x)

    def test_no_threads(self) -> None:
        with pytest.raises(ValueError, match="n_jobs is 0"):
            StreamingGaussianMixture(n_jobs=0).fit(self.x)


@pytest.mark.parametrize(("scale", "rows"), [("none", 70), ("auto", 270)])
def test_a_damaged_replica_is_refused(tmp_path: Path, scale: str, rows: int) -> None:
    path = tmp_path / "model.safetensors"
    TestEstimator().model(scale=scale).partial_fit(TestEstimator.x[:rows]).save(path)
    with safe_open(path, framework="numpy") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = "engine.replica1.parameters.means"
    assert name in tensors
    save_file({**tensors, name: tensors[name][:-1].copy()}, path, metadata)
    with pytest.raises(ModelFileError, match="replica1"):
        StreamingGaussianMixture.load(path)
