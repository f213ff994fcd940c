"""Online control of false discoveries."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from streamgmm.core import reference as eq
from streamgmm.errors import SettingError
from streamgmm.monitoring import DiscoveryState, discover
from streamgmm.monitoring.false_discovery import MEMORY, SPANS

ROWS = 100_000


def stream(seed: int, share: float, burst: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """p-values, uniform for ordinary rows and about 1e-7 for anomalous ones, and which rows are anomalous."""
    rng = np.random.default_rng(seed)
    anomalous = np.zeros(ROWS, bool)
    for start in rng.integers(0, ROWS - burst, round(ROWS * share / burst)):
        anomalous[start : start + burst] = True
    return np.where(anomalous, 1e-7 * rng.random(ROWS) ** -0.8, rng.random(ROWS)), anomalous


def assert_at_most(rate: float, found: list[float]) -> None:
    """The mean over streams is not above the rate by more than chance."""
    assert np.mean(found) < rate + 3 * np.std(found) / np.sqrt(len(found))


@given(st.lists(st.sampled_from([1e-8, 1e-6, 1e-4, 2e-3, 0.02, 0.5]), max_size=40))
def test_levels_follow_the_reference(p_values: list[float]) -> None:
    """[E30]"""
    anomalous, _ = discover(DiscoveryState(), np.array(p_values))
    earlier: list[int] = []
    for t, (p, found) in enumerate(zip(p_values, anomalous.tolist(), strict=True), 1):
        assert found == (p <= eq.discovery_level(t, earlier, 0.05, MEMORY, list(SPANS)))
        if found:
            earlier.append(t)


@given(st.integers(0, 100), st.lists(st.integers(0, 3000), max_size=6))
def test_chunks_leave_no_trace(seed: int, cuts: list[int]) -> None:
    """Bit-identical for any chunking, with the state stored as JSON in between."""
    rng = np.random.default_rng(seed)
    p_values = rng.random(3000) ** rng.choice([1, 6], 3000, p=[0.9, 0.1])
    expected, last = discover(DiscoveryState(), p_values)
    state, found = DiscoveryState(), []
    for part in np.split(p_values, sorted(cuts)):
        anomalous, state = discover(state, part)
        found += anomalous.tolist()
        state = DiscoveryState.from_facts(json.loads(json.dumps(state._asdict())))
    assert found == expected.tolist()
    assert state == last


@pytest.mark.parametrize(("share", "burst"), [(0.001, 1), (0.01, 1), (0.01, 20), (0.1, 100)])
def test_few_discoveries_are_false_and_most_anomalies_are_found(share: float, burst: int) -> None:
    rates, powers = [], []
    for seed in range(40):
        p_values, anomalous = stream(seed, share, burst)
        found, _ = discover(DiscoveryState(), p_values)
        rates.append((found & ~anomalous).sum() / found.sum())
        powers.append(found[anomalous].mean())
    assert_at_most(0.05, rates)
    assert np.mean(powers) > 0.9


@pytest.mark.parametrize("rate", [0.02, 0.2])
def test_the_smoothed_rate_holds_at_every_moment(rate: float) -> None:
    """What the method promises, also for a stream without anomalies at first and many later."""
    age = np.arange(ROWS)[::-1]
    weights = (1 - 1 / MEMORY) ** age
    ends = (ROWS // 2, ROWS * 3 // 5, ROWS)
    smoothed: dict[int, list[float]] = {end: [] for end in ends}
    for seed in range(20):
        p_values, anomalous = stream(seed, 0.002)
        p_values[: ROWS // 2] = np.random.default_rng(seed).random(ROWS // 2)
        anomalous[: ROWS // 2] = False
        found, _ = discover(DiscoveryState(), p_values, rate)
        for end in ends:
            w = weights[ROWS - end :]
            smoothed[end].append((w * (found & ~anomalous)[:end]).sum() / ((w * found[:end]).sum() + 1))
    for end in ends:
        assert_at_most(rate, smoothed[end])
    assert np.mean(smoothed[ROWS]) > rate / 4  # the rate is used, not avoided


def test_a_quiet_stream_stays_awake() -> None:
    """After a million ordinary rows, p-values that a run can resolve are still discoveries; few others are."""
    state, false = DiscoveryState(), 0
    rng = np.random.default_rng(0)
    for _ in range(10):
        found, state = discover(state, rng.random(ROWS))
        false += found.sum()
    assert false <= 12  # one in 200 000 rows, and those that follow closely
    assert discover(state, np.array([4e-6]))[0].all()


def test_values_that_are_no_p_values() -> None:
    found, state = discover(DiscoveryState(), np.array([np.nan, 1e-9, np.nan, 0.0]))
    assert found.tolist() == [False, True, False, True]
    assert state.row == 4
    assert discover(state, np.empty(0))[1] == state
    for rate in (0.0, 1.0, float("nan")):
        with pytest.raises(SettingError, match=r"rate is .*; expected a number within \(0, 1\)"):
            discover(state, np.empty(0), rate)
