"""[E29] Explanations: a feature is judged by what the others lead one to expect."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest

from streamgmm import Mixture, StreamingAnomalyDetector, StreamingGaussianMixture
from streamgmm.core import explanation
from streamgmm.core import reference as eq


def plant(count: int, seed: int = 0) -> np.ndarray:
    """Eight sensors that follow one of four states, in units from 1e-3 to 1e6."""
    rng = np.random.default_rng(seed)
    states = np.random.default_rng(5).normal(0, 3, (4, 8))
    return rng.normal(states[rng.integers(4, size=count)], 1.0) * np.logspace(-3, 6, 8)


@pytest.mark.parametrize("block", [1, 1 << 20])
def test_expectations_are_those_of_the_reference(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explanation, "FEATURES_AT_ONCE", block)
    rng = np.random.default_rng(0)
    x, ξ = rng.normal(0, 2, (7, 5)) * ([[1.0]] * 4 + [[9.0]] * 3), rng.normal(0, 1, 3)
    μ, v = rng.normal(0, 2, (3, 5)), rng.uniform(0.3, 2, (3, 5))
    found = explanation.expect_from_others(x, explanation.Independent.of(np.log(eq.weights(ξ)), μ, v))
    for n, d in np.ndindex(7, 5):
        mean, variance = eq.expected_from_others(x[n], ξ, μ, v, d)
        assert found.mean[n, d] == pytest.approx(mean, rel=1e-9)
        assert found.variance[n, d] == pytest.approx(variance, rel=1e-9)


def test_a_missing_feature_is_neither_a_reason_nor_evidence() -> None:
    m = Mixture.from_parameters([0.5, 0.5], [[0.0, 0, 0], [9.0, 9, 9]], np.ones((2, 3)))
    reasons = m.explain([[9.0, np.nan, 0.0]])[0]
    assert sorted(r.feature for r in reasons) == [0, 2]
    assert sum(r.share for r in reasons) == pytest.approx(1.0)
    shorter = m.marginal([1, 2]).explain([[0.5, 0.0]])[0]
    assert [r[1:] for r in m.explain([[np.nan, 0.5, 0.0]])[0]] == [r[1:] for r in shorter]


@cache
def fitted_detector() -> StreamingAnomalyDetector:
    detector = StreamingAnomalyDetector(StreamingGaussianMixture(16, random_state=0))
    return detector.fit(pd.DataFrame(plant(8000), columns=[f"sensor{i}" for i in range(8)]))


@pytest.mark.parametrize("fault", ["offset", "noise", "stuck"])
def test_the_faulty_sensor_comes_first(fault: str) -> None:
    x, test, detector = plant(8000), plant(400, seed=1), fitted_detector()
    unit, names = x.std(0), detector.feature_names_in_.tolist()
    rng = np.random.default_rng(2)
    right = total = 0
    for d in range(8):
        odd = test.copy()
        if fault == "offset":
            odd[:, d] += 5 * unit[d]
        elif fault == "noise":
            odd[:, d] += 10 * unit[d] * rng.normal(0, 1, len(odd))
        else:
            odd[:, d] = x[:, d].max() + 2 * unit[d]
        frame = pd.DataFrame(odd, columns=names)
        flagged = detector.predict(frame) < 0
        reasons = detector.explain(frame[flagged], most=2)
        assert all(len(row) == 2 and row[0].share >= row[1].share for row in reasons)
        right += sum(row[0].feature == names[d] for row in reasons)
        total += len(reasons)
    assert total > 1000
    assert right >= 0.95 * total


def test_a_fault_of_the_past_does_not_explain_another_one() -> None:
    """A component that has learned rows with a fault is wide, and nearer to any other fault than the others are."""
    usual, past = [20.0, 30.0, 5.0], [-5.0, 31.0, 5.0]
    m = Mixture.from_parameters([0.999, 0.001], [usual, past], [[1.0, 0.1, 1.0], [0.04, 1.0, 1.0]])
    reasons = m.explain([[20.0, 4.0, 5.0]])[0]
    assert reasons[0].feature == 1
    assert reasons[0].expected == pytest.approx(30.0, abs=0.01)
    assert next(r for r in reasons if r.feature == 0).expected == pytest.approx(20.0, abs=0.1)


def test_answers_are_in_the_units_of_the_data() -> None:
    x = plant(8000)
    model = StreamingGaussianMixture(16, random_state=0).fit(x)
    row = x[:1].copy()
    row[0, 3] += 20 * x[:, 3].std()
    reason = model.mixture_.explain(row)[0][0]
    assert reason.feature == 3
    assert reason.value == row[0, 3]
    assert reason.low < reason.expected < reason.high < reason.value
    assert abs(reason.expected - x[0, 3]) < 5 * x[:, 3].std()


def test_a_feature_that_never_varied_explains_everything() -> None:
    x = np.column_stack([plant(2000), np.full(2000, 7.0)])
    model = StreamingGaussianMixture(4, random_state=0).fit(x)
    row = x[:1].copy()
    row[0, 8], row[0, 0] = 7.5, 1e3
    reason = model.mixture_.explain(row)[0][0]
    assert (reason.feature, reason.share, reason.value, reason.expected) == (8, 1.0, 7.5, 7.0)


def test_an_estimator_explains_by_the_names_of_columns() -> None:
    frame = pd.DataFrame(plant(2000)[:, :3], columns=["flow", "level", "load"])
    model = StreamingGaussianMixture(4, random_state=0).fit(frame)
    strange = frame[:1].assign(level=9.0)
    assert model.explain(strange, most=1) == model.mixture_.explain(strange.to_numpy(), list(frame.columns), 1)
    assert model.explain(strange, most=1)[0][0].feature == "level"


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([[1.0]], {}, r"samples have shape \(1, 1\); expected \(samples, 2\)"),
        ([[1.0, 2.0]], {"names": ["a"]}, "there are 1 names of features; expected 2"),
        ([[1.0, 2.0]], {"most": -1}, "most is -1; expected a number of features"),
    ],
)
def test_what_does_not_fit_is_refused(rows: list[list[float]], options: dict[str, Any], message: str) -> None:
    m = Mixture.from_parameters([1.0], [[0.0, 0.0]], [[1.0, 1.0]])
    with pytest.raises(ValueError, match=message):
        m.explain(rows, **options)


def loaded_machine() -> np.ndarray:
    """Temperature, power, speed and a valve that is open or shut: all follow the load."""
    rng = np.random.default_rng(0)
    on = rng.integers(2, size=4000)
    load = np.where(on, 0.9, 0.1) + rng.normal(0, 0.02, 4000)
    noise = rng.normal(0, [0.4, 0.8, 8.0, 0.0], (4000, 4))
    return np.column_stack([290 + 25 * load, 80 * load, 3000 * load, 100.0 * on]) + noise


@pytest.mark.parametrize("kind", ["diag", "full", "low_rank"])
def test_a_feature_at_fault_does_not_put_the_blame_on_others(kind: str) -> None:
    """Nor do two of them, or one that almost never varies within a component."""
    model = StreamingGaussianMixture(2, covariance_type=kind, rank=2, random_state=0).fit(loaded_machine())
    wrong = [
        ([39.35, 72, 2700, 100], {0}),  # in degrees of another kind
        ([39.35, 8, 300, 0], {0}),
        ([312.5, -40, 2700, 100], {1}),
        ([312.5, 72, 900, 100], {2}),
        ([292.5, 8, 300, 100], {3}),
        ([312.5, 72, 2700, 0], {3}),
        ([39.35, 72, 9000, 100], {0, 2}),
    ]
    for row, features in wrong:
        reasons = model.explain([row])[0]
        assert {reason.feature for reason in reasons[: len(features)]} == features
        assert sum(reason.share for reason in reasons[: len(features)]) > 0.95


def test_the_odd_one_of_three_that_move_together() -> None:
    covariance = np.full((3, 3), 0.9) + 0.1 * np.eye(3)
    m = Mixture.from_parameters([1.0], np.zeros((1, 3)), [np.linalg.inv(covariance)], covariance_type="full")
    (first, *_), (one, other, *_) = m.explain([[-20.0, 10.0, 10.0], [1.0, -0.5, 0.3]])
    assert (first.feature, round(first.share, 2)) == (0, 1.0)
    assert first.expected > 9
    assert {one.feature, other.feature} == {0, 1}  # nothing tells which of two is wrong
