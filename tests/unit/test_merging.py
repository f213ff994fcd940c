"""Replicas and their merging."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm import StreamingGaussianMixture, training
from streamgmm.annealing import Schedule
from streamgmm.engines import Replicated
from streamgmm.grid import torus
from streamgmm.merging import Part, Round
from streamgmm.rules import SGD, Natural, Rule, StochasticEM
from streamgmm.training import TrainingState
from tests.conftest import random_parameters

BOUNDS = (1e-3, 20**0.5)
RULES = [
    SGD(0.01, 0.001),
    Natural(),
    Natural(half_life=20),
    StochasticEM(accumulate=0),
    StochasticEM(),
    StochasticEM(accumulate=0, half_life=50),
]
names = pytest.mark.parametrize("rule", RULES, ids=str)


def begin(rule: Rule, batch_size: int, period: int, sigma: float = 1.0, seed: int = 0) -> TrainingState:
    """A training that starts from the same place for any rule."""
    p = random_parameters(np.random.default_rng(seed), 9, 12)
    schedule = Schedule(sigma_init=sigma, period=period)
    return training.begin(p, torus(9), schedule, rule, np.random.default_rng(1), batch_size=batch_size)


def assert_alike(here: TrainingState, there: TrainingState, **tolerance: float) -> None:
    for name in ("means", "scales", "logits"):
        found, expected = getattr(here.parameters, name), getattr(there.parameters, name)
        np.testing.assert_allclose(found, expected, **tolerance, err_msg=name)
    for name in (set(here.rule_state) & set(there.rule_state)) - {"usual"}:  # what is usual is only averaged
        found, expected = here.rule_state[name], there.rule_state[name]
        if found.ndim == 2:
            found, expected = found[:, :12], expected[:, :12]  # behind them is padding
        np.testing.assert_allclose(found, expected, **tolerance, err_msg=name)


@names
@pytest.mark.parametrize("replicas", [2, 3, 8])
@pytest.mark.parametrize("sigma", [1.0, 0.01])
@pytest.mark.parametrize("batch_size", [1, 4])
def test_one_batch_each_is_one_large_batch(rule: Rule, replicas: int, sigma: float, batch_size: int) -> None:
    together = replicas * batch_size
    x = np.random.default_rng(2).random((together, 12))
    period = together if sigma == 1.0 else 10**6  # narrow rounds outlast a check
    many = begin(Replicated(rule, replicas), batch_size, period, sigma)
    one = begin(rule, together, period, sigma)
    training.feed(many, x)
    training.feed(one, x)
    assert_alike(many, one, rtol=1e-12, atol=1e-12)


def parts(rule: Rule, count: int) -> tuple[Part, list[Part]]:
    """A start, and replicas that have learned from different samples."""
    start = begin(rule, 1, 10**6)
    states = [begin(rule, 1, 10**6) for _ in range(count)]
    for r, state in enumerate(states):
        training.feed(state, np.random.default_rng(r).random((20, 12)))
    return Part(start.rule_state, start.parameters), [Part(s.rule_state, s.parameters) for s in states]


def merged(rule: Rule, start: Part, replicas: list[Part]) -> Part:
    state = {name: value.copy() for name, value in start.state.items()}
    out = Part(state, start.parameters.copy())
    rule.merge(Round(start, replicas, [20] * len(replicas), BOUNDS), out, range(9))
    return out


def values(part: Part) -> dict[str, Any]:
    p = part.parameters
    learned = {"means": p.means, "scales": p.scales, "logits": p.logits, "log_dets": p.log_dets, **part.state}
    del learned["usual"]  # only averaged
    return learned


@names
def test_one_replica_is_itself(rule: Rule) -> None:
    start, [replica] = parts(rule, 1)
    for name, expected in values(replica).items():
        np.testing.assert_allclose(values(merged(rule, start, [replica]))[name], expected, rtol=1e-12, atol=1e-13)


@names
def test_order_does_not_matter(rule: Rule) -> None:
    start, replicas = parts(rule, 4)
    here, there = values(merged(rule, start, replicas)), values(merged(rule, start, replicas[::-1]))
    for name, found in here.items():
        np.testing.assert_allclose(found, there[name], rtol=1e-12, atol=1e-14, err_msg=name)


@names
@pytest.mark.parametrize("replicas", [4, 16])
def test_many_replicas_stay_within_what_they_have_seen(rule: Rule, replicas: int) -> None:
    """Adding up the changes of replicas that all went the same way would overshoot."""
    state = begin(Replicated(rule, replicas), 1, 200 * replicas)
    training.feed(state, np.random.default_rng(0).random((2000 * replicas, 12)) * 0.1 + 5)
    means = state.parameters.means
    assert np.isfinite(means).all()
    assert means.min() >= -1e-9
    assert means.max() <= 5.1 + 1e-9


class TestEstimator:
    rng = np.random.default_rng(0)
    x = rng.random((3000, 20)).astype(np.float32)

    def model(self, rule: object = "natural", **settings: Any) -> StreamingGaussianMixture:
        return StreamingGaussianMixture(9, rule=rule, random_state=0, n_jobs=2, **settings)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem", StochasticEM(start_from="kmeans", accumulate=100)])
    @pytest.mark.parametrize("batch_size", [1, 16])
    @pytest.mark.parametrize("chunk", [7, 500, 3000])
    def test_chunks_change_nothing(self, rule: object, batch_size: int, chunk: int) -> None:
        whole = self.model(rule, batch_size=batch_size, period=150).partial_fit(self.x)
        cut = self.model(rule, batch_size=batch_size, period=150)
        for start in range(0, 3000, chunk):
            cut.partial_fit(self.x[start : start + chunk])
        np.testing.assert_array_equal(whole.means_, cut.means_)
        np.testing.assert_array_equal(whole.precisions_, cut.precisions_)
        np.testing.assert_array_equal(whole.weights_, cut.weights_)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem", StochasticEM(start_from="kmeans", accumulate=100)])
    @pytest.mark.parametrize("cut", [50, 1234])
    def test_a_saved_round_goes_on(self, rule: object, cut: int, tmp_path: Any) -> None:
        whole = self.model(rule, period=150).partial_fit(self.x)
        first = self.model(rule, period=150).partial_fit(self.x[:cut])
        first.save(tmp_path / "model.safetensors")
        second = StreamingGaussianMixture.load(tmp_path / "model.safetensors").partial_fit(self.x[cut:])
        np.testing.assert_array_equal(whole.means_, second.means_)
        np.testing.assert_array_equal(whole.precisions_, second.precisions_)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
    def test_reports_do_not_depend_on_chunks(self, rule: str) -> None:
        whole, cut = self.model(rule, period=100), self.model(rule, period=100)
        expected = whole._learn(self.x)
        found = [c for start in range(0, 3000, 70) for c in cut._learn(self.x[start : start + 70])]
        assert found == expected

    def test_checks_that_matter_are_not_left_out(self) -> None:
        """Replicas outlast a check only where nothing hangs on it."""
        x = np.tile(self.x, (20, 1))
        one, two = (StreamingGaussianMixture(9, rule="sgd", period=200, n_jobs=n, random_state=0) for n in (1, 2))
        assert one.partial_fit(x).learning_rate_ == two.partial_fit(x).learning_rate_ == 0.001
        sem = self.model("sem", period=100).partial_fit(self.x[:150])
        assert not sem._training.rule_state["accumulating"]
        natural = self.model(sigma_init=0.26, period=100).partial_fit(self.x[:1500])
        assert natural.sigma_ == 0.01
        assert natural._training.rule_state["narrow_at"] > 0

    @pytest.mark.parametrize("rule", ["natural", "sem"])
    def test_half_life_does_not_depend_on_threads(self, rule: str) -> None:
        """After one half-life of new data about half of the way is gone."""
        rng = np.random.default_rng(0)
        old, new = (rng.normal(m, 0.25, (4000, 5)).astype(np.float32) for m in (0.2, 0.8))
        for threads in (1, 2, 4):
            model = StreamingGaussianMixture(
                1, rule=rule, half_life=1000, period=100, n_jobs=threads, random_state=0
            ).partial_fit(old)
            moved = (model.partial_fit(new[:1000]).means_.mean() - 0.2) / 0.6
            assert 0.4 < moved < 0.6, (threads, moved)

    @pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
    def test_an_absurd_sample_leaves_nothing_that_cannot_be_saved(self, rule: str, tmp_path: Any) -> None:
        x = self.x.copy()
        x[700] = 1e30
        model = self.model(rule, period=100).partial_fit(x[:500]).partial_fit(x[500:])
        model.save(tmp_path / "model.safetensors")
        again = StreamingGaussianMixture.load(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(again.means_, model.means_)

    def test_twice_the_same(self) -> None:
        np.testing.assert_array_equal(self.model().partial_fit(self.x).means_, self.model().partial_fit(self.x).means_)

    def test_answers_do_not_depend_on_threads(self) -> None:
        model = self.model().partial_fit(self.x)
        alone = StreamingGaussianMixture(9, random_state=0)
        alone._training, alone.n_features_in_ = model._training, 20
        np.testing.assert_array_equal(model.score_samples(self.x), alone.score_samples(self.x))

    def test_the_first_bad_row_is_named(self) -> None:
        x = self.x.copy()
        x[2900, 3] = x[2000, 7] = np.nan
        with pytest.raises(ValueError, match="row 2000 of X contains NaN at feature 7"):
            self.model().partial_fit(x)

    def test_no_threads(self) -> None:
        with pytest.raises(ValueError, match="n_jobs is 0"):
            StreamingGaussianMixture(n_jobs=0).fit(self.x)


def test_a_damaged_replica_is_refused(tmp_path: Any) -> None:
    from safetensors import safe_open
    from safetensors.numpy import save_file

    from streamgmm.checkpoint import ModelFileError

    path = tmp_path / "model.safetensors"
    TestEstimator().model().partial_fit(TestEstimator.x[:70]).save(path)
    with safe_open(path, framework="numpy") as file:
        metadata, tensors = file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    name = "rule.replica1.means."
    assert name in tensors
    save_file({**tensors, name: tensors[name][:-1].copy()}, path, metadata)
    with pytest.raises(ModelFileError, match="replica1"):
        StreamingGaussianMixture.load(path)
