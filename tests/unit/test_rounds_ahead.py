"""Replicas take a whole round at once, and take back what comes after a check that does more than report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from streamgmm.core.control import Check, Control
from streamgmm.core.trainer import Trainer
from streamgmm.engines import Threads
from streamgmm.engines.threads import RoundState
from tests.conftest import assert_same_training, make_trainer, scales

RULES = ["natural", "sgd", "sem"]


def changing(count: int = 40_000) -> np.ndarray:
    """Four clusters that move all at once, not far from the middle of the stream."""
    rng = np.random.default_rng(0)
    means = np.array([[0.2, 0.2, 0.2], [0.2, 0.8, 0.8], [0.8, 0.2, 0.8], [0.8, 0.8, 0.2]])
    x = rng.normal(means[rng.integers(4, size=count)], 0.1)
    x[count // 2 + 701 :] += 0.7
    return x


def trainer(rule: str, threads: int = 2, **settings: Any) -> Trainer:
    return make_trainer(3, threads=threads, **{"n_components": 4, "rule": rule, "period": 150, **settings})


@pytest.fixture
def taken_back(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Steps that were taken back."""
    found: list[int] = []
    rewind = Threads.rewind

    def spy(self: Threads, rule: Any, state: RoundState) -> None:
        if state.ahead:
            found.append(sum(len(taken.steps.losses) for taken in state.ahead))
        rewind(self, rule, state)

    monkeypatch.setattr(Threads, "rewind", spy)
    return found


@pytest.mark.parametrize(
    ("rule", "settings"),
    [
        *((rule, more) for rule in RULES for more in ({}, {"reheat": True}, {"reheat": True, "batch_size": 4})),
        ("natural", {"half_life": 3000}),
        ("sem", {"half_life": 3000}),
    ],
    ids=str,
)
@pytest.mark.parametrize("threads", [2, 3])
@scales
def test_one_round_at_once_gives_what_check_after_check_gives(
    rule: str, threads: int, settings: dict[str, Any], scale: str, taken_back: list[int]
) -> None:
    whole, cut = (trainer(rule, threads, scale=scale, **settings) for _ in range(2))
    expected = whole.feed(x := changing())
    drifts = [check.samples for check in expected if check.drift]
    assert len(drifts) >= 1
    assert sum(taken_back) > 0
    found = [check for start in range(0, len(x), 100) for check in cut.feed(x[start : start + 100])]
    assert found == expected
    assert_same_training(whole, cut)


@pytest.mark.parametrize("rule", RULES)
def test_an_interruption_takes_back_what_is_not_reported(
    rule: str, taken_back: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    x = changing()[:12_000]
    whole, cut = trainer(rule), trainer(rule)
    check = Control.check

    def interrupted(self: Control, *figures: Any, **more: Any) -> Check:
        found = check(self, *figures, **more)
        if found.samples == 10_500:
            raise KeyboardInterrupt
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Control, "check", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cut.feed(x)
    assert sum(taken_back) > 0
    cut.settle()
    whole.feed(x[:10_500])
    assert_same_training(whole, cut)
    whole.feed(x[10_500:])
    cut.feed(x[10_500:])
    assert_same_training(whole, cut)
