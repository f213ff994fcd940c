"""A rule of one's own, as the docstring of ``Rule`` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.mixture import GaussianMixture

from streamgmm import ModelFileError, Rule, StreamingGaussianMixture, register_rule
from streamgmm.core.rules import RULES, MomentState, rule_from_settings
from streamgmm.native import NaturalStep
from tests.conftest import assert_same_training, scales

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@dataclass(frozen=True)
class ConstantRate(Rule):
    """Moves each winner by a constant share of the way."""

    name = "constant-rate"
    rate: float = 0.02

    def start(self, parameters: Any, context: Any) -> MomentState:
        return MomentState.of(parameters, count=1 / self.rate)

    def advance(self, state: Any, parameters: Any, work: Any) -> Any:
        step = NaturalStep(growth=0.0, count_max=1 / self.rate, scale_bounds=work.bounds)
        return parameters.kind.natural_steps(parameters, state.moments, state.counts, state.received, work, step)

    def learning_rate(self, state: Any) -> float:
        return self.rate


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    assert register_rule(ConstantRate) is ConstantRate
    yield
    RULES.pop(ConstantRate.name, None)


@dataclass
class CountingState(MomentState):
    steps: int = 0
    loudest: float = 0.0


@dataclass(frozen=True)
class Counting(ConstantRate):
    """Also counts its steps, which replicas must add up."""

    name = "counting"

    def start(self, parameters: Any, context: Any) -> CountingState:
        return CountingState.of(parameters, count=1 / self.rate)

    def advance(self, state: Any, parameters: Any, work: Any) -> Any:
        steps = super().advance(state, parameters, work)
        state.steps, state.loudest = state.steps + len(steps.losses), 1.5
        return steps


@pytest.mark.parametrize("jobs", [1, 2, 3])
def test_numbers_of_a_state_are_merged(jobs: int) -> None:
    trained = model(Counting(), n_jobs=jobs).partial_fit(clusters(5000))
    tensors = trained.trainer_.tensors()
    assert tensors["rule.steps"] == 5000
    assert tensors["rule.loudest"] == 1.5
    assert tensors["rule.received"].sum() == pytest.approx(5000)


def test_a_name_belongs_to_one_class() -> None:
    with pytest.raises(ValueError, match="'natural' is already registered by streamgmm"):

        @register_rule
        @dataclass(frozen=True)
        class Other(ConstantRate):
            name = "natural"

    assert register_rule(ConstantRate) is ConstantRate  # the same one may come again


def clusters(count: int = 20_000) -> np.ndarray:
    rng = np.random.default_rng(0)
    means = np.array([[0.2, 0.2, 0.2], [0.2, 0.8, 0.8], [0.8, 0.2, 0.8], [0.8, 0.8, 0.2]])
    return rng.normal(means[rng.integers(4, size=count)], 0.1)


def model(rule: Any = "constant-rate", **settings: Any) -> StreamingGaussianMixture:
    settings = {"period": 200, "precision_max": 500, "random_state": 0, **settings}
    return StreamingGaussianMixture(4, rule=rule, **settings)


@pytest.mark.parametrize("jobs", [1, 2, 3])
@scales
def test_it_learns(jobs: int, scale: str) -> None:
    """With the merging that every rule inherits."""
    x = clusters(40_000)
    ours = model(n_jobs=jobs, period=200 * jobs, scale=scale, n_epochs=1).fit(x)
    assert ours.learning_rate_ == 0.02
    assert ours.sigma_ == 0.01
    theirs = GaussianMixture(4, covariance_type="diag", random_state=0).fit(x)
    assert ours.score(x) > theirs.score(x) - 0.1


def test_by_name_and_as_an_object() -> None:
    x = clusters(2000)
    by_name, by_object = model().partial_fit(x), model(ConstantRate()).partial_fit(x)
    np.testing.assert_array_equal(by_name.means_, by_object.means_)
    assert (model(ConstantRate(0.1)).partial_fit(x).means_ != by_name.means_).any()
    assert rule_from_settings(ConstantRate(0.1).settings()) == ConstantRate(0.1)


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize("rule", ["constant-rate", ConstantRate(0.1)], ids=str)
@scales
def test_chunks_and_files_change_nothing(rule: Any, jobs: int, scale: str, tmp_path: Path) -> None:
    x = clusters(2000)
    whole = model(rule, n_jobs=jobs, batch_size=4, scale=scale).partial_fit(x)
    cut = model(rule, n_jobs=jobs, batch_size=4, scale=scale).partial_fit(x[:701]).partial_fit(x[701:1309])
    cut.save(tmp_path / "model")
    cut = StreamingGaussianMixture.load(tmp_path / "model")
    assert cut.rule == rule
    assert_same_training(cut.partial_fit(x[1309:]).trainer_, whole.trainer_)


def test_drift_and_resizing() -> None:
    ours = model(reheat=True).partial_fit(clusters())
    checks = ours.trainer_.feed(1.5 - 2 * clusters())
    assert sum(check.drift for check in checks) == 1
    ours.trainer_.resize([3, 2, 1, 0, 0, 1])
    ours.trainer_.feed(clusters(2000))
    assert ours.trainer_.parameters.weights.sum() == pytest.approx(1)


@pytest.mark.parametrize("rule", ["constant-rate", ConstantRate(0.1)], ids=str)
def test_without_it_a_file_names_what_to_import(rule: Any, tmp_path: Path) -> None:
    model(rule).partial_fit(clusters(300)).save(tmp_path / "model")
    del RULES["constant-rate"]
    with pytest.raises(
        ModelFileError, match=f"rule 'constant-rate', which is not registered. Import {__name__}"
    ) as seen:
        StreamingGaussianMixture.load(tmp_path / "model")
    assert "damaged" not in str(seen.value)
    with pytest.raises(ValueError, match="rule is 'constant-rate'; expected 'natural', 'sem' or 'sgd', or a Rule"):
        model().fit(clusters(300))
