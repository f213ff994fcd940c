"""The river contract, and features that come and go."""

from __future__ import annotations

import itertools
import random
from typing import Any

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("river", reason="river is not installed")
from river import base, checks, cluster, compose, datasets, preprocessing

from streamgmm.estimators.river import AnomalyDetector, OnlineAnomalyDetector, OnlineMixture

FACES = [OnlineMixture, OnlineAnomalyDetector]


class Cards:
    """In place of a data set that river would fetch: 29 numbers, one sample in fifty odd."""

    def take(self, count: int) -> Any:
        return itertools.islice(self, count)

    def __iter__(self) -> Any:
        rng = np.random.default_rng(0)
        while True:
            odd = bool(rng.random() < 0.02)
            values = rng.normal(1.5 if odd else 0.3, 0.2, 29)
            yield {f"V{i}": float(v) for i, v in enumerate(values)}, odd


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("rule", ["natural", *(pytest.param(rule, marks=pytest.mark.soak) for rule in ("sgd", "sem"))])
def test_rivers_own_checks(face: type, rule: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(datasets, "CreditCard", Cards)
    checks.check_estimator(face(rule=rule, seed=1))


def checks_on_data() -> list[str]:
    """River runs these for other kinds of models only; ours pass them, too."""
    wanted = ["learn_one", "pickling", "shuffle_features_no_impact", "emerging_features", "disappearing_features",
              "radically_disappearing_features", "predict_one_pure", "predict_one_before_any_learn",
              "no_state_aliasing_with_input", "clone_is_independent"]  # fmt: skip
    return [f"check_{name}" for name in wanted if hasattr(checks.common, f"check_{name}")]


@pytest.mark.parametrize("name", checks_on_data())
def test_checks_on_data(name: str) -> None:
    check = getattr(checks.common, name)
    try:
        check(cluster.KMeans(seed=1), list(Cards().take(5)))
    except TypeError:  # as in river 0.21
        pytest.skip("this check hands labels to clusterers, and river's own do not take them")
    check(OnlineMixture(seed=1), list(Cards().take(200)))


def test_they_are_what_river_calls_them() -> None:
    assert isinstance(OnlineMixture(), base.Clusterer)
    assert isinstance(OnlineAnomalyDetector(), AnomalyDetector)
    assert isinstance(cluster.KMeans(), base.Clusterer)


def samples(count: int, seed: int = 0) -> list[dict[str, float]]:
    rng = random.Random(seed)
    return [{n: rng.gauss(0.2 + 0.6 * (i % 2), 0.1) for n in "abcd"} for i in range(count)]


@pytest.mark.parametrize("face", FACES)
def test_many_is_one_after_the_other(face: type) -> None:
    one, many = face(seed=0), face(seed=0)
    for x in samples(500):
        one.learn_one(x)
    many.learn_many(pd.DataFrame(samples(500)))
    np.testing.assert_array_equal(one.mixture_.means, many.mixture_.means)


def test_in_a_pipeline() -> None:
    model = compose.Pipeline(preprocessing.MinMaxScaler(), OnlineMixture(n_components=4, seed=0))
    for x in samples(3000):
        model.learn_one({n: 1000 * v + 7 for n, v in x.items()})
    low, high = (model.predict_one(dict.fromkeys("abcd", 1000 * v + 7)) for v in (0.2, 0.8))
    assert low != high


@pytest.mark.parametrize("rule", ["natural", "sgd", "sem"])
def test_a_feature_that_appears_is_learned(rule: str) -> None:
    model = OnlineAnomalyDetector(n_components=4, rule=rule, seed=0)
    for x in samples(9000 if rule == "sgd" else 3000):  # steps of SGD are small
        model.learn_one({n: x[n] for n in "abc"})
    before = model.score_one({"a": 0.2, "b": 0.2, "c": 0.2})
    assert model.score_one({"a": 0.2, "b": 0.2, "c": 0.2, "d": 9.0}) == before  # it knows nothing of d
    for x in samples(6000, seed=1):
        model.learn_one(x)
    assert model.score_one({"a": 0.2, "b": 0.2, "c": 0.2}) == pytest.approx(before, abs=1.0)
    usual, odd = (model.score_one({"a": 0.2, "b": 0.2, "c": 0.2, "d": d}) for d in (0.2, 3.0))
    assert odd > usual + 5


@pytest.mark.parametrize("face", FACES)
def test_none_is_missing_and_infinity_is_refused(face: type) -> None:
    one, other = face(seed=0), face(seed=0)
    for x in samples(250):
        one.learn_one(x)
        other.learn_one(x)
    one.learn_one({"a": 0.1, "b": None})
    other.learn_one({"a": 0.1})
    one.learn_one({})
    np.testing.assert_array_equal(one.mixture_.means, other.mixture_.means)
    with pytest.raises(ValueError, match="inf at feature 1"):
        one.learn_one({"a": 0.1, "b": float("inf")})
    np.testing.assert_array_equal(one.mixture_.means, other.mixture_.means)


@pytest.mark.parametrize("face", FACES)
def test_what_was_learned_can_be_seen(face: type) -> None:
    model = face(n_components=4, seed=0)
    assert not hasattr(model, "mixture_")
    for x in samples(300):
        model.learn_one(x)
    assert model.feature_names_ == ["a", "b", "c", "d"]
    before = model.mixture_.means
    assert before.shape == (4, 4)
    model.learn_one(samples(1)[0])
    assert (model.mixture_.means != before).any()  # it was a copy
    ask = model.predict_one if hasattr(model, "predict_one") else model.score_one
    assert ask({"a": 0.2, "colour": "red"}) == ask({"a": 0.2})  # what it does not know may be anything


def test_columns_of_the_same_name_are_refused_and_leave_the_model_alone() -> None:
    model = OnlineMixture(4, seed=0)
    twice = pd.DataFrame(np.zeros((3, 3)), columns=["a", "b", "a"])
    with pytest.raises(ValueError, match="several columns named 'a'"):
        model.learn_many(twice)
    model.learn_many(pd.DataFrame(samples(500)))
    assert model.predict_one(samples(1)[0]) in range(4)
